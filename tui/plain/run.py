"""Starts a run, or follows one of another process through its journal, and prints it as lines."""

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
    """Start apply or destroy in this process, or print why that is not possible."""
    try:
        ui.wait(_("connecting"), launch(ui, options, EventPrinter(ui.console.print)))
    except WizardError as error:
        ui.engine = None
        ui.print_error(error)


class RunView:
    """Follows the run until it ends, then asks what to do. `run` returns the name of the next view."""

    def __init__(self, ui: PlainSession) -> None:
        self.ui, self.controller, self.console = ui, ui.active_controller, ui.console

    def run(self) -> str:
        self.ui.print_heading(
            _("Run"), _("Press Ctrl+C to pause; operations already started in the cloud will finish.")
        )
        source = self.ui.engine or self._attach_to_journal()
        try:
            self.ui.run(self._follow(source))
        except KeyboardInterrupt:
            self._pause(source)
            raise
        printer = _event_printer(source)
        for line in printer.outcome_lines():
            self.console.print(line)
        if isinstance(source, JournalRunner):
            self.controller.ensure_lock()
        if printer.ok and not printer.is_destroy:
            return "monitor" if self._has_job else self._menu(printer)
        return self._menu(printer)

    @property
    def _has_job(self) -> bool:
        return has_job(self.controller.draft.deployment)

    def _attach_to_journal(self) -> JournalRunner:
        attached = JournalRunner(self.controller)
        printer = EventPrinter(self.console.print)
        printer.estimates, attached.progress = attached.progress.estimates, printer
        if self.controller.lock_owner is not None:
            self.console.print(
                _("{command} (process {pid}) is running.").format(
                    command=self.controller.lock_owner.command or "grpo-wizard",
                    pid=self.controller.lock_owner.pid,
                )
            )
        printer.is_quiet = True
        attached.read()
        printer.is_quiet = False
        for line in printer.progress_summary():
            self.console.print(line)
        return attached

    async def _follow(self, source: EngineRunner | JournalRunner) -> None:
        """Print events until the run ends, and a line whenever nothing has happened for a while."""
        printer, last_line, count = _event_printer(source), time.monotonic(), -1
        while True:
            running = source.is_running
            if isinstance(source, JournalRunner):
                source.read()
            now = time.monotonic()
            if printer.lines_printed != count:
                last_line, count = now, printer.lines_printed
            elif now - last_line >= self.ui.heartbeat_seconds:
                self.console.print(printer.still_waiting(time.time()))
                last_line = now
            if not running:
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _pause(self, source: EngineRunner | JournalRunner) -> None:
        """Say at once what keeps running, then wait for the calls in flight. A second Ctrl+C does not wait."""
        self.ui.print_goodbye(interrupted_message(self.controller, source))
        if isinstance(source, EngineRunner) and source.is_running:
            self.console.print(
                _("Waiting for requests in flight to finish. Press Ctrl+C again to quit at once.")
            )
            self.ui.run(source.pause())

    def _menu(self, printer: EventPrinter) -> str:
        """Ask what to do after a failure, a pause or a destroy."""
        if printer.is_destroy and printer.ok:
            return ""
        if printer.started_at is None:
            self.console.print(_("Nothing has been created yet."))
        options = {
            "a": _("try again"),
            "v": _("review"),
            "t": _("destroy"),
            **drills.menu_option(self.ui),
            "b": _("back to the deployments"),
            "l": _("leave"),
        }
        while (chosen := self.console.choose("", options, "a")) == drills.MENU_KEY:
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
    """Return what keeps running after Ctrl+C, and how to continue."""
    if isinstance(source, JournalRunner):
        return [
            _("Interrupted. The other process is still running."),
            _("To follow it again: {command}").format(command=cli_command(controller, "--plain")),
        ]
    printer = _event_printer(source)
    unfinished = [resource.id for resource in printer.resources.values() if resource.status == "work"]
    interrupted = (
        _("Interrupted. Operations on these resources will finish: {names}.").format(
            names=", ".join(unfinished)
        )
        if unfinished
        else _("Interrupted. No operation was in progress.")
    )
    resumed = cli_command(controller, "--plain")
    detached = cli_command(controller, *run_args(source.options, controller.name), "--detach")
    tokens = _("Tokens are not saved, so type them again or set HF_TOKEN and WANDB_API_KEY.")
    return [
        interrupted,
        _("Existing resources are still being billed."),
        _("To continue here: {command}").format(command=resumed),
        _("To continue in the background: {command}").format(command=detached),
        *([tokens] if controller.draft.secrets else []),
    ]
