"""Panes by number: one row, the chosen one marked by more than its colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget


class TabBar(Widget):
    """`▸1 Overview  2 Charts …`. Keys are the screen's; a click posts `Chosen`."""

    DEFAULT_CSS = """
    TabBar { height: 1; width: 1fr; padding: 0 1; background: $surface; }
    """
    current: reactive[str] = reactive("")

    class TabSelected(Message):
        """A tab was clicked."""

        def __init__(self, key: str) -> None:
            self.key = key
            super().__init__()

    def __init__(self, tabs: Sequence[tuple[str, str]], *, id: str | None = None) -> None:
        """`tabs` are (key, label)."""
        super().__init__(id=id)
        self._tabs = tuple(tabs)

    def render(self) -> Text:
        """All labels in one row."""
        colours, text = self.app.theme_variables, Text(no_wrap=True, end="")
        for number, (key, label) in enumerate(self._tabs, 1):
            here = key == self.current
            text.append("▸" if here else " ", colours["primary"])
            text.append(f"{number} ", colours["primary"])
            text.append(f"{label} ", "bold underline" if here else colours["muted"])
        return text

    def on_click(self, event: Click) -> None:
        """Finds the label under the pointer."""
        at, x = event.x - 1, 0
        for key, label in self._tabs:
            x += 4 + cell_len(label)
            if at < x:
                self.post_message(self.TabSelected(key))
                return
