"""Step 2, Quotas and reservation: the GPU machines and where they come from. Creates no resource; the GPU pool uses the answers."""

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
    purpose="The GPU machines and the reservation that provides them.",
    checks=CHECKS,
    resources=_resources,
)
