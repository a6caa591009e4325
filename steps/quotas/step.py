"""Step 2, Quotas and reservation: which machines, how many, and who has kept them. Creates nothing; the GPU pool uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import Resource, Step
from grpo_wizard.steps.quotas.answers import QuotasAnswers
from grpo_wizard.steps.quotas.checks import CHECKS

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _resources(answers: Answers) -> Sequence[Resource]:
    return []


STEP = Step(
    answers=QuotasAnswers,
    title="Quotas and reservation",
    purpose="Which machines, and who has kept them for you.",
    checks=CHECKS,
    resources=_resources,
)
