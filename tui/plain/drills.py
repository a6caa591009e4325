"""The failure drills of a rehearsal as a numbered list; a number starts or ends one."""

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
    """Return the menu entry for drills, which only a rehearsal has."""
    return {MENU_KEY: _("failure drills")} if ui.is_rehearsal else {}


class DrillView:
    """Lists the drills, then starts and ends them until an empty line is typed."""

    def __init__(self, ui: PlainSession) -> None:
        self.ui, self.console = ui, ui.console

    def run(self) -> None:
        self.ui.print_heading(
            _("Drills"),
            _("Simulated failures. A drill takes effect immediately and stays active until you end it."),
        )
        drills = self._update()
        for number, drill in enumerate(drills, 1):
            self.console.print(f"{number}. {_format_drill(drill)}")
        while drills:
            typed = self.console.ask(
                _(
                    "Type a number to start or end a drill, {help} and a number to describe one, or e to end all (none):"
                ).format(help=HELP)
            )
            if not typed:
                return
            if typed.lower() == "e":
                drills = self._end_all()
                continue
            chosen = _find_drill(typed.removeprefix(HELP).strip(), drills)
            if chosen is None:
                self.console.print(_("Invalid: type a number from 1 to {n}.").format(n=len(drills)))
            elif typed.startswith(HELP):
                self._explain(chosen)
            else:
                drills = self._toggle(chosen)

    def _toggle(self, drill: JSON) -> list[JSON]:
        name = (drill["name"],)
        if drill["running"]:
            drills = self._update(end=name)
            self.console.print(_("Ended: {drill}").format(drill=_format_drill({**drill, "running": False})))
            self.console.print(_("Recovery: {text}").format(text=end_with_period(drill["mends"])))
        else:
            drills = self._update(begin=name)
            self.console.print(_("Started: {drill}").format(drill=_format_drill({**drill, "running": False})))
            self.console.print(_("When: {text}").format(text=end_with_period(drill["felt"])))
        return drills

    def _end_all(self) -> list[JSON]:
        ended = ", ".join(drill["name"] for drill in self._update() if drill["running"])
        drills = self._update(end=())
        if drills:
            text = _("Ended: {names}. No drill is active now.").format(names=ended)
            self.console.print(text if ended else _("No drill is active."))
        return drills

    def _explain(self, drill: JSON) -> None:
        self.console.print(_format_drill(drill))
        for label, key in ((_("Effect"), "happens"), (_("When"), "felt"), (_("Recovery"), "mends")):
            self.console.print(f"{label}: {end_with_period(drill[key])}")
        self.console.print(_("Source: {source}").format(source=drill["source"]))

    def _update(self, begin: tuple[str, ...] = (), end: tuple[str, ...] | None = None) -> list[JSON]:
        from grpo_wizard.tui.controllers.drills import update_drills

        try:
            return update_drills(Path(self.ui.home.root), self.ui.speed, begin, end)
        except WizardError as error:
            self.ui.print_error(error)
            return []


def _format_drill(drill: JSON) -> str:
    active = " " + _("Active.") if drill["running"] else ""
    return f"{drill['name']}: {end_with_period(drill['title'])}{active}"


def _find_drill(typed: str, drills: list[JSON]) -> JSON | None:
    if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(drills):
        return drills[int(typed) - 1]
    return next((drill for drill in drills if drill["name"] == typed), None)
