"""The session that the views of plain mode share: console, open deployment, and one event loop."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.steps.core.durations import format_duration
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.tui.plain.console import Console
from grpo_wizard.tui.style.i18n import _, ngettext

if TYPE_CHECKING:
    from grpo_wizard.tui.controllers.deployment import DeploymentController
    from grpo_wizard.tui.controllers.engine_runner import EngineRunner

T = TypeVar("T")
HEARTBEAT_SECONDS = 30.0
"""Longest silence during an operation."""


class Quit(Exception):
    """Raised when the user quits; answers are saved."""


@dataclass
class PlainSession:
    """`runner` lives as long as the session: clients are bound to the event loop that opened them."""

    home: Home
    speed: str | None = None
    rehearse: bool = False
    console: Console = field(default_factory=Console)
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    controller: DeploymentController | None = None
    engine: EngineRunner | None = None
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    goodbye_printed: bool = False
    """Whether a view has already said what Ctrl+C leaves running."""

    def __post_init__(self) -> None:
        self._unexpected_errors: list[BaseException] = []
        self.runner.get_loop().set_exception_handler(self._on_loop_exception)

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        if isinstance(error := context.get("exception"), BaseException):
            self._unexpected_errors.append(error)

    def run(self, work: Coroutine[None, None, T]) -> T:
        """Return the result. An unexpected exception, also in a background task, ends the wizard with its traceback."""
        result = self.runner.run(work)
        if self._unexpected_errors:
            raise self._unexpected_errors.pop(0)
        return result

    @property
    def active_controller(self) -> DeploymentController:
        """The open deployment. Every view but the list of deployments has one."""
        assert self.controller is not None
        return self.controller

    @property
    def is_rehearsal(self) -> bool:
        """Whether the open deployment, or one created now, is a rehearsal."""
        return self.controller.is_rehearsal if self.controller else self.rehearse

    def _active_drills_text(self) -> str:
        from grpo_wizard.steps.emulator.drills.client import active_drills

        names = active_drills(Path(self.home.root))
        text = ngettext("Active drill: {names}.", "Active drills: {names}.", len(names))
        return text.format(names=", ".join(names)) + " " if names else ""

    def print_heading(self, title: str, purpose: str = "") -> None:
        """Print the view's title. A rehearsal is named each time, with its active drills."""
        self.console.print()
        mode = _("Rehearsal.") + " " + self._active_drills_text() if self.is_rehearsal else ""
        self.console.print(f"{mode}{end_with_period(title)} {purpose}".strip())

    def wait(self, activity: str, work: Coroutine[None, None, T]) -> T:
        """Return the result. Print a line now and then until it is there."""
        return self.run(self._with_heartbeat(activity, work))

    async def _with_heartbeat(self, activity: str, work: Coroutine[None, None, T]) -> T:
        started, task = time.monotonic(), asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=self.heartbeat_seconds))[0]:
                self.console.print(
                    _("Still {activity} after {time}.").format(
                        activity=activity, time=format_duration(time.monotonic() - started)
                    )
                )
            return task.result()
        finally:
            task.cancel()

    def resume_command(self) -> str:
        """Return the command that opens this session again, with this deployment."""
        from grpo_wizard.tui.controllers.launch import cli_command

        if self.controller is not None:
            return cli_command(self.controller, "--plain")
        mode = ["--rehearse", *(["--speed", self.speed] if self.speed else [])] if self.rehearse else []
        return shlex.join(["grpo-wizard", "--plain", "--home", str(self.home.root), *mode])

    def print_goodbye(self, lines: Sequence[str]) -> None:
        """Print what Ctrl+C leaves running, once."""
        if not self.goodbye_printed:
            self.console.print()
            for line in lines:
                self.console.print(line)
        self.goodbye_printed = True

    def print_error(self, error: WizardError) -> None:
        """Print title, cause, fix and command of an error."""
        self.console.print(_("Error: {title}").format(title=end_with_period(error.title)))
        labelled = ((_("Why"), error.detail), (_("Fix"), error.fix), (_("Command"), error.command))
        for label, text in labelled:
            if text:
                self.console.print(f"{label}: {text}")
