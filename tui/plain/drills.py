"""Drills as lines: what may go wrong in this rehearsal, numbered; a number begins one or ends it at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.tui.plain.console import HELP
from grpo_wizard.tui.plain.context import PlainSession
from grpo_wizard.tui.style.i18n import _

JSON = dict[str, Any]
MENU_KEY = "x"


def menu_option(ui: PlainSession) -> dict[str, str]:
    """The entry of a room's menu; in the real Google Cloud there is none."""
    return {MENU_KEY: _("drills: what goes wrong here")} if ui.is_rehearsal else {}


class DrillView:
    """`run` lists and asks until nothing is typed."""

    def __init__(self, ui: PlainSession) -> None:
        self.ui, self.console = ui, ui.console

    def run(self) -> None:
        """Each number acts at once; `?` with a number says what it does."""
        self.ui.print_heading(
            _("Drills"), _("What goes wrong in this rehearsal: at once, and until you end it.")
        )
        drills = self._update()
        for number, drill in enumerate(drills, 1):
            self.console.print(f"{number}. {_format_drill(drill)}")
        while drills:
            typed = self.console.ask(
                _(
                    "Type a number to begin or end one, {help} and a number for what it does, e to end all (none):"
                ).format(help=HELP)
            )
            if not typed:
                return
            if typed.lower() == "e":
                drills = self._end_all()
                continue
            chosen = _find_drill(typed.removeprefix(HELP).strip(), drills)
            if chosen is None:
                self.console.print(_("Refused: a number from 1 to {n}.").format(n=len(drills)))
            elif typed.startswith(HELP):
                self._explain(chosen)
            else:
                drills = self._toggle(chosen)

    def _toggle(self, drill: JSON) -> list[JSON]:
        name = (drill["name"],)
        if drill["running"]:
            drills = self._update(end=name)
            self.console.print(_("Ended: {line}").format(line=_format_drill({**drill, "running": False})))
            self.console.print(drill["mends"])
        else:
            drills = self._update(begin=name)
            self.console.print(_("Began: {line}").format(line=_format_drill({**drill, "running": False})))
            self.console.print(_("Felt {when}").format(when=end_with_period(drill["felt"])))
        return drills

    def _end_all(self) -> list[JSON]:
        ended = ", ".join(drill["name"] for drill in self._update() if drill["running"])
        drills = self._update(end=())
        if drills:
            was = _("Ended: {names}. No drill runs now.").format(names=ended)
            self.console.print(was if ended else _("No drill runs."))
        return drills

    def _explain(self, drill: JSON) -> None:
        self.console.print(_format_drill(drill))
        for label, key in ((_("What"), "happens"), (_("Felt"), "felt"), (_("After"), "mends")):
            self.console.print(f"{label}: {end_with_period(drill[key])}")
        self.console.print(_("As in: {source}").format(source=drill["source"]))

    def _update(self, begin: tuple[str, ...] = (), end: tuple[str, ...] | None = None) -> list[JSON]:
        from grpo_wizard.tui.controllers.drills import update_drills

        try:
            return update_drills(Path(self.ui.home.root), self.ui.speed, begin, end)
        except WizardError as error:
            self.ui.print_error(error)
            return []


def _format_drill(drill: JSON) -> str:
    runs = " " + _("Runs.") if drill["running"] else ""
    return f"{drill['name']}: {end_with_period(drill['title'])}{runs}"


def _find_drill(typed: str, drills: list[JSON]) -> JSON | None:
    if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(drills):
        return drills[int(typed) - 1]
    return next((drill for drill in drills if drill["name"] == typed), None)
