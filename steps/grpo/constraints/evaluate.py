"""The constraints on training parameters, R1 to R22, as NeMo RL v0.5.0 enforces them.

Each would end a run after minutes of setup, so all are checked before any machine is requested, overrides included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import CheckFinding
from grpo_wizard.steps.grpo.constraints import batching, config, parallelism
from grpo_wizard.steps.grpo.constraints.model import Constraint, RunLayout, Violation

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

CONSTRAINTS: tuple[Constraint, ...] = tuple(
    sorted(
        (
            *parallelism.CONSTRAINTS,
            *batching.CONSTRAINTS,
            *config.CONSTRAINTS,
            batching.GROUP_SIZE,
            batching.DATASET_SIZE,
            parallelism.RAY_RESOURCES,
        ),
        key=lambda constraint: int(constraint.id[1:]),
    )
)


def violations(answers: Answers) -> Iterator[tuple[Constraint, Violation]]:
    """Every broken constraint, in the table's order."""
    run = RunLayout.from_answers(answers)
    for constraint in CONSTRAINTS:
        for violation in constraint.validate(run):
            yield constraint, violation


def violation_findings(answers: Answers) -> Iterator[CheckFinding]:
    """The same as findings, each with its constraint and the line of NeMo RL that enforces it."""
    for constraint, violation in violations(answers):
        yield CheckFinding(
            violation.level,
            detail=f"{violation.text} ({constraint.id}: {constraint.description}; {constraint.source})",
            fix=violation.fix,
        )
