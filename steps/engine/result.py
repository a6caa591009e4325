"""What a run of apply or destroy has done so far, and the summary event that ends it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.pricing.book import hourly_cost


@dataclass
class RunResult:
    """Counts, failures, and the resources that exist (and are billed) when the run ends."""

    counts: Counter[str] = field(default_factory=Counter)  # created, adopted, kept, deleted
    failed: list[dict[str, str]] = field(default_factory=list)
    existing: dict[str, Resource] = field(default_factory=dict)
    foreign: list[Resource] = field(
        default_factory=list
    )  # found by destroy; this deployment did not create them

    def add_failure(self, entry: dict[str, str]) -> None:
        """Record a failure once; a limit, for instance, stops many resources for one reason."""
        if entry not in self.failed:
            self.failed.append(entry)

    def summary(self, seconds: float, next_command: str) -> Event:
        return events.summary(
            self.counts,
            failed=self.failed,
            seconds=seconds,
            usd_per_hour=hourly_cost(list(self.existing.values()))[0],
            next_command=next_command,
        )


def failure(id: str, title: str, detail: str = "", fix: str = "") -> dict[str, str]:
    """One entry of the summary's list `failed`."""
    return {"id": id, "title": title, "detail": detail, "fix": fix}


def failure_of(id: str, error: WizardError) -> dict[str, str]:
    return failure(id, error.title, error.detail, error.fix)
