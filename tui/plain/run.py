"""Launching, and the run as lines: this process's own, or another one's through its journal."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.engine.options import ApplyOptions, RunOptions
from grpo_wizard.tui.controllers.detach import run_args
from grpo_wizard.tui.controllers.engine_runner import EngineRunner, JournalRunner
from grpo_wizard.tui.controllers.launch import cli_command, launch
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.context import PlainSession, Quit
from grpo_wizard.tui.plain.event_printer import EventPrinter
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import has_job

if TYPE_CHECKING:
    from grpo_wizard.tui.controllers.deployment import DeploymentController

_POLL_SECONDS = 0.2


def start_run(ui: PlainSession, options: RunOptions) -> None:
    """Begins apply or destroy in this process; says why when that is not possible."""
    try:
        ui.wait(_("opening the clients"), launch(ui, options, EventPrinter(ui.console.print)))
    except WizardError as error:
        ui.engine = None
        ui.print_error(error)


class RunView:
    """Follows the run to its end, then asks what to do. `run` returns the place to go to."""

    def __init__(self, ui: PlainSession) -> None:
        self.ui, self.controller, self.console = ui, ui.active_controller, ui.console

    def run(self) -> str:
        """The run that goes on, or else what the last one has come to."""
        self.ui.print_heading(_("Run"), _("ctrl+c pauses it; what runs in the cloud goes on there."))
        source = self.ui.engine or self._attach_to_journal()
        try:
            self.ui.run(self._follow(source))
        except KeyboardInterrupt:
            self._pause(source)
            raise
        teller = _event_printer(source)
        for line in teller.outcome_lines():
            self.console.print(line)
        if isinstance(source, JournalRunner):
            self.controller.ensure_lock()
        if teller.ok and not teller.is_destroy:
            return "monitor" if self._has_job else self._menu(teller)
        return self._menu(teller)

    @property
    def _has_job(self) -> bool:
        return has_job(self.controller.draft.deployment)

    def _attach_to_journal(self) -> JournalRunner:
        attached = JournalRunner(self.controller)
        teller = EventPrinter(self.console.print)
        teller.estimates, attached.progress = attached.progress.estimates, teller
        if self.controller.lock_owner is not None:
            self.console.print(
                _("{command} (process {pid}) works on it.").format(
                    command=self.controller.lock_owner.command or "grpo-wizard",
                    pid=self.controller.lock_owner.pid,
                )
            )
        teller.is_quiet = True
        attached.read()
        teller.is_quiet = False
        for line in teller.progress_summary():
            self.console.print(line)
        return attached

    async def _follow(self, source: EngineRunner | JournalRunner) -> None:
        """Until it has ended; a line at least every beat."""
        teller, said, count = _event_printer(source), time.monotonic(), -1
        while True:
            running = source.is_running
            if isinstance(source, JournalRunner):
                source.read()
            now = time.monotonic()
            if teller.lines_printed != count:
                said, count = now, teller.lines_printed
            elif now - said >= self.ui.heartbeat_seconds:
                self.console.print(teller.still_waiting(time.time()))
                said = now
            if not running:
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _pause(self, source: EngineRunner | JournalRunner) -> None:
        """Says at once what goes on; then waits for the calls that are under way. A second ctrl+c does not wait."""
        self.ui.print_goodbye(interrupted_message(self.controller, source))
        if isinstance(source, EngineRunner) and source.is_running:
            self.console.print(_("Waiting for the calls that are under way; ctrl+c again does not wait."))
            self.ui.run(source.pause())

    def _menu(self, teller: EventPrinter) -> str:
        """After a failure, a pause, or a teardown."""
        if teller.is_destroy and teller.ok:
            return ""
        if teller.started_at is None:
            self.console.print(_("Nothing has been made yet."))
        ways = {
            "a": _("try again"),
            "v": _("review"),
            "t": _("tear down"),
            **drills.menu_option(self.ui),
            "b": _("back to the deployments"),
            "l": _("leave"),
        }
        while (chosen := self.console.choose("", ways, "a")) == drills.MENU_KEY:
            drills.DrillView(self.ui).run()
        if chosen == "l":
            raise Quit
        if chosen == "a":
            engine = self.ui.engine
            start_run(self.ui, engine.options if engine else ApplyOptions())
            return "run" if self.ui.engine is not None else "review"
        return {"v": "review", "t": "teardown", "b": ""}[chosen]


def _event_printer(source: EngineRunner | JournalRunner) -> EventPrinter:
    assert isinstance(source.progress, EventPrinter)
    return source.progress


def interrupted_message(controller: DeploymentController, source: EngineRunner | JournalRunner) -> list[str]:
    """What runs on after ctrl+c, and how to go on."""
    if isinstance(source, JournalRunner):
        return [
            _("Interrupted. The other process goes on."),
            _("To watch it again: {command}").format(command=cli_command(controller, "--plain")),
        ]
    teller = _event_printer(source)
    open_things = [thing.id for thing in teller.resources.values() if thing.status == "work"]
    what = (
        _("Interrupted. The cloud goes on with: {things}.").format(things=", ".join(open_things))
        if open_things
        else _("Interrupted. Nothing was being made at this moment.")
    )
    again = cli_command(controller, "--plain")
    detached = cli_command(controller, *run_args(source.options, controller.name), "--detach")
    tokens = _(
        "Tokens that were typed are forgotten: they are asked again, or taken from HF_TOKEN and WANDB_API_KEY."
    )
    return [
        what,
        _("What was made stays, and costs on."),
        _("To go on here: {command}").format(command=again),
        _("To go on in the background: {command}").format(command=detached),
        *([tokens] if controller.draft.secrets else []),
    ]
