"""Drills as lines: what may go wrong in this rehearsal, numbered; a number begins one or ends it at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.plain.console import HELP, sentence
from grpo_wizard.tui.plain.context import Table
from grpo_wizard.tui.style.i18n import _

JSON = dict[str, Any]
KEY = "x"


def ways(table: Table) -> dict[str, str]:
    """The entry of a room's menu; in the real Google Cloud there is none."""
    return {KEY: _("drills: what goes wrong here")} if table.rehearses else {}


class DrillRoom:
    """`run` lists and asks until nothing is typed."""

    def __init__(self, table: Table) -> None:
        self.table, self.talk = table, table.talk

    def run(self) -> None:
        """Each number acts at once; `?` with a number says what it does."""
        self.table.head(_("Drills"), _("What goes wrong in this rehearsal: at once, and until you end it."))
        drills = self._change()
        for number, drill in enumerate(drills, 1):
            self.talk.say(f"{number}. {_line(drill)}")
        while drills:
            typed = self.talk.ask(
                _(
                    "Type a number to begin or end one, {help} and a number for what it does, e to end all (none):"
                ).format(help=HELP)
            )
            if not typed:
                return
            if typed.lower() == "e":
                drills = self._end_all()
                continue
            chosen = _chosen(typed.removeprefix(HELP).strip(), drills)
            if chosen is None:
                self.talk.say(_("Refused: a number from 1 to {n}.").format(n=len(drills)))
            elif typed.startswith(HELP):
                self._explain(chosen)
            else:
                drills = self._switch(chosen)

    def _switch(self, drill: JSON) -> list[JSON]:
        name = (drill["name"],)
        if drill["running"]:
            drills = self._change(end=name)
            self.talk.say(_("Ended: {line}").format(line=_line({**drill, "running": False})))
            self.talk.say(drill["mends"])
        else:
            drills = self._change(begin=name)
            self.talk.say(_("Began: {line}").format(line=_line({**drill, "running": False})))
            self.talk.say(_("Felt {when}").format(when=sentence(drill["felt"])))
        return drills

    def _end_all(self) -> list[JSON]:
        ended = ", ".join(drill["name"] for drill in self._change() if drill["running"])
        drills = self._change(end=())
        if drills:
            was = _("Ended: {names}. No drill runs now.").format(names=ended)
            self.talk.say(was if ended else _("No drill runs."))
        return drills

    def _explain(self, drill: JSON) -> None:
        self.talk.say(_line(drill))
        for label, key in ((_("What"), "happens"), (_("Felt"), "felt"), (_("After"), "mends")):
            self.talk.say(f"{label}: {sentence(drill[key])}")
        self.talk.say(_("As in: {source}").format(source=drill["source"]))

    def _change(self, begin: tuple[str, ...] = (), end: tuple[str, ...] | None = None) -> list[JSON]:
        from grpo_wizard.tui.controllers.drills import change

        try:
            return change(Path(self.table.home.root), self.table.speed, begin, end)
        except WizardError as error:
            self.table.trouble(error)
            return []


def _line(drill: JSON) -> str:
    runs = " " + _("Runs.") if drill["running"] else ""
    return f"{drill['name']}: {sentence(drill['title'])}{runs}"


def _chosen(typed: str, drills: list[JSON]) -> JSON | None:
    if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(drills):
        return drills[int(typed) - 1]
    return next((drill for drill in drills if drill["name"] == typed), None)
