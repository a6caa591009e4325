"""A field as a row: label, control and unit; below it the error, or the field's help while it has the focus."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label, Static

from grpo_wizard.steps.core.answers import Field
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.widgets.inputs import ChoiceField, PickerField, SwitchField, TextField

_RESTRICT: dict[str, str] = {"integer": r"[0-9,_ -]*", "number": r"[0-9.eE+-]*"}


class FieldRow(Vertical):
    """Built from a Field. `AnswerChanged` carries the raw input; only Field.parse validates it."""

    DEFAULT_CSS = """
    FieldRow { height: auto; }
    FieldRow:focus-within { height: auto; }  /* Textual restyles the children only if the row itself has such a rule */
    FieldRow > Horizontal { height: 1; }
    FieldRow Label { width: 24; padding: 0 1 0 0; color: $muted; }
    FieldRow:focus-within Label { color: $foreground; text-style: bold; }
    FieldRow .unit { width: auto; padding: 0 1; color: $muted; }
    FieldRow .below { display: none; height: auto; padding: 0 1 0 25; color: $muted; }
    FieldRow:focus-within .below, FieldRow.-invalid .below { display: block; }
    FieldRow.-hidden { display: none; }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    class BrowseRequested(Message):
        """The user asked for a list of the resources that exist."""

        def __init__(self, row: FieldRow) -> None:
            self.row = row
            super().__init__()

    class AnswerChanged(Message):
        """The user typed or chose a value."""

        def __init__(self, row: FieldRow, raw: object) -> None:
            self.row, self.raw = row, raw
            super().__init__()

    def __init__(self, field: Field, value: object, note: str = "") -> None:
        """`note`: the placeholder of a secret, where its value comes from."""
        super().__init__(id=f"row-{field.name}")
        self.field, self._value, self._note, self._error = field, value, note, ""

    def compose(self) -> ComposeResult:
        """Yield label, control and unit, then the error or help."""
        with Horizontal():
            yield Label(self.field.label, markup=False)
            yield self._control()
            if self.field.choices_from:
                yield Static("▾ f4", classes="unit listed", markup=False)
            if self.field.unit:
                yield Static(self.field.unit, classes="unit", markup=False)
        yield Static("", classes="below", markup=False)

    def on_mount(self) -> None:
        """Show the help."""
        self._update_help()

    def _control(self) -> Widget:
        field, id = self.field, f"field-{self.field.name}"
        if field.kind == "switch":
            return SwitchField(bool(self._value), id=id)
        if field.kind == "choice":
            return ChoiceField(field.choices, str(self._value), field.label, id=id)
        secret = field.kind == "secret"
        hint = self._note or (
            _("optional") if field.optional else _("required") if field.default is None else ""
        )
        line = (PickerField if field.choices_from else TextField)(
            "" if secret else format_for_input(self._value),
            placeholder=hint,
            password=secret,
            restrict=_RESTRICT.get(field.kind),
            id=id,
        )
        line.cursor_blink = False
        return line

    @property
    def control(self) -> Widget:
        """The input widget."""
        return self.query_one(f"#field-{self.field.name}")

    @property
    def raw(self) -> str | bool:
        """The current input."""
        control = self.control
        return control.value if isinstance(control, TextField | SwitchField | ChoiceField) else ""

    def set_value(self, value: object) -> None:
        """Set the value without posting a message; ignored while the user is typing in it."""
        control = self.control
        with self.prevent(Input.Changed):
            if isinstance(control, SwitchField):
                control.value = bool(value)
            elif isinstance(control, ChoiceField):
                control.value = str(value)
            elif isinstance(control, TextField) and not control.has_focus and self.field.kind != "secret":
                control.value = format_for_input(value)

    def set_error(self, message: str) -> None:
        """Show an error; an empty string clears it."""
        self._error = message
        self.set_class(bool(message), "-invalid")
        self._update_help()

    def _update_help(self) -> None:
        below = self.query_one(".below", Static)
        if self._error:
            below.update(Text(f"✗ {_('invalid')}: {self._error}", self.app.theme_variables["error"]))
        else:
            below.update(Text(self.field.help, self.app.theme_variables["muted"]))

    def select_value(self, value: str | None) -> None:
        """Set the value chosen from a list, as if it had been typed."""
        control = self.control
        if value is not None and isinstance(control, TextField):
            control.value = value
            control.cursor_position = len(value)

    @on(PickerField.PickerRequested)
    def _forward_browse(self, event: PickerField.PickerRequested) -> None:
        event.stop()
        self.post_message(self.BrowseRequested(self))

    @on(Input.Changed)
    @on(SwitchField.Toggled)
    @on(ChoiceField.Changed)
    def _changed(self, event: Input.Changed | SwitchField.Toggled | ChoiceField.Changed) -> None:
        event.stop()
        self.post_message(self.AnswerChanged(self, event.value))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Scroll the row and its help into view."""
        self.call_after_refresh(self.scroll_visible, animate=False)


def format_for_input(value: object) -> str:
    """Format a value as the user would type it."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
