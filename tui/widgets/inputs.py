"""The input widgets of a field: text, switch, and choice. One row each; no state is shown by colour alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from grpo_wizard.steps.gcp.suggestions import Suggestion
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import truncate
from grpo_wizard.tui.widgets.picker import OptionPicker


class TextField(Input):
    """An Input of one row whose Enter opens the next screen."""

    DEFAULT_CSS = """
    TextField { height: 1; width: 1fr; border: none; padding: 0 1; background: $panel; }
    TextField:focus { border: none; background: $panel; background-tint: $primary 18%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "submit",
            _("Next"),
            key_display="enter",
            id="line.next",
            tooltip=_("Save and go to the next step"),
        ),
    ]


class PickerField(TextField):
    """A text field for the name of a resource that may exist; F4 lists those that do."""

    DEFAULT_CSS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f4", "list", _("List"), id="line.list", tooltip=_("Choose from existing resources"))
    ]

    class PickerRequested(Message):
        """The user asked for the list."""

    def action_list(self) -> None:
        """Post a request for the list; the screen reads it from the cloud."""
        self.post_message(self.PickerRequested())


class SwitchField(Widget, can_focus=True):
    """`[x] yes` or `[ ] no`; Space toggles it."""

    DEFAULT_CSS = """
    SwitchField { height: 1; width: 1fr; padding: 0 1; }
    SwitchField:focus { background: $panel; background-tint: $primary 18%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space,left,right",
            "toggle_value",
            _("Change"),
            key_display="space",
            id="yesno.toggle",
            tooltip=_("Toggle between yes and no"),
        ),
    ]
    value: reactive[bool] = reactive(False)

    class Toggled(Message):
        """The user toggled the switch."""

        def __init__(self, switch: SwitchField) -> None:
            self.switch, self.value = switch, switch.value
            super().__init__()

        @property
        def control(self) -> SwitchField:
            """The switch."""
            return self.switch

    def __init__(self, value: bool = False, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.set_reactive(SwitchField.value, value)

    def render(self) -> Text:
        """Render mark and word."""
        return Text("[x] " + _("yes") if self.value else "[ ] " + _("no"), end="")

    def action_toggle_value(self) -> None:
        """Toggle the value."""
        self.value = not self.value
        self.post_message(self.Toggled(self))

    def on_click(self) -> None:
        """Toggle the value."""
        self.action_toggle_value()


class ChoiceField(Widget, can_focus=True):
    """One of a fixed list of options, shown side by side if they fit, else one at a time. Space opens the list."""

    DEFAULT_CSS = """
    ChoiceField { height: 1; width: 1fr; padding: 0 1; }
    ChoiceField:focus { background: $panel; background-tint: $primary 18%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "list", _("List"), id="choice.list", tooltip=_("Choose from a list")),
        Binding(
            "left",
            "step(-1)",
            _("Previous option"),
            id="choice.previous",
            tooltip=_("Choose the previous option"),
            show=False,
        ),
        Binding(
            "right",
            "step(1)",
            _("Next option"),
            id="choice.following",
            tooltip=_("Choose the next option"),
            show=False,
        ),
    ]
    value: reactive[str] = reactive("")

    class Changed(Message):
        """The user chose another option."""

        def __init__(self, choice: ChoiceField) -> None:
            self.choice, self.value = choice, choice.value
            super().__init__()

        @property
        def control(self) -> ChoiceField:
            """The choice."""
            return self.choice

    def __init__(
        self, options: Sequence[str], value: str = "", title: str = "", *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.options, self._title = tuple(options), title
        self.set_reactive(ChoiceField.value, value)

    def render(self) -> Text:
        """Render all options with a mark, or the chosen one with its position in the list."""
        side = "  ".join(("(•) " if option == self.value else "( ) ") + option for option in self.options)
        if len(self.options) <= 4 and cell_len(side) <= self.size.width:
            return Text(side, no_wrap=True, end="")
        position = self.options.index(self.value) + 1 if self.value in self.options else 0
        tail = f" ▾ {position}/{len(self.options)}"
        width = min(self.size.width - cell_len(tail), max(map(cell_len, self.options), default=1))
        return Text(truncate(self.value or "–", width) + tail, no_wrap=True, end="")

    def action_step(self, by: int) -> None:
        """Choose the next or previous option, stopping at the ends."""
        index = self.options.index(self.value) if self.value in self.options else -1
        self._select(self.options[min(len(self.options) - 1, max(0, index + by))])

    def action_list(self) -> None:
        """Open the list."""
        self.app.push_screen(
            OptionPicker(self._title, [Suggestion(o) for o in self.options], self.value), self._select
        )

    def on_click(self) -> None:
        """Open the list."""
        self.action_list()

    def _select(self, value: str | None) -> None:
        if value is not None and value != self.value:
            self.value = value
            self.post_message(self.Changed(self))
