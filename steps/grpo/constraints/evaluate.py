"""The rules that training parameters must keep, as NeMo RL v0.5.0 enforces them: one table, R1 to R22 (numbers of nemo-rl.md C2).

Each would end a run after minutes of set-up, so each is said before a machine is asked for. Overrides count as they stand.
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
        key=lambda rule: int(rule.id[1:]),
    )
)


def violations(answers: Answers) -> Iterator[tuple[Constraint, Violation]]:
    """Every rule that is not kept, in the table's order."""
    run = RunLayout.from_answers(answers)
    for rule in CONSTRAINTS:
        for each in rule.validate(run):
            yield rule, each


def violation_findings(answers: Answers) -> Iterator[CheckFinding]:
    """The same as findings: each with its rule and NeMo RL's own line."""
    for rule, each in violations(answers):
        yield CheckFinding(
            each.level,
            each.text,
            f"rule {rule.id} of NeMo RL v0.5.0: {rule.description} ({rule.source})",
            each.fix,
        )
