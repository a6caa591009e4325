"""The deployments there are, numbered; a new one, a rehearsal, taking over, tearing down, or leaving."""

from __future__ import annotations

import time

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.store import Store
from grpo_wizard.steps.core.model import Refused
from grpo_wizard.steps.core.validators import deployment_name
from grpo_wizard.tui.commands._session import real_beside_rehearsal
from grpo_wizard.tui.controllers.deployment import Desk
from grpo_wizard.tui.controllers.draft import Given
from grpo_wizard.tui.controllers.prefill import environment, for_mode, variables
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.console import HELP, sentence
from grpo_wizard.tui.plain.context import Leave, Table
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import Summary, summaries


class Opening:
    """`run` puts a deployment on the desk and returns the place to go to."""

    def __init__(self, table: Table) -> None:
        self.table, self.talk = table, table.talk
        self._has_drills = table.rehearses

    def run(self) -> str:
        """Until something is opened."""
        self.table.head(_("Deployments"), _("Rehearse first: the same questions, no account, no cost."))
        while True:
            listed = summaries(self.table.home, time.time())
            for n, row in enumerate(listed, 1):
                self.talk.say(f"{n}. {_words(row)}")
            if not listed:
                self.talk.say(_("There is no deployment yet."))
            try:
                self._has_drills = self.table.rehearses or any(row.rehearsal for row in listed)
                place = self._choose([row.name for row in listed])
            except WizardError as error:
                self.table.trouble(error)
                continue
            if place:
                return place

    def _choose(self, names: list[str]) -> str:
        prompt = _(
            "Type {number}n for new, r for a rehearsal, o to take over a half-done tutorial, {tear}{drills}or l to leave (l):"
        ).format(
            number=_("a number to open it, ") if names else "",
            tear=_("d to tear down, ") if names else "",
            drills=_("x for drills, ") if self._has_drills else "",
        )
        while True:
            typed = self.talk.ask(prompt).lower()
            if typed in ("", "l"):
                raise Leave
            if typed in ("n", "r"):
                return self._begin(rehearsal=typed == "r" or self.table.rehearse)
            if typed == "o":
                return self._take_over()
            if typed == drills.KEY and self._has_drills:
                drills.DrillRoom(self.table).run()
                return ""
            if typed == "d" and names:
                chosen = self._number(names)
                return open_deployment(self.table, chosen) and "teardown" if chosen else ""
            if typed in names or (typed.isdigit() and typed.isascii() and 1 <= int(typed) <= len(names)):
                return open_deployment(self.table, typed if typed in names else names[int(typed) - 1])
            if typed == HELP:
                self.talk.say(
                    _("Help: nothing is created before Review, where you see the price and type yes.")
                )
            else:
                self.talk.say(
                    _("Refused: one of the letters{numbers}.").format(
                        numbers=_(", or a number from the list") if names else ""
                    )
                )

    def _number(self, names: list[str]) -> str:
        while True:
            typed = self.talk.ask(_("Which one, 1 to {n} (none):").format(n=len(names)))
            if not typed or typed in names:
                return typed
            if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(names):
                return names[int(typed) - 1]
            self.talk.say(_("Refused: a number from 1 to {n}.").format(n=len(names)))

    def _begin(self, rehearsal: bool, prefill: Given | None = None) -> str:
        """Asks for a name that is free."""
        known = self.table.home.deployments()
        stem = "rehearsal" if rehearsal else "grpo"
        proposed = next(name for n in range(1, 1000) if (name := f"{stem}-{n}") not in known)
        while True:
            typed = self.talk.ask(_("Its name here ({name}):").format(name=proposed)) or proposed
            try:
                name = deployment_name(typed)
            except Refused as refusal:
                self.talk.say(_("Refused: {rule}").format(rule=sentence(str(refusal))))
                continue
            if name not in known:
                return open_deployment(self.table, name, create=True, rehearsal=rehearsal, prefill=prefill)
            self.talk.say(_("Refused: {name} is there already.").format(name=name))

    def _take_over(self) -> str:
        given = environment()
        if given:
            return self._begin(self.table.rehearse, given)
        self.talk.say(
            _("No variable of the tutorial is set. Looked for: {names}.").format(names=", ".join(variables()))
        )
        return ""


def open_deployment(
    table: Table, name: str, *, create: bool = False, rehearsal: bool = False, prefill: Given | None = None
) -> str:
    """Puts it on the desk. Returns where it was left. Raises WizardError."""
    store = Store(table.home)
    if create and not table.home.known(name):
        store.create(name, "rehearsal" if rehearsal else "real", {})
    mode = store.load(name).mode
    if text := real_beside_rehearsal(mode):
        table.talk.say(_("Note: {text}").format(text=sentence(text)))
    table.desk = Desk(table.home, name, for_mode(mode) if prefill is None else prefill, table.speed)
    table.engine = None
    return table.desk.where_to_begin()


def close_deployment(table: Table) -> None:
    """Gives its lock back."""
    if table.desk is not None:
        table.desk.release()
    table.desk = table.engine = None


def _words(row: Summary) -> str:
    said = (
        row.name,
        row.word,
        row.detail.replace("  ", ", "),
        row.price,
        row.age and _("{age} old").format(age=row.age),
        row.place,
    )
    return sentence(", ".join(text for text in said if text))
