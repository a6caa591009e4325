"""Plain mode: runs one view after another, from the list of deployments to the end of the session."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.registry import STEP_NAMES
from grpo_wizard.tui.plain.context import PlainSession, Quit
from grpo_wizard.tui.plain.questionary_console import create_console
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.state.home import Home


def run(
    home: Home, reason: str, *, start: str | None, create: bool, rehearse: bool, speed: str | None
) -> int:
    """Run until the user quits. Return 0, or 130 after Ctrl+C.

    `reason` is what enabled plain mode. `start` is the deployment to open first; `create` creates it as a rehearsal if
    it does not exist.
    """
    ui = PlainSession(home, speed, rehearse, create_console(reason, os.environ))
    ui.console.print(_("grpo-wizard is running in plain mode, enabled by {reason}.").format(reason=reason))
    ui.console.print(_("Type ? at any question for help. Press Ctrl+C to quit; your answers will be saved."))
    with ui.runner:
        try:
            return _main_loop(ui, start, create)
        except (Quit, EOFError):
            ui.console.print()
            ui.console.print(_("Your answers have been saved."))
            ui.console.print(_resume_hint(ui))
            return 0
        except (KeyboardInterrupt, asyncio.CancelledError):
            _print_interrupted(ui)
            return 130
        finally:
            if ui.controller is not None:
                ui.controller.release_lock()


def _main_loop(ui: PlainSession, start: str | None, create: bool) -> int:
    from grpo_wizard.tui.plain.home import HomeView, close_deployment, open_deployment

    view_name, just_opened = "", True
    if start is not None:
        view_name = open_deployment(ui, start, create=create, rehearsal=ui.rehearse)
    while True:
        if not view_name:
            close_deployment(ui)
            view_name, just_opened = HomeView(ui).run(), True
        try:
            view_name, just_opened = _run_view(ui, view_name, just_opened), False
        except WizardError as error:
            ui.print_error(error)
            view_name = ""


def _run_view(ui: PlainSession, view_name: str, just_opened: bool) -> str:
    """Run a view and return the name of the next one. A step that was just opened asks its questions again."""
    if view_name in STEP_NAMES:
        from grpo_wizard.tui.plain.step import StepView

        return StepView(ui, view_name).run(ask=just_opened)
    if view_name == "review":
        from grpo_wizard.tui.plain.review import ReviewView

        return ReviewView(ui).run()
    if view_name == "run":
        from grpo_wizard.tui.plain.run import RunView

        return RunView(ui).run()
    if view_name == "monitor":
        from grpo_wizard.tui.plain.monitor import MonitorView

        return MonitorView(ui).run()
    from grpo_wizard.tui.plain.teardown import DestroyView

    return DestroyView(ui).run()


def _print_interrupted(ui: PlainSession) -> None:
    """Say what Ctrl+C leaves running, unless the view has done so."""
    text = _(
        "Interrupted. Your answers have been saved; operations already started in the cloud will finish."
    )
    ui.print_goodbye([text, _resume_hint(ui)])


def _resume_hint(ui: PlainSession) -> str:
    return _("To continue: {command}").format(command=ui.resume_command())
