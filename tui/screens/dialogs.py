"""Modal dialogs: an error with its fix, a prompt for a name, a choice of actions, and help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

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
    """A centered box with a title; Esc closes it."""

    CSS_PATH = "dialogs.tcss"
    AUTO_FOCUS = "TextField, OptionList"
    title_text = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", _("Back"), id="box.back", tooltip=_("Close this dialog"))
    ]

    def compose(self) -> ComposeResult:
        """Yield the box with the body inside."""
        with VerticalScroll(can_focus=True) as box:
            box.border_title = Content(f" {self.title_text} ")
            box.border_subtitle = Content(f" esc {_('Back')} ")
            yield from self.body()

    def body(self) -> ComposeResult:
        """Yield the widgets inside the box."""
        yield from ()

    def action_leave(self) -> None:
        """Close without a result."""
        self.dismiss(None)


class ErrorDialog(Dialog[None]):
    """What failed, why, the fix, and the command, which `y` copies. Texts are never parsed as markup."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", _("Copy command"), id="error.copy", tooltip=_("Copy the command")),
        Binding("enter", "leave", _("Back"), id="error.back", show=False),
    ]

    def __init__(self, error: WizardError) -> None:
        super().__init__(classes="-error")
        self.error, self.title_text = error, "✗ " + error.title

    def body(self) -> ComposeResult:
        """Yield detail, fix and command."""
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
        """Copy the command."""
        if self.error.command:
            self.app.copy_to_clipboard(self.error.command)
            self.notify(_("Copied"))


class NamePrompt(Dialog[str | None]):
    """A text field; `parse` rejects a value by raising ValueError with one sentence."""

    def __init__(self, title: str, text: str, value: str, parse: Callable[[object], object]) -> None:
        super().__init__()
        self.title_text, self._text, self._value, self._parse = title, text, value, parse

    def body(self) -> ComposeResult:
        """Yield the text, the field and its error."""
        yield Static(self._text, markup=False)
        name_field = TextField(self._value, id="ask-name")
        name_field.cursor_blink = False
        yield name_field
        yield Static("", id="ask-refusal", markup=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Validate on every key."""
        self._show_validity(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the name if it is valid."""
        if self._show_validity(event.value):
            self.dismiss(event.value.strip())

    def _show_validity(self, value: str) -> bool:
        reason = ""
        try:
            self._parse(value)
        except ValueError as error:
            reason = str(error)
        text = Text(f"✗ {_('invalid')}: {reason}" if reason else "", self.app.theme_variables["error"])
        self.query_one("#ask-refusal", Static).update(text)
        return not reason


class ChoiceDialog(Dialog[str | None]):
    """A choice between a few actions: (key, label, description).

    Closes by itself, with `expired_message` as a notification, as soon as `is_relevant` returns False.
    """

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
        """Watch whether the question still matters."""
        if self._is_relevant is not None:
            self.set_interval(_EXPIRY_POLL_SECONDS, self._close_if_expired)

    def _close_if_expired(self) -> None:
        if self._is_relevant is not None and not self._is_relevant() and self.is_current:
            self.notify(self._expired_message)
            self.dismiss(None)

    def body(self) -> ComposeResult:
        """Yield the text and the list."""
        if self._text:
            yield Static(self._text, markup=False)
        muted = self.app.theme_variables["muted"]
        rows = (
            Option(Content(label).append(Content("\n" + about).stylize(muted)) if about else Content(label))
            for _key, label, about in self._choices
        )
        yield OptionList(*rows)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close with the key of the chosen action."""
        self.dismiss(self._choices[event.option_index][0])


class HelpDialog(Dialog[None]):
    """What a screen is for, and its keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,enter", "leave", _("Back"), id="help.back", show=False)
    ]

    def __init__(self, text: str, keys: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self.title_text, self._text, self._keys = _("Help"), text, tuple(keys)

    def body(self) -> ComposeResult:
        """Yield the text, then a table of keys."""
        colours = self.app.theme_variables
        yield Static(self._text, markup=False)
        table = Table.grid(padding=(0, 2))
        for key, label, about in self._keys:
            table.add_row(
                Text(key, f"bold {colours['primary']}"), Text(label, "bold"), Text(about, colours["muted"])
            )
        yield Static(table)
