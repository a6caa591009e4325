"""What the rooms of plain mode share: the conversation, the deployment on the desk, and one event loop for all that waits."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.steps.core.durations import format_duration
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.tui.plain.console import Console
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.tui.controllers.deployment import DeploymentController
    from grpo_wizard.tui.controllers.engine_runner import EngineRunner

T = TypeVar("T")
HEARTBEAT_SECONDS = 30.0
"""No silence is longer than this while something is waited for."""


class Quit(Exception):
    """The user leaves; answers are saved."""


@dataclass
class PlainSession:
    """`loop` lives as long as the wizard, for clients are bound to the loop in which they were opened."""

    home: Home
    speed: str | None = None
    rehearse: bool = False
    console: Console = field(default_factory=Console)
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    controller: DeploymentController | None = None
    engine: EngineRunner | None = None
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    goodbye_printed: bool = False
    """Whether a room has said already what goes on after ctrl+c."""

    def __post_init__(self) -> None:
        self._unexpected_errors: list[BaseException] = []
        self.runner.get_loop().set_exception_handler(self._on_loop_exception)

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        if isinstance(error := context.get("exception"), BaseException):
            self._unexpected_errors.append(error)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result. What was not foreseen, beside it too, ends the wizard with its traceback."""
        result = self.runner.run(work)
        if self._unexpected_errors:
            raise self._unexpected_errors.pop(0)
        return result

    @property
    def active_controller(self) -> DeploymentController:
        """The deployment; there is one in every room but the first."""
        assert self.controller is not None
        return self.controller

    @property
    def is_rehearsal(self) -> bool:
        """Whether what is open, or would be begun here, is a rehearsal."""
        return self.controller.is_rehearsal if self.controller else self.rehearse

    def _active_drills_text(self) -> str:
        """What goes wrong on purpose, where something does."""
        from grpo_wizard.steps.emulator.drills.client import active_drills

        names = active_drills(Path(self.home.root))
        return _("Drill: {names}.").format(names=", ".join(names)) + " " if names else ""

    def print_heading(self, title: str, purpose: str = "") -> None:
        """Where one is. A rehearsal says so each time."""
        self.console.print()
        mode = _("Rehearsal.") + " " + self._active_drills_text() if self.is_rehearsal else ""
        self.console.print(f"{mode}{end_with_period(title)} {purpose}".strip())

    def wait(self, activity: str, work: Coroutine[Any, Any, T]) -> T:
        """Its result; says now and again that it still goes on."""
        return self.run(self._with_heartbeat(activity, work))

    async def _with_heartbeat(self, activity: str, work: Coroutine[Any, Any, T]) -> T:
        begun, task = time.monotonic(), asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=self.heartbeat_seconds))[0]:
                self.console.print(
                    _("Still {doing}, {time}.").format(
                        doing=activity, time=format_duration(time.monotonic() - begun)
                    )
                )
            return task.result()
        finally:
            task.cancel()

    def resume_command(self) -> str:
        """The command that goes on where this one stops: here, with this deployment."""
        from grpo_wizard.tui.controllers.launch import cli_command

        if self.controller is not None:
            return cli_command(self.controller, "--plain")
        kind = ["--rehearse", *(["--speed", self.speed] if self.speed else [])] if self.rehearse else []
        return shlex.join(["grpo-wizard", "--plain", "--home", str(self.home.root), *kind])

    def print_goodbye(self, lines: Sequence[str]) -> None:
        """What goes on after ctrl+c, said once."""
        if not self.goodbye_printed:
            self.console.print()
            for line in lines:
                self.console.print(line)
        self.goodbye_printed = True

    def print_error(self, error: WizardError) -> None:
        """What happened, why, the one fix, and the command."""
        self.console.print(_("Error: {title}").format(title=end_with_period(error.title)))
        labelled = ((_("Why"), error.detail), (_("Fix"), error.fix), (_("Command"), error.command))
        for label, text in labelled:
            if text:
                self.console.print(f"{label}: {text}")
