"""The first screen: the deployments there are, and how to begin one. It paints before anything heavy is loaded."""

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

_EVERY_SECONDS = 3.0


class HomeScreen(WizardScreen):
    """Deployments with their state; new, rehearse, take over, open, tear down."""

    SCREEN_NAME = ""
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "home.tcss"]  # type: ignore[assignment]
    AUTO_FOCUS = "OptionList"
    HELP = _(
        "Every deployment that this home folder knows, with how far it is. A rehearsal shows the whole road on this "
        "machine: the same screens, no account, no cost. Nothing is created before Review, where you see the price."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "n",
            "new(False)",
            _("New deployment"),
            id="opening.new",
            tooltip=_("Seven steps, then Review; nothing is created before"),
        ),
        Binding(
            "r",
            "new(True)",
            _("New rehearsal"),
            id="opening.rehearse",
            tooltip=_("The same, free, on this machine"),
        ),
        Binding(
            "t",
            "create_from_environment",
            _("Take over"),
            id="opening.takeover",
            tooltip=_("A half-done tutorial, by its variables in the environment"),
        ),
        Binding(
            "d",
            "tear_down",
            _("Tear down"),
            id="opening.destroy",
            tooltip=_("Take down what a deployment made"),
        ),
        Binding(
            "q",
            "app.quit",
            _("Quit"),
            id="opening.quit",
            tooltip=_("Leave; what runs in the cloud goes on"),
            show=False,
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[DeploymentSummary] = []

    def body(self) -> ComposeResult:
        """What this is, the list, and where it comes from."""
        yield Static(_("From an empty Google Cloud project to a running GRPO job."), classes="heading")
        yield Static(
            _(
                "Rehearse first: same screens, no account, no cost. A real deployment costs about 170–200 USD "
                "an hour from the moment that GPU nodes start; you see the price and confirm before that."
            ),
            classes="say",
        )
        deployments = OptionList(id="deployments")
        deployments.border_title = Content(f" {_('Deployments')} ")
        yield deployments
        yield Static(_("looking…"), id="empty", classes="say")

    def on_mount(self) -> None:
        """Looks again every few seconds: other processes go on too."""
        self.query_one(OptionList).display = False
        self.set_interval(_EVERY_SECONDS, self.reload)

    def on_screen_resume(self) -> None:
        """Fresh after coming back."""
        super().on_screen_resume()
        self.call_after_refresh(self.reload)

    @work(exclusive=True, group="summaries", exit_on_error=False)
    async def reload(self) -> None:
        """Reads the files in a thread."""

        def read(now: float) -> list[DeploymentSummary]:
            from grpo_wizard.tui.viewmodels.deployments import deployment_summaries

            return deployment_summaries(self.wizard.home, now)

        self.show_summaries(await in_thread(read, self.wizard.clock()))

    def show_summaries(self, rows: list[DeploymentSummary]) -> None:
        """Draws the list; the cursor stays on its deployment."""
        if rows == self.rows and self.query_one(OptionList).option_count == len(rows) and rows:
            return
        self.rows = rows
        deployments, nothing = self.query_one(OptionList), self.query_one("#empty", Static)
        at = deployments.highlighted
        kept = (
            deployments.get_option_at_index(at).id
            if at is not None and at < deployments.option_count
            else None
        )
        deployments.clear_options()
        deployments.add_options([Option(self._row(row), id=row.name) for row in rows])
        deployments.display = bool(rows)
        nothing.update("" if rows else _("No deployment yet. Press r to rehearse, or n to begin a real one."))
        if rows:
            names = [row.name for row in rows]
            deployments.highlighted = names.index(kept) if kept in names else 0
            if self.focused is None:
                deployments.focus()

    def _row(self, row: DeploymentSummary) -> Text:
        colours, mark = self.app.theme_variables, status_icon(row.status)
        width = self.size.width - 4
        text = Text(no_wrap=True, end="").append(truncate(row.name, 18 if width >= 96 else 13) + " ", "bold")
        text.append(
            truncate(f"{mark.glyph} {row.label}", 12 if width >= 96 else 11) + " ", colours[mark.colour]
        )
        tail = truncate(row.price, 16 if width >= 96 else 14) + (
            truncate(row.age, 11) + truncate(row.location, 15) if width >= 96 else truncate(row.location, 13)
        )
        room = width - (75 if width >= 96 else 54)
        text.append(truncate(row.detail, max(10, room)) + " ")
        return text.append(tail, colours["muted"])

    def on_resize(self) -> None:
        """Columns follow the width."""
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
        """Asks for a name, then step 1."""
        self.wizard.create_deployment(rehearsal=rehearsal)

    def action_create_from_environment(self) -> None:
        """A deployment whose answers come from the tutorial's own variables."""
        self.wizard.create_from_environment()

    def action_tear_down(self) -> None:
        """Opens the chosen one at its Teardown."""
        if self.selected_name:
            self.wizard.open_deployment(self.selected_name, "teardown")
