"""The Destroy screen: what will be deleted and what will be kept; it asks for the deployment's name first."""

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

_Found = tuple[Sequence["Decision"], dict[str, Any] | None, Sequence[int]]


class TeardownScreen(RefreshingScreen):
    """Lists what destroy deletes and keeps. Nothing is deleted before the deployment's name is typed."""

    SCREEN_NAME = "teardown"
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "teardown.tcss"]  # type: ignore[assignment]
    AUTO_FOCUS = "#deleted"
    HELP = _(
        "Deletes only the resources that this deployment created. Adopted resources are kept, as are APIs and roles, "
        "which other workloads may use. If you keep Lustre, its network will also be kept, and Lustre will still be "
        "billed."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "d",
            "destroy",
            _("Destroy"),
            id="teardown.destroy",
            tooltip=_("Type the deployment's name to confirm, then delete the resources"),
        ),
        Binding("k", "keep", _("Keep Lustre"), id="teardown.keep", tooltip=_("Keep Lustre and its network")),
        Binding(
            "f5", "refresh", _("Refresh"), id="teardown.look", tooltip=_("Read the cloud resources again")
        ),
        Binding(
            "escape", "back", _("Back"), id="teardown.back", tooltip=_("Go back without changing anything")
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.items: Sequence[DestroyItem] | None = None
        self.bill = ""
        self.checkpoint_steps: Sequence[int] = ()

    def body(self) -> ComposeResult:
        """Yield heading, warnings, the two lists, the switch to keep Lustre, and the cost afterwards."""
        yield Static("", id="teardown-head", classes="heading", markup=False)
        yield Static("", id="lost", markup=False)
        yield Static("", id="bill", markup=False)
        with Horizontal(id="lists"):
            for id, title in (("deleted", _("Will be deleted")), ("kept", _("Will be kept"))):
                with VerticalScroll(id=id) as box:
                    box.border_title = Content(f" {title} ")
                    yield Static(_("Loading…"), markup=False)
        with Horizontal(id="keep-bar"):
            yield Label(_("Keep Lustre"))
            yield SwitchField(False, id="keep")
        yield Static("", id="after", classes="say", markup=False)

    @work(exclusive=True, group="look", exit_on_error=False)
    async def action_refresh(self) -> None:
        """Read what exists, and which deployment owns it."""
        self.items = self.error = None
        self.draw()
        try:
            session = await self.controller.session()
        except WizardError as error:
            self._show_error(error)
            return
        from grpo_wizard.steps.engine.apply import plan
        from grpo_wizard.steps.engine.options import ApplyOptions
        from grpo_wizard.steps.jobs.checkpoints import known_checkpoint_steps
        from grpo_wizard.steps.pricing.reservation import reservation_bill

        async def fetch() -> _Found:
            decisions, bill, steps = await asyncio.gather(
                plan(session, ApplyOptions(), strict=True),
                reservation_bill(session),
                asyncio.to_thread(known_checkpoint_steps, session),
            )
            return decisions, bill, steps

        failure = await self._refresh_in_thread("refresh", fetch, self._show_result)
        if failure is not None:
            self._show_error(failure)

    def _show_error(self, error: WizardError) -> None:
        self.error = error
        self.draw()
        self.wizard.show_error(error)

    def _show_result(self, result: _Found) -> None:
        from grpo_wizard.steps.pricing.reservation import format_reservation_bill

        decisions, bill, self.checkpoint_steps = result
        self.items = destroy_items(decisions)
        self.bill = format_reservation_bill(bill) if bill else ""
        self.draw()

    @property
    def keep_lustre(self) -> bool:
        """Whether to keep Lustre and its network."""
        return self.query_one("#keep", SwitchField).value

    def draw(self) -> None:
        """Redraw everything."""
        if not self.query("#after"):
            return
        colours = self.app.theme_variables
        deleted, kept = self._split()
        self.query_one("#teardown-head", Static).update(
            _("Destroy {name}?").format(name=self.controller.name)
        )
        lost = self._data_loss_warning()
        self.query_one("#lost", Static).update(Text(f"! {lost}" if lost else "", colours["warning"]))
        bill = self.query_one("#bill", Static)
        bill.update(Text(f"! {self.bill}", colours["warning"]))
        bill.display = bool(self.bill)
        self.query_one("#deleted Static", Static).update(_lines(deleted, self._unknown_reason()))
        self.query_one("#kept Static", Static).update(_lines(kept, self._unknown_reason()))
        count = ngettext(
            "{n} resource will be deleted", "{n} resources will be deleted", len(deleted)
        ).format(n=len(deleted))
        after = format_remaining_cost((item.usd_per_hour for item in kept), free=self.controller.is_rehearsal)
        self.query_one("#after", Static).update(
            f"{count}. {after}"
            if self.items is not None
            else (self.error.title if self.error else _("Reading cloud resources…"))
        )
        self.refresh_bindings()

    def _unknown_reason(self) -> str:
        """Why the lists are empty; an empty string once they are known."""
        if self.items is not None:
            return ""
        return _("Cloud resources could not be read.") if self.error is not None else _("Loading…")

    def _split(self) -> tuple[list[DestroyItem], list[DestroyItem]]:
        return split(self.items or (), self.keep_lustre)

    def _data_loss_warning(self) -> str:
        return data_loss_warning(self._split()[0], self.checkpoint_steps)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out Destroy until it is known what would be deleted."""
        if action == "destroy":
            return True if self.items is not None and self.controller.writable else None
        return True

    @on(SwitchField.Toggled)
    def _keep_changed(self) -> None:
        self.draw()

    def action_keep(self) -> None:
        """Toggle the switch to keep Lustre."""
        self.query_one("#keep", SwitchField).action_toggle_value()

    def action_destroy(self) -> None:
        """Ask for the deployment's name, then destroy."""
        from grpo_wizard.tui.widgets.confirm import ConfirmDialog

        deleted, kept = self._split()
        lines = [
            ("", _("Resources to delete: {n} (created by this deployment)").format(n=len(deleted))),
            ("", _("Resources to keep: {n}").format(n=len(kept))),
        ]
        lines += [("warn", text) for text in (self._data_loss_warning(), self.bill) if text]
        self.app.push_screen(
            ConfirmDialog(
                _("Destroy {name}?").format(name=self.controller.name),
                lines,
                self.controller.name,
                _("Destroy"),
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
        """Leave without changes."""
        screen_name = self.controller.initial_screen()
        self.wizard.show(screen_name if screen_name != "teardown" else "review")


def _lines(items: Sequence[DestroyItem], unknown: str) -> Text:
    """One line each, under the reason for which they are kept; or `unknown` if that is not empty."""
    if unknown:
        return Text(unknown)
    text = Text(end="", no_wrap=True, overflow="ellipsis")
    reason = ""
    for item in items:
        if item.retain_reason != reason:
            reason = item.retain_reason
            text.append(f"{reason}:\n", "bold")
        icon = status_icon("gone" if item.deleted else "kept")
        text.append(f"{icon.glyph} {item.kind} {item.name}\n")
    return text if items else Text(_("none"))
