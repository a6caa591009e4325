"""Boxes over a screen: an error with its fix, a question for a name, a choice of what to do, help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.widgets.inputs import TextField

_EXPIRY_POLL_SECONDS = 0.3


class Dialog(ModalScreen[ScreenResultType]):
    """A titled box in the middle; Esc leaves it."""

    CSS_PATH = "dialogs.tcss"
    AUTO_FOCUS = "TextField, OptionList"
    title_text = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", _("Back"), id="box.back", tooltip=_("Close this box"))
    ]

    def compose(self) -> ComposeResult:
        """The box around the body."""
        with VerticalScroll(can_focus=True) as box:
            box.border_title = Content(f" {self.title_text} ")
            box.border_subtitle = Content(f" esc {_('Back')} ")
            yield from self.body()

    def body(self) -> ComposeResult:
        """What stands in it."""
        yield from ()

    def action_leave(self) -> None:
        """Nothing was chosen."""
        self.dismiss(None)


class ErrorDialog(Dialog[None]):
    """What happened, why, the one fix, the command; `y` copies that. Texts are never read as markup."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", _("Copy command"), id="error.copy", tooltip=_("Copy the command")),
        Binding("enter", "leave", _("Back"), id="error.back", show=False),
    ]

    def __init__(self, error: WizardError) -> None:
        super().__init__(classes="-error")
        self.error, self.title_text = error, "✗ " + error.title

    def body(self) -> ComposeResult:
        """Why, fix, command."""
        error, colours = self.error, self.app.theme_variables
        if error.detail:
            yield Static(error.detail, markup=False)
        if error.fix:
            yield Static(Text("→ " + error.fix, colours["primary"]))
        if error.command:
            yield Static(
                Text(f"{error.command}\n", colours["secondary"]).append(
                    "y " + _("Copy command"), colours["muted"]
                )
            )

    def action_copy(self) -> None:
        """Copies the command."""
        if self.error.command:
            self.app.copy_to_clipboard(self.error.command)
            self.notify(_("copied"))


class NamePrompt(Dialog[str | None]):
    """A line to type in; `parse` refuses by raising ValueError with one sentence."""

    def __init__(self, title: str, text: str, value: str, parse: Callable[[Any], Any]) -> None:
        super().__init__()
        self.title_text, self._text, self._value, self._parse = title, text, value, parse

    def body(self) -> ComposeResult:
        """Text, line, refusal."""
        yield Static(self._text, markup=False)
        line = TextField(self._value, id="ask-name")
        line.cursor_blink = False
        yield line
        yield Static("", id="ask-refusal", markup=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Refused at once."""
        self._show_validity(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Taken, if it may be."""
        if self._show_validity(event.value):
            self.dismiss(event.value.strip())

    def _show_validity(self, value: str) -> bool:
        rule = ""
        try:
            self._parse(value)
        except ValueError as refusal:
            rule = str(refusal)
        text = Text(f"✗ {_('refused')}: {rule}" if rule else "", self.app.theme_variables["error"])
        self.query_one("#ask-refusal", Static).update(text)
        return not rule


class ChoiceDialog(Dialog[str | None]):
    """One of a few ways on: (key, label, what it means). It closes by itself when `holds` is false, and says `over`."""

    def __init__(
        self,
        title: str,
        text: str,
        choices: Sequence[tuple[str, str, str]],
        *,
        id: str | None = None,
        is_relevant: Callable[[], bool] | None = None,
        expired_message: str = "",
    ) -> None:
        super().__init__(id=id)
        self.title_text, self._text, self._choices = title, text, tuple(choices)
        self._is_relevant, self._expired_message = is_relevant, expired_message

    def on_mount(self) -> None:
        """A question that the world has answered meanwhile is not left standing."""
        if self._is_relevant is not None:
            self.set_interval(_EXPIRY_POLL_SECONDS, self._close_if_expired)

    def _close_if_expired(self) -> None:
        if self._is_relevant is not None and not self._is_relevant() and self.is_current:
            self.notify(self._expired_message)
            self.dismiss(None)

    def body(self) -> ComposeResult:
        """Text and list."""
        if self._text:
            yield Static(self._text, markup=False)
        muted = self.app.theme_variables["muted"]
        rows = (
            Option(
                Content(label).append(Content("\n" + meaning).stylize(muted)) if meaning else Content(label)
            )
            for _key, label, meaning in self._choices
        )
        yield OptionList(*rows)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """That way."""
        self.dismiss(self._choices[event.option_index][0])


class HelpDialog(Dialog[None]):
    """What this screen is for, and its keys with what they do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,enter", "leave", _("Back"), id="help.back", show=False)
    ]

    def __init__(self, text: str, keys: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self.title_text, self._text, self._keys = _("Help"), text, tuple(keys)

    def body(self) -> ComposeResult:
        """Text, then the keys."""
        colours = self.app.theme_variables
        yield Static(self._text, markup=False)
        table = Table.grid(padding=(0, 2))
        for key, label, meaning in self._keys:
            table.add_row(
                Text(key, f"bold {colours['primary']}"), Text(label, "bold"), Text(meaning, colours["muted"])
            )
        yield Static(table)
