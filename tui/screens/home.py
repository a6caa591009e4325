"""The first screen: the list of deployments, and how to create one. It paints before any SDK is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.screens.base import WizardScreen
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import status_icon, truncate

if TYPE_CHECKING:
    from grpo_wizard.tui.viewmodels.deployments import DeploymentSummary

_RELOAD_SECONDS = 3.0


class HomeScreen(WizardScreen):
    """Lists the deployments with their status; opens, creates, rehearses, imports and destroys them."""

    SCREEN_NAME = ""
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "home.tcss"]  # type: ignore[assignment]
    AUTO_FOCUS = "OptionList"
    HELP = _(
        "Lists all deployments in this home folder and their status. A rehearsal runs the whole process on this "
        "machine, with the same screens but without a Google account or any cost. Nothing is created until you "
        "launch from Review, which shows the price first."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "n",
            "new(False)",
            _("New deployment"),
            id="opening.new",
            tooltip=_("Complete seven steps, then Review; nothing is created until you launch"),
        ),
        Binding(
            "r",
            "new(True)",
            _("New rehearsal"),
            id="opening.rehearse",
            tooltip=_("Use the same screens with a local emulator, free of charge"),
        ),
        Binding(
            "t",
            "create_from_environment",
            _("Import"),
            id="opening.takeover",
            tooltip=_("Continue a partially completed tutorial, using its environment variables"),
        ),
        Binding(
            "d",
            "tear_down",
            _("Destroy"),
            id="opening.destroy",
            tooltip=_("Delete the resources that the selected deployment created"),
        ),
        Binding(
            "q",
            "app.quit",
            _("Quit"),
            id="opening.quit",
            tooltip=_("Quit the wizard; jobs in the cloud will keep running"),
            show=False,
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[DeploymentSummary] = []

    def body(self) -> ComposeResult:
        """Yield an introduction and the list."""
        yield Static(_("Go from an empty Google Cloud project to a running GRPO job."), classes="heading")
        yield Static(
            _(
                "Rehearse first: the screens are the same, but you need no account and pay nothing. A real deployment "
                "costs about 170–200 USD per hour once the GPU nodes start; you will see the price and confirm it first."
            ),
            classes="say",
        )
        deployments = OptionList(id="deployments")
        deployments.border_title = Content(f" {_('Deployments')} ")
        yield deployments
        yield Static(_("Loading…"), id="empty", classes="say")

    def on_mount(self) -> None:
        """Reload every few seconds: other processes work on deployments, too."""
        self.query_one(OptionList).display = False
        self.set_interval(_RELOAD_SECONDS, self.reload)

    def on_screen_resume(self) -> None:
        """Reload after returning from another screen."""
        super().on_screen_resume()
        self.call_after_refresh(self.reload)

    @work(exclusive=True, group="summaries", exit_on_error=False)
    async def reload(self) -> None:
        """Read the files in a thread."""

        def read(now: float) -> list[DeploymentSummary]:
            from grpo_wizard.tui.viewmodels.deployments import deployment_summaries

            return deployment_summaries(self.wizard.home, now)

        self.show_summaries(await in_thread(read, self.wizard.clock()))

    def show_summaries(self, rows: list[DeploymentSummary]) -> None:
        """Draw the list; the cursor stays on its deployment."""
        if rows == self.rows and self.query_one(OptionList).option_count == len(rows) and rows:
            return
        self.rows = rows
        deployments, empty = self.query_one(OptionList), self.query_one("#empty", Static)
        row = deployments.highlighted
        selected = (
            deployments.get_option_at_index(row).id
            if row is not None and row < deployments.option_count
            else None
        )
        deployments.clear_options()
        deployments.add_options([Option(self._row(row), id=row.name) for row in rows])
        deployments.display = bool(rows)
        empty.update(
            "" if rows else _("No deployments yet. Press r to rehearse or n to create a real deployment.")
        )
        if rows:
            names = [row.name for row in rows]
            deployments.highlighted = names.index(selected) if selected in names else 0
            if self.focused is None:
                deployments.focus()

    def _row(self, row: DeploymentSummary) -> Text:
        colours, icon = self.app.theme_variables, status_icon(row.status)
        width = self.size.width - 4
        text = Text(no_wrap=True, end="").append(truncate(row.name, 18 if width >= 96 else 13) + " ", "bold")
        text.append(
            truncate(f"{icon.glyph} {row.label}", 12 if width >= 96 else 11) + " ", colours[icon.colour]
        )
        tail = truncate(row.price, 16 if width >= 96 else 14) + (
            truncate(row.age, 11) + truncate(row.location, 15) if width >= 96 else truncate(row.location, 13)
        )
        detail_width = width - (75 if width >= 96 else 54)
        text.append(truncate(row.detail, max(10, detail_width)) + " ")
        return text.append(tail, colours["muted"])

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        rows, self.rows = self.rows, []
        if rows:
            self.show_summaries(rows)

    @property
    def selected_name(self) -> str | None:
        """The deployment under the cursor."""
        deployments = self.query_one(OptionList)
        if deployments.highlighted is None or not deployments.option_count:
            return None
        return deployments.get_option_at_index(deployments.highlighted).id

    @on(OptionList.OptionSelected)
    def _open(self, event: OptionList.OptionSelected) -> None:
        self.wizard.open_deployment(str(event.option.id))

    def action_new(self, rehearsal: bool) -> None:
        """Ask for a name, then open step 1."""
        self.wizard.create_deployment(rehearsal=rehearsal)

    def action_create_from_environment(self) -> None:
        """Create a deployment with answers from the tutorial's environment variables."""
        self.wizard.create_from_environment()

    def action_tear_down(self) -> None:
        """Open the selected deployment at its Destroy screen."""
        if self.selected_name:
            self.wizard.open_deployment(self.selected_name, "teardown")
