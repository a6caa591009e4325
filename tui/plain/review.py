"""Everything once more in lines: answers, what was found, differences from the tutorial, price and time; then Launch by the word yes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.engine.apply import Options, plan
from grpo_wizard.steps.engine.plan import expected_words, price
from grpo_wizard.steps.engine.preflight import Checked, run_checks
from grpo_wizard.steps.registry import NAMES, STEPS, all_resources
from grpo_wizard.tui.commands._output import money
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.console import sentence
from grpo_wizard.tui.plain.context import Leave, Table
from grpo_wizard.tui.plain.step import LEVELS
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.navigation import neighbour
from grpo_wizard.tui.viewmodels.review import (
    Choices,
    Row,
    memory_line,
    reason_against,
    rows,
    switch_difference,
)

if TYPE_CHECKING:
    from grpo_wizard.steps.engine.plan import Decision

_WORDS = {"done": _("done"), "block": LEVELS["block"], "warn": LEVELS["warn"]}


class Review:
    """`run` returns the place to go to."""

    def __init__(self, table: Table) -> None:
        self.table, self.desk, self.talk = table, table.open_desk, table.talk
        self.choices = Choices()
        self.decisions: Sequence[Decision] | None = None
        self.found: Sequence[Checked] | None = None
        self.error: WizardError | None = None
        self._numbered: list[Row] = []

    def run(self) -> str:
        """Looks, lists, asks; again and again until there is somewhere to go."""
        self.table.head(_("Review"), _("Nothing is made before you launch."))
        self.look()
        while True:
            self._list()
            place = self._menu()
            if place is not None:
                return place

    # --- looking

    def look(self) -> None:
        """The plan and every check, as far as the answers allow."""
        self.decisions = self.found = self.error = None
        if self.desk.draft.look()[1]:
            return
        try:
            self.decisions, self.found = self.table.wait(_("looking at the cloud"), self._look())
        except WizardError as error:
            self.error = error

    async def _look(self) -> tuple[Sequence[Decision], Sequence[Checked]]:
        session, world = await self.desk.session(), await self.desk.world(anew=True)
        options = Options(replace=tuple(self.choices.replaced))
        return await asyncio.gather(plan(session, options), run_checks(STEPS, session.answers, world))

    def _reason(self) -> str:
        if self.error is not None:
            return f"{sentence(self.error.title)} {self.error.fix}".strip()
        return reason_against(self.desk, self.decisions, self.found, self.choices)

    # --- lines

    def _list(self) -> None:
        self._numbered = []
        for row in rows(self.desk.draft, self.decisions, self.found, self.choices):
            self.talk.say(self._line(row))
        self._say_price()

    def _line(self, row: Row) -> str:
        """Lines that can be changed have a number."""
        if row.key == "" and not row.sign:
            return f"{row.title.partition(' (')[0]}:"
        number = ""
        if row.key in NAMES or row.on is not None:
            self._numbered.append(row)
            number = f"{len(self._numbered)}. "
        state = "" if row.on is None else (_("on") if row.on else _("off"))
        word = state or ("" if row.key == "always" else _WORDS.get(row.sign, ""))
        body = row.body.replace(" · ", ", ").replace(" → ", ". " + _("Fix: {fix}").format(fix=""))
        return f"{number}{row.title}: " + (f"{word}: " if word else "") + body

    def _say_price(self) -> None:
        """What is unknown is named, never guessed."""
        try:
            resources = all_resources(self.desk.answers())
        except WizardError:
            self.talk.say(_("Price and time follow when the answers are complete."))
            return
        known, unknown = price(resources)
        names = ", ".join(id.split(".", 2)[2] for id in unknown)
        free = " " + _("This is a rehearsal: nothing is charged.") if self.desk.is_rehearsal else ""
        self.talk.say(
            _("Price: {price}").format(
                price=sentence(money(known, len(unknown)) + (f": {names}" if names else ""))
            )
            + free
        )
        if self.decisions is None:
            return
        counts = Counter(decision.action for decision in self.decisions)
        self.talk.say(
            _("Plan: {counts}.").format(counts=", ".join(f"{n} to {action}" for action, n in counts.items()))
        )
        self.talk.say(
            _("Time: {time}. Memory: {memory}.").format(
                time=expected_words(self.decisions), memory=memory_line(self.table.open_desk)
            )
        )

    # --- what to do

    def _menu(self) -> str | None:
        reason = self._reason()
        self.talk.say(
            _("Launch is not possible: {why}").format(why=sentence(reason))
            if reason
            else _("Ready to launch.")
        )
        there = bool(self.desk.draft.deployment.resources)
        ways = {
            **({} if reason else {"go": _("launch")}),
            "c": _("change a line by its number"),
            "r": _("check again"),
            **({"t": _("tear down")} if there else {}),
            **drills.ways(self.table),
            "b": _("back"),
            "l": _("leave"),
        }
        chosen = self.talk.choose("", ways)
        if chosen == "l":
            self._keep_place()
            raise Leave
        if chosen == "go":
            return self._launch()
        if chosen == "c":
            return self._change()
        if chosen == drills.KEY:
            drills.DrillRoom(self.table).run()
        if chosen in ("r", drills.KEY):
            self.look()
            return None
        return "teardown" if chosen == "t" else neighbour("review", -1)

    def _keep_place(self) -> None:
        if self.desk.writable:
            self.desk.draft.save_place("review")

    def _change(self) -> str | None:
        """Goes back to a step, or switches a switch."""
        while True:
            typed = self.talk.ask(_("Which line, 1 to {n} (none):").format(n=len(self._numbered)))
            if not typed:
                return None
            if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(self._numbered):
                break
            self.talk.say(_("Refused: a number from 1 to {n}.").format(n=len(self._numbered)))
        row = self._numbered[int(typed) - 1]
        if row.on is None:
            return row.key
        if row.key == "difference":
            switch_difference(self.desk.draft, row)
        else:
            self.choices.switch(row)
        if row.key in ("difference", "replace"):
            self.look()
        return None

    def _launch(self) -> str | None:
        """Only the whole word yes."""
        if self.talk.ask(_("Type yes to launch {name} (no):").format(name=self.desk.name)).lower() != _(
            "yes"
        ):
            self.talk.say(_("Not launched."))
            return None
        from grpo_wizard.tui.plain.run import begin

        begin(self.table, ["apply", "--yes", *self.choices.words()])
        return "run"
