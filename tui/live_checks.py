"""A step's checks while its answers are being given: each by itself, in a thread, and only the newest look counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.step import Check, Step
from grpo_wizard.tui.background import in_thread
from grpo_wizard.tui.widgets.checks import Finding

if TYPE_CHECKING:
    from grpo_wizard.tui.screens.step import StepScreen


class LiveChecks:
    """`run` starts checks; the screen's `show_findings` is called as answers come."""

    def __init__(self, screen: StepScreen, step: Step) -> None:
        self._screen, self._step = screen, step
        self._found: dict[str, list[Finding]] = {}
        self._asking: set[str] = set()

    @property
    def is_settled(self) -> bool:
        """Whether every check has been answered."""
        return not self._asking and bool(self._found)

    def findings(self) -> list[Finding]:
        """All that is known; a check that is being looked at says so."""
        listed: list[Finding] = [f for key, found in self._found.items() if key == "" for f in found]
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
        from grpo_wizard.tui.desk import look_at

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
