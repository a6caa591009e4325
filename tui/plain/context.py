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
from grpo_wizard.steps.core.durations import duration
from grpo_wizard.tui.plain.console import Talk, sentence
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.tui.controllers.deployment import Desk
    from grpo_wizard.tui.controllers.engine_runner import EngineRun

T = TypeVar("T")
BEAT_SECONDS = 30.0
"""No silence is longer than this while something is waited for."""


class Leave(Exception):
    """The user leaves; answers are saved."""


@dataclass
class Table:
    """`loop` lives as long as the wizard, for clients are bound to the loop in which they were opened."""

    home: Home
    speed: str | None = None
    rehearse: bool = False
    talk: Talk = field(default_factory=Talk)
    loop: asyncio.Runner = field(default_factory=asyncio.Runner)
    desk: Desk | None = None
    engine: EngineRun | None = None
    beat: float = BEAT_SECONDS
    said_farewell: bool = False
    """Whether a room has said already what goes on after ctrl+c."""

    def __post_init__(self) -> None:
        self._unforeseen: list[BaseException] = []
        self.loop.get_loop().set_exception_handler(self._keep)

    def _keep(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), BaseException):
            self._unforeseen.append(error)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result. What was not foreseen, beside it too, ends the wizard with its traceback."""
        result = self.loop.run(work)
        if self._unforeseen:
            raise self._unforeseen.pop(0)
        return result

    @property
    def open_desk(self) -> Desk:
        """The deployment; there is one in every room but the first."""
        assert self.desk is not None
        return self.desk

    @property
    def rehearses(self) -> bool:
        """Whether what is open, or would be begun here, is a rehearsal."""
        return self.desk.is_rehearsal if self.desk else self.rehearse

    def _drills(self) -> str:
        """What goes wrong on purpose, where something does."""
        from grpo_wizard.steps.emulator.drills.client import running

        names = running(Path(self.home.root))
        return _("Drill: {names}.").format(names=", ".join(names)) + " " if names else ""

    def head(self, title: str, purpose: str = "") -> None:
        """Where one is. A rehearsal says so each time."""
        self.talk.say()
        mode = _("Rehearsal.") + " " + self._drills() if self.rehearses else ""
        self.talk.say(f"{mode}{sentence(title)} {purpose}".strip())

    def wait(self, doing: str, work: Coroutine[Any, Any, T]) -> T:
        """Its result; says now and again that it still goes on."""
        return self.run(self._beating(doing, work))

    async def _beating(self, doing: str, work: Coroutine[Any, Any, T]) -> T:
        begun, task = time.monotonic(), asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=self.beat))[0]:
                self.talk.say(
                    _("Still {doing}, {time}.").format(doing=doing, time=duration(time.monotonic() - begun))
                )
            return task.result()
        finally:
            task.cancel()

    def to_go_on(self) -> str:
        """The command that goes on where this one stops: here, with this deployment."""
        from grpo_wizard.tui.controllers.launch import same_here

        if self.desk is not None:
            return same_here(self.desk, "--plain")
        kind = ["--rehearse", *(["--speed", self.speed] if self.speed else [])] if self.rehearse else []
        return shlex.join(["grpo-wizard", "--plain", "--home", str(self.home.root), *kind])

    def farewell(self, lines: Sequence[str]) -> None:
        """What goes on after ctrl+c, said once."""
        if not self.said_farewell:
            self.talk.say()
            for line in lines:
                self.talk.say(line)
        self.said_farewell = True

    def trouble(self, error: WizardError) -> None:
        """What happened, why, the one fix, and the command."""
        self.talk.say(_("Error: {title}").format(title=sentence(error.title)))
        labelled = ((_("Why"), error.detail), (_("Fix"), error.fix), (_("Command"), error.command))
        for label, text in labelled:
            if text:
                self.talk.say(f"{label}: {text}")
