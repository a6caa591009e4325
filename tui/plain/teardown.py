"""Taking down, as lines: what goes, what stays, what is lost with it; then the name, then how it goes."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.plain.context import Leave, Table
from grpo_wizard.tui.plain.run import begin
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.viewmodels.destroy import Fate, fates, lost, sides


class TeardownRoom:
    """Nothing is deleted before the deployment's name has been typed. `run` returns the place to go to."""

    def __init__(self, table: Table) -> None:
        self.table, self.desk, self.talk = table, table.open_desk, table.talk

    def run(self) -> str:
        """Looks, lists, asks for the name."""
        self.table.head(
            _("Tear down {name}").format(name=self.desk.name), _("Only what this deployment made is deleted.")
        )
        try:
            listed = self.table.wait(_("looking at the cloud"), self._look())
        except WizardError as error:
            self.table.trouble(error)
            return self._again()
        keeps = any(fate.goes and fate.goes_with_lustre for fate in listed) and self.talk.yes(
            _("Keep Lustre and its network? Both go on costing.")
        )
        goes, stays = sides(listed, keeps)
        self._list(goes, stays, keeps)
        if (
            self.talk.ask(
                _("Type the deployment's name, {name}, to tear it down (Enter changes nothing):").format(
                    name=self.desk.name
                )
            )
            != self.desk.name
        ):
            self.talk.say(_("Nothing was changed."))
            return ""
        begin(self.table, ["destroy", "--confirm", self.desk.name, *(["--keep", "lustre"] if keeps else [])])
        return "run" if self.table.engine is not None else ""

    async def _look(self) -> list[Fate]:
        from grpo_wizard.steps.engine.apply import Options, plan

        return fates(await plan(await self.desk.session(), Options(), strict=True))

    def _list(self, goes: Sequence[Fate], stays: Sequence[Fate], keeps: bool) -> None:
        for fate in goes:
            self.talk.say(_("Goes: {kind} {name}").format(kind=fate.kind, name=fate.name))
        for fate in stays:
            why = f": {fate.why}" if fate.why else ""
            self.talk.say(_("Stays: {kind} {name}").format(kind=fate.kind, name=fate.name) + why)
        self.talk.say(
            ngettext("{n} thing goes, {m} stay.", "{n} things go, {m} stay.", len(goes)).format(
                n=len(goes), m=len(stays)
            )
        )
        if text := lost(self.desk, keeps):
            self.talk.say(_("Warning: {text}").format(text=text))

    def _again(self) -> str:
        chosen = self.talk.choose(
            "", {"r": _("look again"), "b": _("back to the deployments"), "l": _("leave")}, "r"
        )
        if chosen == "l":
            raise Leave
        return "teardown" if chosen == "r" else ""
