"""Launching, and the run as lines: this process's own, or another one's through its journal."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.controllers.engine_runner import Attached, EngineRun
from grpo_wizard.tui.controllers.launch import launch, same_here
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.context import Leave, Table
from grpo_wizard.tui.plain.event_printer import Teller
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import job_stands

if TYPE_CHECKING:
    from grpo_wizard.tui.controllers.deployment import Desk

_LOOK_SECONDS = 0.2


def begin(table: Table, words: list[str]) -> None:
    """Begins apply or destroy in this process; says why when that is not possible."""
    try:
        table.wait(_("opening the clients"), launch(table, words, Teller(table.talk.say)))
    except WizardError as error:
        table.engine = None
        table.trouble(error)


class RunRoom:
    """Follows the run to its end, then asks what to do. `run` returns the place to go to."""

    def __init__(self, table: Table) -> None:
        self.table, self.desk, self.talk = table, table.open_desk, table.talk

    def run(self) -> str:
        """The run that goes on, or else what the last one has come to."""
        self.table.head(_("Run"), _("ctrl+c pauses it; what runs in the cloud goes on there."))
        source = self.table.engine or self._attached()
        try:
            self.table.run(self._follow(source))
        except KeyboardInterrupt:
            self._pause(source)
            raise
        teller = _teller(source)
        for line in teller.ending():
            self.talk.say(line)
        if isinstance(source, Attached):
            self.desk.take_lock_again()
        if teller.ok and not teller.is_undo:
            return "monitor" if self._has_job else self._menu(teller)
        return self._menu(teller)

    @property
    def _has_job(self) -> bool:
        return job_stands(self.desk.draft.deployment)

    def _attached(self) -> Attached:
        attached = Attached(self.desk)
        teller = Teller(self.talk.say)
        teller.usual, attached.story = attached.story.usual, teller
        if self.desk.held_by is not None:
            self.talk.say(
                _("{command} (process {pid}) works on it.").format(
                    command=self.desk.held_by.command or "grpo-wizard", pid=self.desk.held_by.pid
                )
            )
        teller.is_quiet = True
        attached.read()
        teller.is_quiet = False
        for line in teller.so_far():
            self.talk.say(line)
        return attached

    async def _follow(self, source: EngineRun | Attached) -> None:
        """Until it has ended; a line at least every beat."""
        teller, said, count = _teller(source), time.monotonic(), -1
        while True:
            running = source.is_running
            if isinstance(source, Attached):
                source.read()
            now = time.monotonic()
            if teller.told != count:
                said, count = now, teller.told
            elif now - said >= self.table.beat:
                self.talk.say(teller.still_waiting(time.time()))
                said = now
            if not running:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _pause(self, source: EngineRun | Attached) -> None:
        """Says at once what goes on; then waits for the calls that are under way. A second ctrl+c does not wait."""
        self.table.farewell(left_behind(self.desk, source))
        if isinstance(source, EngineRun) and source.is_running:
            self.talk.say(_("Waiting for the calls that are under way; ctrl+c again does not wait."))
            self.table.run(source.pause())

    def _menu(self, teller: Teller) -> str:
        """After a failure, a pause, or a teardown."""
        if teller.is_undo and teller.ok:
            return ""
        if teller.begun is None:
            self.talk.say(_("Nothing has been made yet."))
        ways = {
            "a": _("try again"),
            "v": _("review"),
            "t": _("tear down"),
            **drills.ways(self.table),
            "b": _("back to the deployments"),
            "l": _("leave"),
        }
        while (chosen := self.talk.choose("", ways, "a")) == drills.KEY:
            drills.DrillRoom(self.table).run()
        if chosen == "l":
            raise Leave
        if chosen == "a":
            engine = self.table.engine
            begin(self.table, engine.words if engine else ["apply", "--yes"])
            return "run" if self.table.engine is not None else "review"
        return {"v": "review", "t": "teardown", "b": ""}[chosen]


def _teller(source: EngineRun | Attached) -> Teller:
    assert isinstance(source.story, Teller)
    return source.story


def left_behind(desk: Desk, source: EngineRun | Attached) -> list[str]:
    """What runs on after ctrl+c, and how to go on."""
    if isinstance(source, Attached):
        return [
            _("Interrupted. The other process goes on."),
            _("To watch it again: {command}").format(command=same_here(desk, "--plain")),
        ]
    teller = _teller(source)
    open_things = [thing.id for thing in teller.things.values() if thing.sign == "work"]
    what = (
        _("Interrupted. The cloud goes on with: {things}.").format(things=", ".join(open_things))
        if open_things
        else _("Interrupted. Nothing was being made at this moment.")
    )
    again = same_here(desk, "--plain")
    detached = same_here(desk, *source.words, "--detach")
    tokens = _(
        "Tokens that were typed are forgotten: they are asked again, or taken from HF_TOKEN and WANDB_API_KEY."
    )
    return [
        what,
        _("What was made stays, and costs on."),
        _("To go on here: {command}").format(command=again),
        _("To go on in the background: {command}").format(command=detached),
        *([tokens] if desk.draft.secrets else []),
    ]
