"""Taking down: what goes, what stays, what is lost with it; then the name, then how it goes, then "nothing left"."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Label, Static

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.screens.refreshing import RefreshingScreen
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.style.icons import status_icon
from grpo_wizard.tui.viewmodels.destroy import DestroyItem, data_loss_warning, destroy_items, split
from grpo_wizard.tui.viewmodels.spending import format_remaining_cost
from grpo_wizard.tui.widgets.inputs import SwitchField

if TYPE_CHECKING:
    from grpo_wizard.steps.engine.plan import Decision


class TeardownScreen(RefreshingScreen):
    """Nothing is deleted before the deployment's name has been typed."""

    SCREEN_NAME = "teardown"
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "teardown.tcss"]  # type: ignore[assignment]
    AUTO_FOCUS = "#goes"
    HELP = _(
        "Deletes what this deployment made and nothing else. What was adopted stays, and so do APIs and roles, which others may "
        "need. Lustre can be kept: then its network stays too, and both go on costing."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "d",
            "destroy",
            _("Tear down"),
            id="teardown.destroy",
            tooltip=_("Asks for the deployment's name first"),
        ),
        Binding("k", "keep", _("Keep Lustre"), id="teardown.keep", tooltip=_("Leave Lustre and its network")),
        Binding("f5", "refresh", _("Check again"), id="teardown.look", tooltip=_("Look at the cloud again")),
        Binding("escape", "back", _("Back"), id="teardown.back", tooltip=_("Change nothing")),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.items: Sequence[DestroyItem] | None = None
        self.bill = ""

    def body(self) -> ComposeResult:
        """Question, warning, two lists, what to keep."""
        yield Static("", id="teardown-head", classes="heading", markup=False)
        yield Static("", id="lost", markup=False)
        yield Static("", id="bill", markup=False)
        with Horizontal(id="lists"):
            for id, title in (("goes", _("Goes")), ("stays", _("Stays"))):
                with VerticalScroll(id=id) as box:
                    box.border_title = Content(f" {title} ")
                    yield Static(_("looking…"), markup=False)
        with Horizontal(id="keep-bar"):
            yield Label(_("Keep Lustre"))
            yield SwitchField(False, id="keep")
        yield Static("", id="after", classes="say", markup=False)

    @work(exclusive=True, group="look", exit_on_error=False)
    async def action_refresh(self) -> None:
        """What is there, and whose it is."""
        self.items = self.error = None
        self.draw()
        try:
            session = await self.controller.session()
        except WizardError as error:
            self._show_error(error)
            return
        from grpo_wizard.steps.engine.apply import plan
        from grpo_wizard.steps.engine.options import ApplyOptions
        from grpo_wizard.steps.pricing.reservation import reservation_bill

        async def ask() -> tuple[Sequence[Decision], dict[str, Any] | None]:
            seen, bill = await asyncio.gather(
                plan(session, ApplyOptions(), strict=True), reservation_bill(session)
            )
            return seen, bill

        failed = await self._refresh_in_thread("survey", ask, self._show_result)
        if failed is not None:
            self._show_error(failed)

    def _show_error(self, error: WizardError) -> None:
        self.error = error
        self.draw()
        self.wizard.show_error(error)

    def _show_result(self, answer: tuple[Sequence[Decision], dict[str, Any] | None]) -> None:
        from grpo_wizard.steps.pricing.reservation import format_reservation_bill

        decisions, bill = answer
        self.items, self.bill = destroy_items(decisions), format_reservation_bill(bill) if bill else ""
        self.draw()

    @property
    def keep_lustre(self) -> bool:
        """Whether Lustre and its network stay."""
        return self.query_one("#keep", SwitchField).value

    def draw(self) -> None:
        """What is known."""
        if not self.query("#after"):
            return
        colours = self.app.theme_variables
        goes, stays = self._split()
        self.query_one("#teardown-head", Static).update(
            _("Tear down {name}?").format(name=self.controller.name)
        )
        lost = self._data_loss_warning()
        self.query_one("#lost", Static).update(Text(f"! {lost}" if lost else "", colours["warning"]))
        bill = self.query_one("#bill", Static)
        bill.update(Text(f"! {self.bill}", colours["warning"]))
        bill.display = bool(self.bill)
        self.query_one("#goes Static", Static).update(_lines(goes, self._unknown_reason()))
        self.query_one("#stays Static", Static).update(_lines(stays, self._unknown_reason()))
        count = ngettext("{n} resource is deleted", "{n} resources are deleted", len(goes)).format(
            n=len(goes)
        )
        after = format_remaining_cost(
            (item.usd_per_hour for item in stays), free=self.controller.is_rehearsal
        )
        self.query_one("#after", Static).update(
            f"{count}. {after}"
            if self.items is not None
            else (self.error.title if self.error else _("looking at the cloud…"))
        )
        self.refresh_bindings()

    def _unknown_reason(self) -> str:
        """Why the lists say nothing yet; empty when they do."""
        if self.items is not None:
            return ""
        return _("could not be looked at") if self.error is not None else _("looking…")

    def _split(self) -> tuple[list[DestroyItem], list[DestroyItem]]:
        return split(self.items or (), self.keep_lustre)

    def _data_loss_warning(self) -> str:
        return data_loss_warning(self.controller, self.keep_lustre)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Greyed while it is not known what would go."""
        if action == "destroy":
            return True if self.items is not None and self.controller.writable else None
        return True

    @on(SwitchField.Toggled)
    def _keep_changed(self) -> None:
        self.draw()

    def action_keep(self) -> None:
        """The switch by its key."""
        self.query_one("#keep", SwitchField).action_toggle_value()

    def action_destroy(self) -> None:
        """Asks for the name."""
        from grpo_wizard.tui.widgets.confirm import ConfirmDialog

        goes, stays = self._split()
        lines = [
            (
                "",
                ngettext(
                    "goes: {n} thing that this deployment made",
                    "goes: {n} things that this deployment made",
                    len(goes),
                ).format(n=len(goes)),
            ),
            ("", ngettext("stays: {n} thing", "stays: {n} things", len(stays)).format(n=len(stays))),
        ]
        lines += [("warn", text) for text in (self._data_loss_warning(), self.bill) if text]
        self.app.push_screen(
            ConfirmDialog(
                _("Tear down {name}?").format(name=self.controller.name),
                lines,
                self.controller.name,
                _("Tear down"),
            ),
            self._confirmed,
        )

    def _confirmed(self, yes: bool | None) -> None:
        if yes:
            self._destroy()

    @work(exclusive=True, group="destroy", exit_on_error=False)
    async def _destroy(self) -> None:
        from grpo_wizard.steps.engine.options import DestroyOptions
        from grpo_wizard.tui.controllers.launch import launch

        keep = frozenset({"lustre"} if self.keep_lustre else ())
        try:
            await launch(self.wizard, DestroyOptions(keep=keep))
        except WizardError as error:
            self.wizard.show_error(error)
            return
        self.wizard.show("run")

    def action_back(self) -> None:
        """Changes nothing."""
        place = self.controller.initial_screen()
        self.wizard.show(place if place != "teardown" else "review")


def _lines(listed: Sequence[DestroyItem], unknown: str) -> Text:
    if unknown:
        return Text(unknown)
    text = Text(end="", no_wrap=True, overflow="ellipsis")
    reason = ""
    for fate in listed:
        if fate.retain_reason != reason:
            reason = fate.retain_reason
            text.append(f"{reason}:\n", "bold")
        text.append(
            f"{status_icon('gone').glyph if fate.deleted else status_icon('kept').glyph} {fate.kind} {fate.name}"
        )
        text.append("\n")
    return text if listed else Text(_("nothing"))
