"""A step's checks while its answers are being given: each by itself, in a thread, and only the newest look counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.model import Check, Step
from grpo_wizard.steps.engine import backoff as feeling
from grpo_wizard.steps.engine.preflight import unanswered
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.widgets.checks import Finding

if TYPE_CHECKING:
    from grpo_wizard.tui.screens.step import StepScreen


class LiveChecks:
    """`run` starts checks; the screen's `show_findings` is called as answers come."""

    def __init__(self, screen: StepScreen, step: Step) -> None:
        self._screen, self._step = screen, step
        self._found: dict[str, list[Finding]] = {}
        self._asking: set[str] = set()
        self._blind: set[str] = set()  # checks that an API which is off left unanswered
        self._doing = ""

    @property
    def wants_apis(self) -> bool:
        """Whether more could be seen with the project's APIs on; not while they are being switched on."""
        return bool(self._blind) and not self._doing

    def say_doing(self, text: str) -> None:
        """Something that takes a while, shown with the checks; empty when it has ended."""
        self._doing = text
        self._screen.show_findings()

    @property
    def is_settled(self) -> bool:
        """Whether every check has been answered."""
        return not self._asking and bool(self._found)

    def findings(self) -> list[Finding]:
        """All that is known; a check that is being looked at says so."""
        listed: list[Finding] = [f for key, found in self._found.items() if key == "" for f in found]
        listed += [Finding("doing", "look", self._doing)] if self._doing else []
        for check in self._step.checks:
            if check.id in self._asking and not self._found.get(""):
                listed.append(Finding(check.id, "look", check.title))
            else:
                listed += self._found.get(check.id, [])
        return listed

    def mark_stale(self, changed: Iterable[str]) -> None:
        """What looked at these answers holds no more; looks that are under way are dropped."""
        fields = set(changed)
        stale = [check for check in self._step.checks if fields & set(check.needs_fields)]
        for check in stale:
            self._screen.workers.cancel_group(self._screen, f"check-{check.id}")
        self._asking |= {check.id for check in stale}
        self._screen.show_findings()

    def run_all(self) -> None:
        """Every check of the step."""
        self.run(self._step.checks)

    def run(self, checks: Iterable[Check]) -> None:
        """These, at the same time; one that is still running is replaced."""
        for check in checks:
            self._asking.add(check.id)
            self._screen.run_worker(
                self._looker(check),
                group=f"check-{check.id}",
                exclusive=True,
                exit_on_error=False,
                description=f"check {check.id}",
            )
        self._screen.show_findings()

    async def until_seen(self, pace: float) -> None:
        """All of them again and again, until no API that is not felt yet hides anything; minutes at most."""
        for wait in feeling.until_felt(pace):
            await self.forget()
            self.run_all()
            while self._asking:
                await asyncio.sleep(0.1)
            if not self._blind:
                return
            await asyncio.sleep(wait)

    def _looker(self, check: Check) -> Callable[[], Awaitable[None]]:
        """Not the coroutine itself: one that is replaced before it began would never be awaited."""
        return partial(self._look, check)

    async def forget(self) -> None:
        """The next looks ask the cloud again."""
        try:
            await self._screen.desk.world(anew=True)
        except WizardError:
            pass  # the looks themselves say why

    async def _look(self, check: Check) -> None:
        from grpo_wizard.tui.controllers.deployment import look_at

        desk = self._screen.desk
        try:
            world = await desk.world()
            self._found.pop("", None)
            answers, _missing = desk.draft.look()
            seen = await in_thread(look_at, self._step.name, check, answers, world)
        except WizardError as error:
            self._found[""] = [
                Finding("outside", "block", error.title, error.detail, error.command or error.fix)
            ]
        else:
            (self._blind.add if unanswered(seen) else self._blind.discard)(check.id)
            self._found[check.id] = [
                Finding(
                    f"{check.id}.{n}",
                    each.finding.level,
                    each.finding.title,
                    each.finding.detail,
                    each.finding.fix,
                )
                for n, each in enumerate(seen)
            ]
        self._asking.discard(check.id)
        self._screen.show_findings()
