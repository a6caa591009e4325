"""A step's checks while its answers are being given: each by itself, in a thread, and only the newest look counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.model import Check, Step
from grpo_wizard.steps.engine import backoff as feeling
from grpo_wizard.steps.engine.preflight import CheckResult, fold_pending, inconclusive
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.widgets.checks import CheckRow

if TYPE_CHECKING:
    from grpo_wizard.tui.screens.step import StepScreen


class LiveChecks:
    """`run` starts checks; the screen's `show_findings` is called as answers come."""

    def __init__(self, screen: StepScreen, step: Step) -> None:
        self._screen, self._step = screen, step
        self._results: dict[str, list[CheckRow]] = {}
        self._pending: set[str] = set()
        self._inconclusive: dict[str, list[CheckResult]] = {}  # results of checks that wait for an API
        self._activity = ""

    @property
    def needs_apis(self) -> bool:
        """Whether more could be seen with the project's APIs on; not while they are being switched on."""
        return bool(self._inconclusive) and not self._activity

    def set_activity(self, text: str) -> None:
        """Something that takes a while, shown with the checks; empty when it has ended."""
        self._activity = text
        self._screen.show_findings()

    @property
    def is_settled(self) -> bool:
        """Whether every check has been answered."""
        return not self._pending and bool(self._results)

    def findings(self) -> list[CheckRow]:
        """All that is known; a check that is being looked at says so."""
        listed: list[CheckRow] = [f for key, found in self._results.items() if key == "" for f in found]
        listed += [CheckRow("doing", "look", self._activity)] if self._activity else []
        for check in self._step.checks:
            if check.id in self._pending and not self._results.get(""):
                listed.append(CheckRow(check.id, "look", check.title))
            elif check.id not in self._inconclusive:
                listed += self._results.get(check.id, [])
        return listed + self._inconclusive_rows()

    def _inconclusive_rows(self) -> list[CheckRow]:
        """One row for all checks that wait for the same reason."""
        waiting = [
            result
            for check_id, results in self._inconclusive.items()
            if check_id not in self._pending
            for result in results
        ]
        single, folded = fold_pending(waiting)
        return [
            *(CheckRow(result.id, "info", result.finding.title, result.finding.detail) for result in single),
            *(CheckRow(f"pending.{n}", "info", text) for n, text in enumerate(folded)),
        ]

    def mark_stale(self, changed: Iterable[str]) -> None:
        """What looked at these answers holds no more; looks that are under way are dropped."""
        fields = set(changed)
        stale = [check for check in self._step.checks if fields & set(check.needs_fields)]
        for check in stale:
            self._screen.workers.cancel_group(self._screen, f"check-{check.id}")
        self._pending |= {check.id for check in stale}
        self._screen.show_findings()

    def run_all(self) -> None:
        """Every check of the step."""
        self.run(self._step.checks)

    def run(self, checks: Iterable[Check]) -> None:
        """These, at the same time; one that is still running is replaced."""
        for check in checks:
            self._pending.add(check.id)
            self._screen.run_worker(
                self._check_runner(check),
                group=f"check-{check.id}",
                exclusive=True,
                exit_on_error=False,
                description=f"check {check.id}",
            )
        self._screen.show_findings()

    async def wait_until_enabled(self, time_scale: float) -> None:
        """All of them again and again, until no API that is not felt yet hides anything; minutes at most."""
        for wait in feeling.propagation_polls(time_scale):
            await self.clear_cache()
            self.run_all()
            while self._pending:
                await asyncio.sleep(0.1)
            if not self._inconclusive:
                return
            await asyncio.sleep(wait)

    def _check_runner(self, check: Check) -> Callable[[], Awaitable[None]]:
        """Not the coroutine itself: one that is replaced before it began would never be awaited."""
        return partial(self._run_check, check)

    async def clear_cache(self) -> None:
        """The next looks ask the cloud again."""
        try:
            await self._screen.controller.cloud_reader(refresh=True)
        except WizardError:
            pass  # the looks themselves say why

    async def _run_check(self, check: Check) -> None:
        from grpo_wizard.tui.controllers.deployment import run_single_check

        desk = self._screen.controller
        try:
            world = await desk.cloud_reader()
            self._results.pop("", None)
            answers, _missing = desk.draft.validate()
            seen = await in_thread(run_single_check, self._step.name, check, answers, world)
        except WizardError as error:
            self._results[""] = [
                CheckRow("outside", "block", error.title, error.detail, error.command or error.fix)
            ]
        else:
            self._inconclusive.pop(check.id, None)
            if waiting := inconclusive(seen):
                self._inconclusive[check.id] = waiting
            self._results[check.id] = [
                CheckRow(
                    f"{check.id}.{n}",
                    each.finding.level,
                    each.finding.title,
                    each.finding.detail,
                    each.finding.fix,
                )
                for n, each in enumerate(seen)
            ]
        self._pending.discard(check.id)
        self._screen.show_findings()
