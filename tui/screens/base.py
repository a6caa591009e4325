"""What every screen has: the title line, the footer, help, and a deployment on the desk."""

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
    """Title line, `body`, footer. `PLACE` is what the state remembers of where the wizard stands."""

    SCREEN_NAME: ClassVar[str] = ""
    HELP: ClassVar[str | None] = ""
    CSS_PATH = "base.tcss"
    help_text = ""
    """Help of this very screen, where one class has several."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", _("Help"), id="screen.help", tooltip=_("What this screen is for, and its keys"))
    ]

    @property
    def wizard(self) -> Wizard:
        """The app, by its own type."""
        return cast("Wizard", self.app)

    @property
    def controller(self) -> DeploymentController:
        """The deployment that is open."""
        desk = self.wizard.controller
        assert desk is not None
        return desk

    def compose(self) -> ComposeResult:
        """Title, body, footer."""
        yield TitleBar(self.title_state())
        yield from self.body()
        yield Footer(show_command_palette=True, compact=True)

    def body(self) -> ComposeResult:
        """What stands between title and footer."""
        yield from ()

    def title_state(self) -> TitleState:
        """What the title line says."""
        return self.wizard.title_state()

    def on_screen_resume(self) -> None:
        """The terminal's own title goes along."""
        self.update_title()

    def update_title(self) -> None:
        """Writes title line and terminal title anew."""
        line = self.query_one(TitleBar)
        line.state = self.title_state()
        self.wizard.set_terminal_title(line.terminal_title())

    def save_before_leave(self) -> bool:
        """Saves what would be lost when the screen is left. False, with the error shown, when it could not be."""
        return True

    def action_help(self) -> None:
        """Help with the keys of this moment."""
        from grpo_wizard.tui.screens.command_palette import active_keys
        from grpo_wizard.tui.screens.dialogs import HelpDialog

        keys = [(key, label, tooltip) for key, label, tooltip, _action in active_keys(self)]
        self.app.push_screen(HelpDialog(self.help_text or self.HELP or "", keys))
