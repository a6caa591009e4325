"""Preflight: all checks of all steps side by side. Creates nothing; one that cannot run warns, it does not block."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from grpo_wizard.state.errors import WizardError

from .step import Answers, Check, Finding, Step, World

_AT_ONCE = 24
_YET = ": cannot be looked up yet"


@dataclass(frozen=True)
class Checked:
    """What one check of one step saw."""

    step: str
    check: Check
    finding: Finding

    @property
    def id(self) -> str:
        return f"{self.step}.{self.check.id}"

    def document(self) -> dict[str, str]:
        seen = self.finding
        return {
            "id": self.id,
            "step": self.step,
            "level": seen.level,
            "title": seen.title,
            "detail": seen.detail,
            "fix": seen.fix,
        }


def run_check(step: str, check: Check, answers: Answers, world: World) -> list[Checked]:
    """Blocking; run it in a thread."""
    try:
        found = list(check.run(answers, world))
    except WizardError as error:
        found = [_unanswered(check.title, error)]
    return [Checked(step, check, finding) for finding in found]


def _unanswered(title: str, error: WizardError) -> Finding:
    """Of a check that could not run. Without a valid sign-in nothing at all can be done, and that blocks."""
    kind = getattr(error, "kind", "")
    if kind in ("auth", "clock"):
        return Finding("block", error.title, error.detail, error.command or error.fix)
    if kind == "api_disabled":
        again = "it is looked up again before anything billable is made"
        return Finding("info", f"{title}{_YET}", f"{error.title}; {again}")
    return Finding("warn", f"{title}: could not be looked up", error.detail or error.title, error.fix)


def _said_once(found: Iterable[Checked]) -> list[Checked]:
    """One trouble that stops several checks stands in the first of them."""
    blocked: set[tuple[str, str]] = set()
    kept = []
    for checked in found:
        seen = checked.finding
        if seen.level != "block" or (seen.title, seen.fix) not in blocked:
            kept.append(checked)
        if seen.level == "block":
            blocked.add((seen.title, seen.fix))
    return kept


async def run_checks(steps: Iterable[Step], answers: Answers, world: World) -> list[Checked]:
    """All of them, in the order of steps."""
    loop = asyncio.get_running_loop()
    # A pool of its own: asyncio's has no more threads than processors and four.
    with ThreadPoolExecutor(_AT_ONCE, "check") as pool:
        looks = [
            loop.run_in_executor(pool, run_check, step.name, check, answers, world)
            for step in steps
            for check in step.checks
        ]
        found = await asyncio.gather(*looks)
    return _said_once(checked for group in found for checked in group)


def blocking(found: Sequence[Checked]) -> list[Checked]:
    return [checked for checked in found if checked.finding.level == "block"]


def unanswered(found: Sequence[Checked]) -> list[Checked]:
    """What an API that is off, or enabled a moment ago and not in effect yet, left unknown."""
    return [checked for checked in found if checked.finding.title.endswith(_YET)]
