"""A question as a row: label, control, unit; below it why the value is refused, or, while it is being answered, its help."""

from __future__ import annotations

from typing import Any, ClassVar

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
    """Drawn from a Field alone. `Answered` carries what was typed, as it was typed; Field.parse is its only judge."""

    DEFAULT_CSS = """
    FieldRow { height: auto; }
    FieldRow:focus-within { height: auto; }  /* Textual restyles what is inside only where the row itself has such a rule */
    FieldRow > Horizontal { height: 1; }
    FieldRow Label { width: 24; padding: 0 1 0 0; color: $muted; }
    FieldRow:focus-within Label { color: $foreground; text-style: bold; }
    FieldRow .unit { width: auto; padding: 0 1; color: $muted; }
    FieldRow .below { display: none; height: auto; padding: 0 1 0 25; color: $muted; }
    FieldRow:focus-within .below, FieldRow.-refused .below { display: block; }
    FieldRow.-hidden { display: none; }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    class BrowseRequested(Message):
        """What is there in the cloud shall be listed."""

        def __init__(self, row: FieldRow) -> None:
            self.row = row
            super().__init__()

    class AnswerChanged(Message):
        """Something was typed or chosen."""

        def __init__(self, row: FieldRow, raw: Any) -> None:
            self.row, self.raw = row, raw
            super().__init__()

    def __init__(self, field: Field, value: Any, note: str = "") -> None:
        """`note` says what is there already, for a secret."""
        super().__init__(id=f"row-{field.name}")
        self.field, self._value, self._note, self._error = field, value, note, ""

    def compose(self) -> ComposeResult:
        """Label, control, unit; refusal or help."""
        with Horizontal():
            yield Label(self.field.label, markup=False)
            yield self._control()
            if self.field.choices_from:
                yield Static("▾ f4", classes="unit listed", markup=False)
            if self.field.unit:
                yield Static(self.field.unit, classes="unit", markup=False)
        yield Static("", classes="below", markup=False)

    def on_mount(self) -> None:
        """The help is there from the start."""
        self._update_help()

    def _control(self) -> Widget:
        field, id = self.field, f"field-{self.field.name}"
        if field.kind == "switch":
            return SwitchField(bool(self._value), id=id)
        if field.kind == "choice":
            return ChoiceField(field.choices, str(self._value), field.label, id=id)
        secret = field.kind == "secret"
        hint = self._note or (
            _("not answered yet")
            if field.default is None
            else ""
            if not field.optional
            else _("may stay empty")
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
        """The widget that is typed into."""
        return self.query_one(f"#field-{self.field.name}")

    @property
    def raw(self) -> Any:
        """What stands there now."""
        control = self.control
        return control.value if isinstance(control, TextField | SwitchField | ChoiceField) else ""

    def set_value(self, value: Any) -> None:
        """Puts a value there without telling anyone; not while it is being typed into."""
        control = self.control
        with self.prevent(Input.Changed):
            if isinstance(control, SwitchField):
                control.value = bool(value)
            elif isinstance(control, ChoiceField):
                control.value = str(value)
            elif isinstance(control, TextField) and not control.has_focus and self.field.kind != "secret":
                control.value = format_for_input(value)

    def set_error(self, message: str) -> None:
        """Shows the sentence; an empty one takes it away."""
        self._error = message
        self.set_class(bool(message), "-refused")
        self._update_help()

    def _update_help(self) -> None:
        below = self.query_one(".below", Static)
        if self._error:
            below.update(Text("✗ " + _("refused") + f": {self._error}", self.app.theme_variables["error"]))
        else:
            below.update(Text(self.field.help, self.app.theme_variables["muted"]))

    def select_value(self, value: str | None) -> None:
        """Puts what was chosen from the list there, as if it had been typed."""
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
        """The row comes into view with its help."""
        self.call_after_refresh(self.scroll_visible, animate=False)


def format_for_input(value: Any) -> str:
    """A value as one would type it."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
