"""The base class of all screens: title bar, footer, help, and access to the open deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer

from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.widgets.title_bar import TitleBar, TitleState

if TYPE_CHECKING:
    from grpo_wizard.tui.app import Wizard
    from grpo_wizard.tui.controllers.deployment import DeploymentController


class WizardScreen(Screen[None]):
    """Title bar, `body`, footer. `SCREEN_NAME` is saved so that a deployment reopens where it was left."""

    SCREEN_NAME: ClassVar[str] = ""
    HELP: ClassVar[str | None] = ""
    CSS_PATH = "base.tcss"
    help_text = ""
    """Help for this instance, where one class serves several screens; otherwise `HELP`."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "f1", "help", _("Help"), id="screen.help", tooltip=_("Show help for this screen and its keys")
        )
    ]

    @property
    def wizard(self) -> Wizard:
        """The app, typed."""
        return cast("Wizard", self.app)

    @property
    def controller(self) -> DeploymentController:
        """The deployment that is open."""
        controller = self.wizard.controller
        assert controller is not None
        return controller

    def compose(self) -> ComposeResult:
        """Yield title bar, body and footer."""
        yield TitleBar(self.title_state())
        yield from self.body()
        yield Footer(show_command_palette=True, compact=True)

    def body(self) -> ComposeResult:
        """Yield the widgets between title bar and footer."""
        yield from ()

    def title_state(self) -> TitleState:
        """The title bar's content."""
        return self.wizard.title_state()

    def on_screen_resume(self) -> None:
        """Update the title bar when the screen becomes current."""
        self.update_title()

    def update_title(self) -> None:
        """Update the title bar and the terminal's title."""
        bar = self.query_one(TitleBar)
        bar.state = self.title_state()
        self.wizard.set_terminal_title(bar.terminal_title())

    def save_before_leave(self) -> bool:
        """Save what would be lost on leaving. Returns False, with the error shown, if that failed."""
        return True

    def action_help(self) -> None:
        """Show help with the keys that are active now."""
        from grpo_wizard.tui.screens.command_palette import active_keys
        from grpo_wizard.tui.screens.dialogs import HelpDialog

        keys = [(key, label, tooltip) for key, label, tooltip, _action in active_keys(self)]
        self.app.push_screen(HelpDialog(self.help_text or self.HELP or "", keys))
