"""The checks of a step while its answers are edited: each runs in a thread, and only its newest result counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.model import Check, Step
from grpo_wizard.steps.engine.backoff import propagation_polls
from grpo_wizard.steps.engine.preflight import CheckResult, fold_pending, inconclusive
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.widgets.checks import CheckRow

if TYPE_CHECKING:
    from grpo_wizard.tui.screens.step import StepScreen


class LiveChecks:
    """Runs checks; calls the screen's `show_findings` whenever a result arrives."""

    def __init__(self, screen: StepScreen, step: Step) -> None:
        self._screen, self._step = screen, step
        self._results: dict[str, list[CheckRow]] = {}
        self._pending: set[str] = set()
        self._inconclusive: dict[str, list[CheckResult]] = {}  # results of checks that wait for an API
        self._activity = ""

    @property
    def needs_apis(self) -> bool:
        """Whether a check needs an API that is not enabled; False while APIs are being enabled."""
        return bool(self._inconclusive) and not self._activity

    def set_activity(self, text: str) -> None:
        """Show an operation in progress above the checks; an empty text removes it."""
        self._activity = text
        self._screen.show_findings()

    @property
    def is_settled(self) -> bool:
        """Whether every check has a result."""
        return not self._pending and bool(self._results)

    def findings(self) -> list[CheckRow]:
        """All findings; a pending check is a row with the level `look`."""
        rows = list(self._results.get("", ()))
        rows += [CheckRow("doing", "look", self._activity)] if self._activity else []
        for check in self._step.checks:
            if check.id in self._pending and not self._results.get(""):
                rows.append(CheckRow(check.id, "look", check.title))
            elif check.id not in self._inconclusive:
                rows += self._results.get(check.id, [])
        return rows + self._inconclusive_rows()

    def _inconclusive_rows(self) -> list[CheckRow]:
        """One row for all checks that wait for the same reason."""
        waiting = [
            result
            for check in self._step.checks  # not in the order in which they ended
            if check.id not in self._pending
            for result in self._inconclusive.get(check.id, ())
        ]
        single, folded = fold_pending(waiting)
        return [
            *(CheckRow(result.id, "info", result.finding.title, result.finding.detail) for result in single),
            *(CheckRow(f"pending.{n}", "info", text) for n, text in enumerate(folded)),
        ]

    def mark_stale(self, changed: Iterable[str]) -> None:
        """Mark the checks that depend on these fields as pending, and cancel those that are running."""
        fields = set(changed)
        stale = [check for check in self._step.checks if fields & set(check.needs_fields)]
        for check in stale:
            self._screen.workers.cancel_group(self._screen, f"check-{check.id}")
        self._pending |= {check.id for check in stale}
        self._screen.show_findings()

    def run_all(self) -> None:
        """Run every check of the step."""
        self.run(self._step.checks)

    def run(self, checks: Iterable[Check]) -> None:
        """Run these checks concurrently; a new run replaces a running one."""
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
        """Rerun all checks until every API has taken effect, for a few minutes at most."""
        for wait in propagation_polls(time_scale):
            await self.clear_cache()
            self.run_all()
            while self._pending:
                await asyncio.sleep(0.1)
            if not self._inconclusive:
                return
            await asyncio.sleep(wait)

    def _check_runner(self, check: Check) -> Callable[[], Awaitable[None]]:
        """Return a function, since a coroutine that is replaced before it starts would never be awaited."""
        return partial(self._run_check, check)

    async def clear_cache(self) -> None:
        """Make the next checks read the cloud again."""
        try:
            await self._screen.controller.cloud_reader(refresh=True)
        except WizardError:
            pass  # the checks report the error

    async def _run_check(self, check: Check) -> None:
        from grpo_wizard.tui.controllers.deployment import run_single_check

        controller = self._screen.controller
        try:
            reader = await controller.cloud_reader()
            self._results.pop("", None)
            answers, _missing = controller.draft.validate()
            results = await in_thread(run_single_check, self._step.name, check, answers, reader)
        except WizardError as error:
            self._results[""] = [
                CheckRow("outside", "block", error.title, error.detail, error.command or error.fix)
            ]
        else:
            self._inconclusive.pop(check.id, None)
            if waiting := inconclusive(results):
                self._inconclusive[check.id] = waiting
            self._results[check.id] = [
                CheckRow(
                    f"{check.id}.{n}",
                    result.finding.level,
                    result.finding.title,
                    result.finding.detail,
                    result.finding.fix,
                )
                for n, result in enumerate(results)
            ]
        self._pending.discard(check.id)
        self._screen.show_findings()
