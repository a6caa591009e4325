"""The Review screen: answers, differences from the tutorial, plan, price and time on one page; and Launch."""

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
from grpo_wizard.steps.engine.preflight import CheckResult, blocking
from grpo_wizard.steps.registry import STEP_NAMES
from grpo_wizard.tui.screens.refreshing import RefreshingScreen
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.viewmodels.navigation import adjacent_screen
from grpo_wizard.tui.viewmodels.review import (
    ReviewOptions,
    ReviewRow,
    launch_blocker,
    plan_summary,
    review_rows,
    toggle_difference,
)

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.steps.engine.plan import Decision


class ReviewScreen(RefreshingScreen):
    """Enter on a line opens its step, Space toggles a switch, `l` launches."""

    SCREEN_NAME = "review"
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "review.tcss"]  # type: ignore[assignment]
    AUTO_FOCUS = "OptionList"
    HELP = _(
        "This is the final review before anything is created. Press Enter on a line to edit that step. Below the "
        "answers are the check findings, the resources that already exist, and the improvements over the tutorial, "
        "some of which you can turn off. If Launch is disabled, the reason is shown next to it."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "l",
            "launch",
            _("Launch"),
            id="review.launch",
            tooltip=_("Create the resources; a real deployment requires confirmation first"),
        ),
        Binding("space", "switch", _("On/off"), id="review.switch", tooltip=_("Turn this option on or off")),
        Binding("escape", "back", _("Back"), id="review.back", tooltip=_("Return to the last step")),
        Binding(
            "f5", "refresh", _("Refresh"), id="review.check", tooltip=_("Refresh the plan and all checks")
        ),
        Binding(
            "t",
            "tear_down",
            _("Destroy"),
            id="review.destroy",
            tooltip=_("Delete the resources that this deployment created"),
            show=False,
        ),
        Binding(
            "m",
            "monitor",
            _("Run"),
            id="review.run",
            tooltip=_("Show the progress of each resource"),
            show=False,
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.decisions: Sequence[Decision] | None = None
        self.check_results: Sequence[CheckResult] | None = None
        self.options = ReviewOptions()
        self._rows: list[ReviewRow] = []

    def body(self) -> ComposeResult:
        """Yield heading, lines, the selected line in full, the summary, and Launch."""
        yield Static("", id="review-head", classes="heading", markup=False)
        yield OptionList(id="lines")
        yield Static("", id="about", markup=False)
        yield Static("", id="bottom", markup=False)
        with Horizontal(id="launch-bar"):
            yield Button(_("Launch"), id="launch", variant="primary", compact=True, disabled=True)
            yield Static("", id="reason", markup=False)

    # --- refresh

    @work(exclusive=True, group="look", exit_on_error=False)
    async def action_refresh(self) -> None:
        """Plan and run every check, concurrently."""
        self.cancel_refresh()
        self.decisions = self.check_results = self.error = None
        self.draw()
        if self.controller.draft.validate()[1]:
            return
        try:
            session = await self.controller.session()
            reader = await self.controller.cloud_reader(refresh=True)
        except WizardError as error:
            self.error = error
            self.draw()
            return
        from grpo_wizard.steps.engine.apply import plan
        from grpo_wizard.steps.engine.options import ApplyOptions
        from grpo_wizard.steps.engine.preflight import run_checks
        from grpo_wizard.steps.registry import STEPS

        replaced = tuple(self.options.replace_ids)
        self._refresh_prices(session)

        async def fetch() -> tuple[Sequence[Decision], Sequence[CheckResult]]:
            return await asyncio.gather(
                plan(session, ApplyOptions(replace=replaced)), run_checks(STEPS, session.answers, reader)
            )

        self.error = await self._refresh_in_thread("review", fetch, self._show_result)
        self.draw()

    @work(exclusive=True, group="prices", exit_on_error=False)
    async def _refresh_prices(self, session: Session) -> None:
        """Ask for today's prices beside the plan: the screen shows those known until they are read."""
        from grpo_wizard.steps.pricing.refresh import refresh_prices
        from grpo_wizard.tui.controllers.threads import LoopThread

        async def main() -> None:
            await refresh_prices(session)

        await LoopThread("prices", main).ended
        self.update_title()
        self.draw()

    def _show_result(self, result: tuple[Sequence[Decision], Sequence[CheckResult]]) -> None:
        self.decisions, self.check_results = result
        blocked = {result.step for result in blocking(self.check_results)}
        for name in STEP_NAMES:
            self.controller.record_checks(name, name in blocked)
        self.draw()

    # --- drawing

    def draw(self) -> None:
        """Redraw everything; the cursor keeps its line."""
        if not self.query("#reason"):
            return  # a resize may come before the widgets are mounted
        lines = self.query_one(OptionList)
        cursor = lines.highlighted
        self._rows = review_rows(
            self.controller.draft,
            self.decisions,
            self.check_results,
            self.options,
            self.controller.price_book,
        )
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
            lines.highlighted = min(cursor or 0, len(self._rows) - 1)
        missing = len(self.controller.draft.validate()[1])
        count = ngettext("{n} answer missing", "{n} answers missing", missing).format(n=missing)
        head = _("Review all answers. Press Enter to edit a step.")
        self.query_one("#review-head", Static).update(head + ("   " + count if missing else ""))
        self.query_one("#bottom", Static).update(
            plan_summary(self.controller, self.decisions, self.app.theme_variables, self.error)
        )
        reason = self.launch_blocker()
        self.query_one("#launch", Button).disabled = bool(reason)
        self.query_one("#reason", Static).update(
            _("Disabled: {reason}").format(reason=reason) if reason else _("Ready. Press l to launch.")
        )
        self.refresh_bindings()

    def on_resize(self) -> None:
        """Fit the lines to the new width."""
        self.draw()

    def launch_blocker(self) -> str:
        """Why Launch is disabled; empty if it is enabled."""
        if self.error is not None and not self.controller.draft.validate()[1]:
            return f"{self.error.title}. {self.error.fix}".strip()
        return launch_blocker(self.controller, self.decisions, self.check_results, self.options)

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out Launch while it is disabled; hide keys that have no effect."""
        if action == "launch":
            return None if self.launch_blocker() else True
        if action == "switch":
            row = self._selected_row()
            return row is not None and row.enabled is not None
        if action in ("tear_down", "monitor"):
            return bool(self.controller.draft.deployment.resources)
        return True

    def _selected_row(self) -> ReviewRow | None:
        cursor = self.query_one(OptionList).highlighted
        return self._rows[cursor] if cursor is not None and cursor < len(self._rows) else None

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        row = self._selected_row()
        self.query_one("#about", Static).update(row.description if row is not None else "")
        self.refresh_bindings()

    @on(OptionList.OptionSelected)
    def _enter(self) -> None:
        row = self._selected_row()
        if row is not None and row.key in STEP_NAMES:
            self.wizard.show(row.key)
        elif row is not None and row.enabled is not None:
            self.action_switch()

    def action_switch(self) -> None:
        """Toggle the switch of the selected line."""
        row = self._selected_row()
        if row is None or row.enabled is None or not self.controller.writable:
            return
        try:
            if row.key == "difference":
                self._switch_difference(row)
            else:
                self.options.toggle(row)
                if row.key == "replace":
                    self.action_refresh()
                    return
        except WizardError as error:
            self.wizard.show_error(error)
        self.draw()

    def _switch_difference(self, row: ReviewRow) -> None:
        toggle_difference(self.controller.draft, row)
        self.decisions = None
        self.action_refresh()

    async def action_launch(self) -> None:
        """Launch at once in a rehearsal; ask for the deployment's name first in a real deployment."""
        if self.launch_blocker():
            return
        if self.controller.is_rehearsal:
            self._launch()
            return
        from grpo_wizard.tui.widgets.confirm import ConfirmDialog

        lines = [
            ("", line.plain)
            for line in plan_summary(self.controller, self.decisions, self.app.theme_variables).split("\n")
        ]
        self.app.push_screen(
            ConfirmDialog(
                _("Launch {name}?").format(name=self.controller.name),
                lines,
                self.controller.name,
                _("Launch"),
            ),
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
            await launch(self.wizard, self.options.apply_options())
        except WizardError as error:
            self.wizard.show_error(error)
            return
        self.wizard.show("run")

    def action_back(self) -> None:
        """Return to the last step."""
        self.wizard.show(adjacent_screen("review", -1))

    def action_tear_down(self) -> None:
        """Open Destroy."""
        self.wizard.show("teardown")

    def action_monitor(self) -> None:
        """Open Run."""
        self.wizard.show("run")
