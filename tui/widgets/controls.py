"""What a field is answered with: a line to type in, a switch, a choice. One row each, no mark by hue alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from grpo_wizard.tui.glyphs import fit
from grpo_wizard.tui.i18n import _


class Line(Input):
    """An Input of one row whose Enter goes on to the next screen."""

    DEFAULT_CSS = """
    Line { height: 1; border: none; padding: 0 1; background: $panel; }
    Line:focus { border: none; background: $panel; background-tint: $primary 18%; }
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


class YesNo(Widget, can_focus=True):
    """`[x] yes` or `[ ] no`; Space changes it."""

    DEFAULT_CSS = """
    YesNo { height: 1; width: 1fr; padding: 0 1; }
    YesNo:focus { background: $panel; background-tint: $primary 18%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space,left,right",
            "change",
            _("Change"),
            key_display="space",
            id="yesno.toggle",
            tooltip=_("Yes or no"),
        ),
    ]
    value: reactive[bool] = reactive(False)

    class Changed(Message):
        """The user changed it."""

        def __init__(self, yesno: YesNo) -> None:
            self.yesno, self.value = yesno, yesno.value
            super().__init__()

        @property
        def control(self) -> YesNo:
            """The switch itself."""
            return self.yesno

    def __init__(self, value: bool = False, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.set_reactive(YesNo.value, value)

    def render(self) -> Text:
        """Mark and word."""
        return Text("[x] " + _("yes") if self.value else "[ ] " + _("no"), end="")

    def action_change(self) -> None:
        """The other value."""
        self.value = not self.value
        self.post_message(self.Changed(self))

    def on_click(self) -> None:
        """A click is Space."""
        self.action_change()


class Choice(Widget, can_focus=True):
    """One of a closed list: side by side where there is room, else one at a time. Space opens the list."""

    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; padding: 0 1; }
    Choice:focus { background: $panel; background-tint: $primary 18%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "list", _("List"), id="choice.list", tooltip=_("Choose from a list")),
        Binding(
            "left", "step(-1)", _("Previous"), id="choice.previous", tooltip=_("The one before"), show=False
        ),
        Binding(
            "right", "step(1)", _("Following"), id="choice.following", tooltip=_("The one after"), show=False
        ),
    ]
    value: reactive[str] = reactive("")

    class Changed(Message):
        """The user chose."""

        def __init__(self, choice: Choice) -> None:
            self.choice, self.value = choice, choice.value
            super().__init__()

        @property
        def control(self) -> Choice:
            """The choice itself."""
            return self.choice

    def __init__(
        self, options: Sequence[str], value: str = "", title: str = "", *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.options, self._title = tuple(options), title
        self.set_reactive(Choice.value, value)

    def render(self) -> Text:
        """All of them with a mark, or the chosen one and its place in the list."""
        side = "  ".join(("(•) " if option == self.value else "( ) ") + option for option in self.options)
        if len(self.options) <= 4 and cell_len(side) <= self.size.width:
            return Text(side, no_wrap=True, end="")
        at = self.options.index(self.value) + 1 if self.value in self.options else 0
        tail = f" ▾ {at}/{len(self.options)}"
        width = min(self.size.width - cell_len(tail), max(map(cell_len, self.options), default=1))
        return Text(fit(self.value or "–", width) + tail, no_wrap=True, end="")

    def action_step(self, by: int) -> None:
        """The next or previous one, stopping at the ends."""
        at = self.options.index(self.value) if self.value in self.options else -1
        self._choose(self.options[min(len(self.options) - 1, max(0, at + by))])

    def action_list(self) -> None:
        """Opens the list."""
        self.app.push_screen(_Options(self._title, self.options, self.value), self._choose)

    def on_click(self) -> None:
        """A click opens the list."""
        self.action_list()

    def _choose(self, value: str | None) -> None:
        if value is not None and value != self.value:
            self.value = value
            self.post_message(self.Changed(self))


class _Options(ModalScreen[str | None]):
    """The list of a Choice."""

    DEFAULT_CSS = """
    _Options { align: center middle; background: $background 60%; }
    _Options > Vertical { width: 72; max-width: 100%; height: auto; max-height: 90%; border: round $border; background: $surface;
                          border-title-color: $primary; }
    _Options OptionList > .option-list--option-highlighted { background: $panel; background-tint: $primary 32%;
                          color: $foreground; text-style: bold; }
    _Options OptionList { height: auto; max-height: 18; border: none; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", _("Back"), id="options.back", tooltip=_("Keep the value"))
    ]

    def __init__(self, title: str, options: Sequence[str], value: str) -> None:
        super().__init__()
        self._title, self._options, self._value = title, tuple(options), value

    def compose(self) -> ComposeResult:
        """The list in a box."""
        with Vertical() as box:
            box.border_title = Content(f" {self._title} ")
            chosen = OptionList(
                *(Option(Content(("(•) " if o == self._value else "( ) ") + o)) for o in self._options)
            )
            if self._value in self._options:
                chosen.highlighted = self._options.index(self._value)
            yield chosen

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Takes it."""
        self.dismiss(self._options[event.option_index])
