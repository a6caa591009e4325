"""The steps with their status: a column at the left, or one line at the top of a narrow screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import status_icon, truncate


@dataclass(frozen=True, slots=True)
class StepperItem:
    """One entry. `key`: sent with `StepSelected`; `status`: a status icon key; `number`: 0 for none."""

    key: str
    title: str
    status: str = "todo"
    number: int = 0


class Stepper(Widget, can_focus=True):
    """A list of steps. Arrow keys move the cursor, Enter opens the step.

    On a narrow screen, which has the class `-narrow` (Textual's breakpoints), it becomes one line.
    """

    SCOPED_CSS = False  # the breakpoint's class is on the screen
    HELP = _("Shows this deployment's steps. Use the arrow keys to select a step and Enter to open it.")
    DEFAULT_CSS = """
    Stepper { width: 26; height: 1fr; padding: 1 1 0 1; border-right: vkey $line; background: $surface; }
    Stepper:focus { background: $panel; }
    .-narrow Stepper { width: 1fr; height: 1; padding: 0 1; border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "up,left", "move(-1)", _("Up"), id="rail.up", tooltip=_("Select the previous step"), show=False
        ),
        Binding(
            "down,right", "move(1)", _("Down"), id="rail.down", tooltip=_("Select the next step"), show=False
        ),
        Binding(
            "enter", "choose", _("Open"), id="rail.open", tooltip=_("Open the selected step"), show=False
        ),
    ]
    items: reactive[tuple[StepperItem, ...]] = reactive(())
    current: reactive[str] = reactive("")
    cursor: reactive[int] = reactive(0)

    class StepSelected(Message):
        """The user selected the step `key`."""

        def __init__(self, stepper: Stepper, key: str) -> None:
            self.stepper, self.key = stepper, key
            super().__init__()

        @property
        def control(self) -> Stepper:
            """The stepper."""
            return self.stepper

    def show(self, items: Sequence[StepperItem], current: str) -> None:
        """Draw `items`, with `current` as the step that is open."""
        self.items, self.current = tuple(items), current
        self.cursor = next((n for n, item in enumerate(items) if item.key == current), 0)

    @property
    def is_line(self) -> bool:
        """Whether the stepper is drawn as one line."""
        return self.size.height == 1

    def render(self) -> Text:
        """Render the list, or the line."""
        return self._line() if self.is_line else self._list()

    def _list(self) -> Text:
        text, colours = Text(no_wrap=True, end=""), self.app.theme_variables
        for number in self._rows():
            if number is None:
                text.append("\n")
                continue
            item = self.items[number]
            is_current = item.key == self.current
            icon = status_icon("here" if is_current and item.status in {"todo", "done"} else item.status)
            style = "bold" if is_current else ("" if item.status != "todo" else colours["muted"])
            if self.has_focus and number == self.cursor:
                style = f"bold {colours['background']} on {colours['primary']}"
            label = f"{item.number} {item.title}" if item.number else item.title
            text.append(icon.glyph + " ", colours[icon.colour])
            text.append(truncate(label, self.size.width - 11), style)
            ink = colours[icon.colour if is_current else "muted"]
            text.append(truncate(icon.label, 9, right=True) + "\n", ink)
        return text

    def _line(self) -> Text:
        """`Step 2 of 7: Quotas   ✓ 1 done  ○ 5 to do`: the other steps are counted by status."""
        colours = self.app.theme_variables
        total = sum(1 for item in self.items if item.number)
        item = (
            self.items[self.cursor if self.has_focus else self._current_index()]
            if self.items
            else StepperItem("", "")
        )
        title = _("Step {n} of {total}: {title}").format(n=item.number, total=total, title=item.title)
        if self.has_focus and item.key != self.current:
            title += " · enter " + _("Open")
        style = f"bold {colours['background']} on {colours['primary']}" if self.has_focus else "bold"
        text = Text(no_wrap=True, end="").append(title if item.number else item.title, style)
        for key, count in Counter(o.status for o in self.items if o.number and o.status != "here").items():
            icon = status_icon(key)
            text.append(f"   {icon.glyph} {count} {icon.label}", colours[icon.colour])
        return text

    def _current_index(self) -> int:
        return next((n for n, item in enumerate(self.items) if item.key == self.current), 0)

    def action_move(self, by: int) -> None:
        """Move the cursor, stopping at the ends."""
        self.cursor = min(len(self.items) - 1, max(0, self.cursor + by))

    def action_choose(self) -> None:
        """Select the step under the cursor."""
        if self.items:
            self.post_message(self.StepSelected(self, self.items[self.cursor].key))

    def on_click(self, event: Click) -> None:
        """Select the clicked step."""
        offset = event.get_content_offset(self)
        if offset is None or self.is_line:
            return
        rows = self._rows()
        number = rows[offset.y] if offset.y < len(rows) else None
        if number is not None:
            self.cursor = number
            self.action_choose()

    def _rows(self) -> list[int | None]:
        """The index of the item in each row; None is the gap after the numbered steps."""
        rows: list[int | None] = []
        for number, item in enumerate(self.items):
            if number and not item.number and self.items[number - 1].number:
                rows.append(None)
            rows.append(number)
        return rows
