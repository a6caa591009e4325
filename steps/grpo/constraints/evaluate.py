"""The rules that training parameters must keep, as NeMo RL v0.5.0 enforces them: one table, R1 to R22 (numbers of nemo-rl.md C2).

Each would end a run after minutes of set-up, so each is said before a machine is asked for. Overrides count as they stand.
"""

from __future__ import annotations

from collections.abc import Iterator

from grpo_wizard.steps.core.model import Answers, Finding
from grpo_wizard.steps.grpo.constraints import batching, config, parallelism
from grpo_wizard.steps.grpo.constraints.model import Broken, Rule, Run

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *parallelism.RULES,
            *batching.RULES,
            *config.RULES,
            batching.GROUPS,
            batching.ROWS,
            parallelism.PODS,
        ),
        key=lambda rule: int(rule.id[1:]),
    )
)


def broken(answers: Answers) -> Iterator[tuple[Rule, Broken]]:
    """Every rule that is not kept, in the table's order."""
    run = Run.of(answers)
    for rule in RULES:
        for each in rule.judge(run):
            yield rule, each


def broken_rules(answers: Answers) -> Iterator[Finding]:
    """The same as findings: each with its rule and NeMo RL's own line."""
    for rule, each in broken(answers):
        yield Finding(
            each.level, each.text, f"rule {rule.id} of NeMo RL v0.5.0: {rule.what} ({rule.source})", each.fix
        )
