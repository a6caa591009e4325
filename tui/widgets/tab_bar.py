"""A row of numbered tabs; the current one is marked by more than its colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget


class TabBar(Widget):
    """`▸1 Overview  2 Charts …`. The screen handles the keys; a click posts `TabSelected`."""

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
        """Render all labels in one row."""
        colours, text = self.app.theme_variables, Text(no_wrap=True, end="")
        for number, (key, label) in enumerate(self._tabs, 1):
            is_current = key == self.current
            text.append("▸" if is_current else " ", colours["primary"])
            text.append(f"{number} ", colours["primary"])
            text.append(f"{label} ", "bold underline" if is_current else colours["muted"])
        return text

    def on_click(self, event: Click) -> None:
        """Select the tab under the pointer."""
        pointer, end = event.x - 1, 0
        for key, label in self._tabs:
            end += 4 + cell_len(label)
            if pointer < end:
                self.post_message(self.TabSelected(key))
                return
