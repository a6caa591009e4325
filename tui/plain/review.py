"""Review: answers, findings, plan, differences from the tutorial, price and time as lines; launches on the word yes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.steps.engine.apply import plan
from grpo_wizard.steps.engine.estimate import format_estimate
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.engine.preflight import CheckResult, run_checks
from grpo_wizard.steps.pricing.book import hourly_cost
from grpo_wizard.steps.pricing.refresh import refresh_prices
from grpo_wizard.steps.registry import STEP_NAMES, STEPS, all_resources
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.context import PlainSession, Quit
from grpo_wizard.tui.plain.step import LEVEL_LABELS
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.labels import format_hourly_price
from grpo_wizard.tui.viewmodels.navigation import adjacent_screen
from grpo_wizard.tui.viewmodels.review import (
    ReviewOptions,
    ReviewRow,
    launch_blocker,
    memory_summary,
    review_rows,
    toggle_difference,
)

if TYPE_CHECKING:
    from grpo_wizard.steps.engine.plan import Decision

_STATUS_LABELS = {"done": _("done"), "block": LEVEL_LABELS["block"], "warn": LEVEL_LABELS["warn"]}


class ReviewView:
    """Lists everything, then asks what to do. `run` returns the name of the next view."""

    def __init__(self, ui: PlainSession) -> None:
        self.ui, self.controller, self.console = ui, ui.active_controller, ui.console
        self.choices = ReviewOptions()
        self.decisions: Sequence[Decision] | None = None
        self.check_results: Sequence[CheckResult] | None = None
        self.error: WizardError | None = None
        self._numbered_rows: list[ReviewRow] = []

    def run(self) -> str:
        self.ui.print_heading(_("Review"), _("Nothing will be created until you launch."))
        self.refresh()
        while True:
            self._list()
            view_name = self._menu()
            if view_name is not None:
                return view_name

    def refresh(self) -> None:
        """Read the plan and run every check, if the answers are complete."""
        self.decisions = self.check_results = self.error = None
        if self.controller.draft.validate()[1]:
            return
        try:
            self.decisions, self.check_results = self.ui.wait(
                _("reading the project"), self._read_plan_and_checks()
            )
        except WizardError as error:
            self.error = error

    async def _read_plan_and_checks(self) -> tuple[Sequence[Decision], Sequence[CheckResult]]:
        session, reader = await self.controller.session(), await self.controller.cloud_reader(refresh=True)
        prices = asyncio.ensure_future(refresh_prices(session))
        options = ApplyOptions(replace=tuple(self.choices.replace_ids))
        results = await asyncio.gather(plan(session, options), run_checks(STEPS, session.answers, reader))
        await prices
        return results

    def _launch_blocker(self) -> str:
        if self.error is not None:
            return f"{end_with_period(self.error.title)} {self.error.fix}".strip()
        return launch_blocker(self.controller, self.decisions, self.check_results, self.choices)

    def _list(self) -> None:
        self._numbered_rows = []
        for row in review_rows(
            self.controller.draft,
            self.decisions,
            self.check_results,
            self.choices,
            self.controller.price_book,
        ):
            self.console.print(self._format_row(row))
        self._print_price()

    def _format_row(self, row: ReviewRow) -> str:
        """Format a row; those that can be changed are numbered."""
        if row.key == "" and not row.status:
            return f"{row.title.partition(' (')[0]}:"
        number = ""
        if row.key in STEP_NAMES or row.enabled is not None:
            self._numbered_rows.append(row)
            number = f"{len(self._numbered_rows)}. "
        state = "" if row.enabled is None else (_("on") if row.enabled else _("off"))
        label = state or ("" if row.key == "always" else _STATUS_LABELS.get(row.status, ""))
        body = row.body.replace(" · ", ", ").replace(" → ", ". " + _("Fix: {fix}").format(fix=""))
        return f"{number}{row.title}: " + (f"{label}: " if label else "") + body

    def _print_price(self) -> None:
        """Print price, plan, time and memory. Unknown prices are named, never estimated."""
        try:
            resources = all_resources(self.controller.answers(), self.controller.price_book)
        except WizardError:
            self.console.print(_("The price and time will appear once all answers are set."))
            return
        known, unknown = hourly_cost(resources)
        names = ", ".join(id.split(".", 2)[2] for id in unknown)
        free = (
            " " + _("This is a rehearsal, so nothing will be charged.")
            if self.controller.is_rehearsal
            else ""
        )
        self.console.print(
            _("Price: {price}").format(
                price=end_with_period(
                    format_hourly_price(known, len(unknown)) + (f": {names}" if names else "")
                )
            )
            + free
        )
        if self.decisions is None:
            return
        counts = Counter(decision.action for decision in self.decisions)
        self.console.print(
            _("Plan: {counts}.").format(counts=", ".join(f"{n} to {action}" for action, n in counts.items()))
        )
        self.console.print(
            _("Time: {time}. Memory: {memory}.").format(
                time=format_estimate(self.decisions), memory=memory_summary(self.ui.active_controller)
            )
        )

    def _menu(self) -> str | None:
        reason = self._launch_blocker()
        self.console.print(
            _("Cannot launch: {reason}").format(reason=end_with_period(reason))
            if reason
            else _("Ready to launch.")
        )
        has_resources = bool(self.controller.draft.deployment.resources)
        options = {
            **({} if reason else {"go": _("launch")}),
            "c": _("change a numbered line"),
            "r": _("check again"),
            **({"t": _("destroy")} if has_resources else {}),
            **drills.menu_option(self.ui),
            "b": _("back"),
            "l": _("leave"),
        }
        chosen = self.console.choose("", options)
        if chosen == "l":
            self._save_position()
            raise Quit
        if chosen == "go":
            return self._launch()
        if chosen == "c":
            return self._change()
        if chosen == drills.MENU_KEY:
            drills.DrillView(self.ui).run()
        if chosen in ("r", drills.MENU_KEY):
            self.refresh()
            return None
        return "teardown" if chosen == "t" else adjacent_screen("review", -1)

    def _save_position(self) -> None:
        if self.controller.writable:
            self.controller.draft.save_screen("review")

    def _change(self) -> str | None:
        """Return to a step, or turn an option on or off."""
        while True:
            typed = self.console.ask(_("Which line, 1 to {n} (none):").format(n=len(self._numbered_rows)))
            if not typed:
                return None
            if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(self._numbered_rows):
                break
            self.console.print(_("Invalid: type a number from 1 to {n}.").format(n=len(self._numbered_rows)))
        row = self._numbered_rows[int(typed) - 1]
        if row.enabled is None:
            return row.key
        if row.key == "difference":
            toggle_difference(self.controller.draft, row)
        else:
            self.choices.toggle(row)
        if row.key in ("difference", "replace"):
            self.refresh()
        return None

    def _launch(self) -> str | None:
        """Launch if the whole word yes is typed."""
        if self.console.ask(
            _("Type yes to launch {name} (no):").format(name=self.controller.name)
        ).lower() != _("yes"):
            self.console.print(_("Not launched."))
            return None
        from grpo_wizard.tui.plain.run import start_run

        start_run(self.ui, self.choices.apply_options())
        return "run"
