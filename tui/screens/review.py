"""Everything on one page: answers, differences from the tutorial, plan, price, time; and Launch, with the reason where it is disabled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Button, OptionList, Static
from textual.widgets.option_list import Option

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.engine.preflight import Checked, blocking
from grpo_wizard.steps.registry import NAMES
from grpo_wizard.tui.screens.refreshing import LookingScreen
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.navigation import neighbour
from grpo_wizard.tui.viewmodels.review import (
    Choices,
    Row,
    bottom_lines,
    reason_against,
    rows,
    switch_difference,
)

if TYPE_CHECKING:
    from grpo_wizard.steps.engine.plan import Decision


class ReviewScreen(LookingScreen):
    """Enter on a line goes back to it, Space switches what can be switched, `l` launches."""

    PLACE = "review"
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "review.tcss"]  # type: ignore[assignment]
    AUTO_FOCUS = "OptionList"
    HELP = _(
        "The last look before anything is made. Enter on a line goes back to it. Below the answers stand what is done better "
        "than in the tutorial, each with a switch, and what was found in the cloud. Launch names what is missing."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "l",
            "launch",
            _("Launch"),
            id="review.launch",
            tooltip=_("Make it; a real deployment asks once more"),
        ),
        Binding("space", "switch", _("Switch"), id="review.switch", tooltip=_("Switch this line on or off")),
        Binding("escape", "back", _("Back"), id="review.back", tooltip=_("To the last step")),
        Binding("f5", "look", _("Check again"), id="review.check", tooltip=_("Look at the cloud again")),
        Binding(
            "t",
            "tear_down",
            _("Tear down"),
            id="review.destroy",
            tooltip=_("Take down what was made"),
            show=False,
        ),
        Binding("m", "monitor", _("Run"), id="review.run", tooltip=_("What is being made"), show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.decisions: Sequence[Decision] | None = None
        self.found: Sequence[Checked] | None = None
        self.choices = Choices()
        self._rows: list[Row] = []

    def body(self) -> ComposeResult:
        """Heading, the lines, price and time, Launch."""
        yield Static("", id="review-head", classes="heading", markup=False)
        yield OptionList(id="lines")
        yield Static("", id="about", markup=False)
        yield Static("", id="bottom", markup=False)
        with Horizontal(id="launch-bar"):
            yield Button(_("Launch"), id="launch", variant="primary", compact=True, disabled=True)
            yield Static("", id="reason", markup=False)

    # --- looking

    @work(exclusive=True, group="look", exit_on_error=False)
    async def action_look(self) -> None:
        """The plan and every check, side by side."""
        self.drop_look()
        self.decisions = self.found = self.error = None
        self.draw()
        if self.desk.draft.look()[1]:
            return
        try:
            session = await self.desk.session()
            world = await self.desk.world(anew=True)
        except WizardError as error:
            self.error = error
            self.draw()
            return
        from grpo_wizard.steps.engine.apply import Options, plan
        from grpo_wizard.steps.engine.preflight import run_checks
        from grpo_wizard.steps.registry import STEPS

        replaced = tuple(self.choices.replaced)

        async def ask() -> tuple[Sequence[Decision], Sequence[Checked]]:
            return await asyncio.gather(
                plan(session, Options(replace=replaced)), run_checks(STEPS, session.answers, world)
            )

        self.error = await self._look("review", ask, self._seen)
        self.draw()

    def _seen(self, answer: tuple[Sequence[Decision], Sequence[Checked]]) -> None:
        self.decisions, self.found = answer
        stuck = {checked.step for checked in blocking(self.found)}
        for name in NAMES:
            self.desk.note_checks(name, name in stuck)
        self.draw()

    # --- drawing

    def draw(self) -> None:
        """All lines anew; the cursor stays where it is."""
        if not self.query("#reason"):
            return  # a resize may come before the widgets
        lines = self.query_one(OptionList)
        at = lines.highlighted
        self._rows = rows(self.desk.draft, self.decisions, self.found, self.choices)
        with self.app.batch_update():
            lines.clear_options()
            lines.add_options(
                [
                    Option(
                        row.text(self.app.theme_variables, self.size.width - 4),
                        id=f"row-{n}",
                        disabled=row.key == "",
                    )
                    for n, row in enumerate(self._rows)
                ]
            )
            lines.highlighted = min(at or 0, len(self._rows) - 1)
        missing = len(self.desk.draft.look()[1])
        head = _("Everything on one page. Enter on a line goes back to it.")
        self.query_one("#review-head", Static).update(
            head + ("   " + _("{n} missing").format(n=missing) if missing else "")
        )
        self.query_one("#bottom", Static).update(
            bottom_lines(self.desk, self.decisions, self.app.theme_variables, self.error)
        )
        reason = self.reason()
        self.query_one("#launch", Button).disabled = bool(reason)
        self.query_one("#reason", Static).update(
            _("disabled: {why}").format(why=reason) if reason else _("ready: l launches")
        )
        self.refresh_bindings()

    def on_resize(self) -> None:
        """Lines are fitted to the width."""
        self.draw()

    def reason(self) -> str:
        """Why it cannot be launched yet; empty when it can."""
        if self.error is not None and not self.desk.draft.look()[1]:
            return f"{self.error.title}. {self.error.fix}".strip()
        return reason_against(self.desk, self.decisions, self.found, self.choices)

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Launch is greyed while it is disabled."""
        if action == "launch":
            return None if self.reason() else True
        if action == "switch":
            row = self._row_here()
            return row is not None and row.on is not None
        if action in ("tear_down", "monitor"):
            return bool(self.desk.draft.deployment.resources)
        return True

    def _row_here(self) -> Row | None:
        at = self.query_one(OptionList).highlighted
        return self._rows[at] if at is not None and at < len(self._rows) else None

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        row = self._row_here()
        self.query_one("#about", Static).update(row.about if row is not None else "")
        self.refresh_bindings()

    @on(OptionList.OptionSelected)
    def _enter(self) -> None:
        row = self._row_here()
        if row is not None and row.key in NAMES:
            self.wizard.go(row.key)
        elif row is not None and row.on is not None:
            self.action_switch()

    def action_switch(self) -> None:
        """Switches the line under the cursor."""
        row = self._row_here()
        if row is None or row.on is None or not self.desk.writable:
            return
        try:
            if row.key == "difference":
                self._switch_difference(row)
            else:
                self.choices.switch(row)
                if row.key == "replace":
                    self.action_look()
                    return
        except WizardError as error:
            self.wizard.show_error(error)
        self.draw()

    def _switch_difference(self, row: Row) -> None:
        switch_difference(self.desk.draft, row)
        self.decisions = None
        self.action_look()

    async def action_launch(self) -> None:
        """Begins at once in a rehearsal; a real one asks for the name first."""
        if self.reason():
            return
        if self.desk.is_rehearsal:
            self._launch()
            return
        from grpo_wizard.tui.widgets.confirm import Confirm

        lines = [
            ("", line.plain)
            for line in bottom_lines(self.desk, self.decisions, self.app.theme_variables).split("\n")
        ]
        self.app.push_screen(
            Confirm(_("Launch {name}?").format(name=self.desk.name), lines, self.desk.name, _("Launch")),
            self._confirmed,
        )

    def _confirmed(self, yes: bool | None) -> None:
        if yes:
            self._launch()

    @on(Button.Pressed, "#launch")
    async def _pressed(self) -> None:
        await self.action_launch()

    @work(exit_on_error=False, exclusive=True, group="launch")
    async def _launch(self) -> None:
        from grpo_wizard.tui.controllers.launch import launch

        try:
            await launch(self.wizard, ["apply", "--yes", *self.choices.words()])
        except WizardError as error:
            self.wizard.show_error(error)
            return
        self.wizard.go("run")

    def action_back(self) -> None:
        """To the last step."""
        self.wizard.go(neighbour("review", -1))

    def action_tear_down(self) -> None:
        """To Teardown."""
        self.wizard.go("teardown")

    def action_monitor(self) -> None:
        """To Run."""
        self.wizard.go("run")
