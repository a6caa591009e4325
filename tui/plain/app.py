"""Plain mode: the whole wizard as questions and lines. The rooms are in plain/; this is the way from one to the next."""

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
    """Until it is left: 0, or 130 after ctrl+c. `because` is what switched plain mode on; `create` begins `start` as a rehearsal."""
    table = PlainSession(home, speed, rehearse, create_console(reason, os.environ))
    table.console.print(_("grpo-wizard, plain mode, chosen by {what}.").format(what=reason))
    table.console.print(_("? helps at every question. ctrl+c leaves; answers are kept."))
    with table.runner:
        try:
            return _main_loop(table, start, create)
        except (Quit, EOFError):
            table.console.print()
            table.console.print(_("Left. Answers are kept."))
            table.console.print(_resume_hint(table))
            return 0
        except (KeyboardInterrupt, asyncio.CancelledError):
            _print_interrupted(table)
            return 130
        finally:
            if table.controller is not None:
                table.controller.release_lock()


def _main_loop(table: PlainSession, start: str | None, create: bool) -> int:
    from grpo_wizard.tui.plain.home import HomeView, close_deployment, open_deployment

    place, opened = "", True
    if start is not None:
        place = open_deployment(table, start, create=create, rehearsal=table.rehearse)
    while True:
        if not place:
            close_deployment(table)
            place, opened = HomeView(table).run(), True
        try:
            place, opened = _run_view(table, place, opened), False
        except WizardError as error:
            table.print_error(error)
            place = ""


def _run_view(table: PlainSession, screen_name: str, opened: bool) -> str:
    """Goes through one room. `opened`: the deployment was opened here, so that its open step is asked once more."""
    if screen_name in STEP_NAMES:
        from grpo_wizard.tui.plain.step import StepView

        return StepView(table, screen_name).run(ask=opened)
    if screen_name == "review":
        from grpo_wizard.tui.plain.review import ReviewView

        return ReviewView(table).run()
    if screen_name == "run":
        from grpo_wizard.tui.plain.run import RunView

        return RunView(table).run()
    if screen_name == "monitor":
        from grpo_wizard.tui.plain.monitor import MonitorView

        return MonitorView(table).run()
    from grpo_wizard.tui.plain.teardown import DestroyView

    return DestroyView(table).run()


def _print_interrupted(table: PlainSession) -> None:
    """What goes on after ctrl+c: rooms in which something runs have said so themselves."""
    kept = _("Interrupted. Answers are kept; what runs in the cloud goes on there.")
    table.print_goodbye([kept, _resume_hint(table)])


def _resume_hint(table: PlainSession) -> str:
    return _("To go on: {command}").format(command=table.resume_command())
