"""Plain mode: the whole wizard as questions and lines. The rooms are in plain/; this is the way from one to the next."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.registry import NAMES
from grpo_wizard.tui.plain.context import Leave, Table
from grpo_wizard.tui.plain.questionary_console import conversation
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.state.home import Home


def run(
    home: Home, because: str, *, start: str | None, create: bool, rehearse: bool, speed: str | None
) -> int:
    """Until it is left: 0, or 130 after ctrl+c. `because` is what switched plain mode on; `create` begins `start` as a rehearsal."""
    table = Table(home, speed, rehearse, conversation(because, os.environ))
    table.talk.say(_("grpo-wizard, plain mode, chosen by {what}.").format(what=because))
    table.talk.say(_("? helps at every question. ctrl+c leaves; answers are kept."))
    with table.loop:
        try:
            return _walk(table, start, create)
        except (Leave, EOFError):
            table.talk.say()
            table.talk.say(_("Left. Answers are kept."))
            table.talk.say(_to_go_on(table))
            return 0
        except (KeyboardInterrupt, asyncio.CancelledError):
            _say_interrupted(table)
            return 130
        finally:
            if table.desk is not None:
                table.desk.release()


def _walk(table: Table, start: str | None, create: bool) -> int:
    from grpo_wizard.tui.plain.home import Opening, close_deployment, open_deployment

    place, opened = "", True
    if start is not None:
        place = open_deployment(table, start, create=create, rehearsal=table.rehearse)
    while True:
        if not place:
            close_deployment(table)
            place, opened = Opening(table).run(), True
        try:
            place, opened = _enter(table, place, opened), False
        except WizardError as error:
            table.trouble(error)
            place = ""


def _enter(table: Table, place: str, opened: bool) -> str:
    """Goes through one room. `opened`: the deployment was opened here, so that its open step is asked once more."""
    if place in NAMES:
        from grpo_wizard.tui.plain.step import StepRoom

        return StepRoom(table, place).run(ask=opened)
    if place == "review":
        from grpo_wizard.tui.plain.review import Review

        return Review(table).run()
    if place == "run":
        from grpo_wizard.tui.plain.run import RunRoom

        return RunRoom(table).run()
    if place == "monitor":
        from grpo_wizard.tui.plain.monitor import MonitorRoom

        return MonitorRoom(table).run()
    from grpo_wizard.tui.plain.teardown import TeardownRoom

    return TeardownRoom(table).run()


def _say_interrupted(table: Table) -> None:
    """What goes on after ctrl+c: rooms in which something runs have said so themselves."""
    kept = _("Interrupted. Answers are kept; what runs in the cloud goes on there.")
    table.farewell([kept, _to_go_on(table)])


def _to_go_on(table: Table) -> str:
    return _("To go on: {command}").format(command=table.to_go_on())
