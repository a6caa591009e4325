"""A view of a growing log of any length, with search; only the visible rows are decoded and highlighted.

A thread reads the file and keeps line offsets; the screen reads the lines that it shows. tests/bench/log_view.py
measures it. The idea (offsets and pread) is from https://github.com/Textualize/toolong.
"""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_left
from pathlib import Path
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import on, work
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.events import MouseScrollUp
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollTo, ScrollUp
from textual.strip import Strip
from textual.worker import get_current_worker

from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.widgets.log_index import ERROR, LogIndex
from grpo_wizard.tui.widgets.log_text import display_text, highlight

_IDLE_SECONDS = 0.1
_STYLES = {
    "log-actor": "muted", "log-time": "muted", "log-error": "error", "log-warn": "warning",
    "log-step": "primary", "log-number": "foreground",
}  # fmt: skip


class _ActorFilter:
    """The line numbers of one actor. The reading thread extends them, the screen's thread reads them."""

    def __init__(self, actor: str) -> None:
        self.rows: array[int] = array("Q")
        self._needle = f"({actor} pid=".encode()
        self._done = self._generation = 0

    def extend(self, log: LogIndex) -> bool:
        """Filter the lines that became complete. Returns True if there were any."""
        if log.generation != self._generation:
            self.rows, self._done, self._generation = array("Q"), 0, log.generation
        since, self._done = self._done, log.complete_lines
        if self._done > since:
            self.rows.extend(n for n in log.lines_matching(self._needle, since) if n < self._done)
        return self._done > since


class LogView(ScrollView, can_focus=True):
    """The rows of a log file: follows its end, searches, and filters by actor."""

    HELP = _(
        "Shows the job's log and follows new lines until you scroll up. "
        "Press `/` to search, then `n` or `N` to go to the next or previous match."
    )
    DEFAULT_CSS = """
    LogView { background: $background; height: 1fr; scrollbar-size: 1 1; }
    LogView:focus { background-tint: $foreground 3%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "f", "toggle_follow", _("Follow"), id="log.follow", tooltip=_("Keep the newest lines in view")
        ),
        Binding("e", "first_error", _("Error"), id="log.error", tooltip=_("Go to the first error")),
        Binding(
            "n", "next(1)", _("Next match"), id="log.next", tooltip=_("Go to the next match"), show=False
        ),
        Binding(
            "N",
            "next(-1)",
            _("Previous match"),
            id="log.previous",
            tooltip=_("Go to the previous match"),
            show=False,
        ),
    ]

    follow: reactive[bool] = reactive(True)
    actor: reactive[str] = reactive("")
    current: reactive[int] = reactive(-1)

    class LinesRead(Message):
        """The thread has read more lines; several messages in the queue become one."""

        def can_replace(self, message: Message) -> bool:
            """Replaceable by a newer message of this class."""
            return isinstance(message, LogView.LinesRead)

    class SearchFinished(Message):
        """A search has finished: `line` is the number of the line, or None."""

        def __init__(self, view: LogView, line: int | None) -> None:
            self.view, self.line = view, line
            super().__init__()

        @property
        def control(self) -> LogView:
            """The view that was searched."""
            return self.view

    def __init__(self, path: Path | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.log_index: LogIndex | None = None
        self._path = path
        self._actor_filter: _ActorFilter | None = None
        self._shown_rows = 0
        self._generation = 0
        self._max_width = 0
        self._pattern: re.Pattern[str] | None = None
        self._cache: LRUCache[tuple[int, int], Strip] = LRUCache(1024)
        self._styles: dict[str, str] = {}

    def on_mount(self) -> None:
        """Load the theme's colours and start reading."""
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._restyle())
        self._restyle()
        if self._path is not None:
            self.open(self._path)

    def on_unmount(self) -> None:
        """Close the file."""
        if self.log_index is not None:
            self.log_index.close()

    def _restyle(self) -> None:
        colours = self.app.theme_variables
        self._styles = {name: colours[variable] for name, variable in _STYLES.items()}
        self._styles["log-found"] = f"{colours['background']} on {colours['warning']}"
        self._invalidate()

    def _invalidate(self) -> None:
        self._cache.clear()
        self.refresh()

    def open(self, path: Path) -> None:
        """Show another file, which may not exist yet."""
        if self.log_index is not None:
            self.log_index.close()
        self.log_index, self._shown_rows, self._max_width = LogIndex(path), 0, 0
        self._generation, self.current, self._actor_filter = (
            0,
            -1,
            self._actor_filter and _ActorFilter(self.actor),
        )
        self._invalidate()
        self._read(self.log_index)

    @work(thread=True, exclusive=True, group="log-read", exit_on_error=False, description="read the log")
    def _read(self, log: LogIndex) -> None:
        worker = get_current_worker()
        while not worker.is_cancelled:
            grown = log.scan()
            actor_filter = self._actor_filter  # the screen's thread may replace it meanwhile
            if (actor_filter is not None and actor_filter.extend(log)) or grown:
                self.post_message(self.LinesRead())
                time.sleep(0.001)  # lets the screen's thread have the GIL between two chunks
            else:
                time.sleep(_IDLE_SECONDS)
        log.close()

    @property
    def rows(self) -> int:
        """Number of rows that pass the filter."""
        if self._actor_filter is not None:
            return len(self._actor_filter.rows)
        return len(self.log_index) if self.log_index else 0

    def _line_of(self, row: int) -> int:
        return self._actor_filter.rows[row] if self._actor_filter is not None else row

    def _row_of(self, line: int) -> int:
        return bisect_left(self._actor_filter.rows, line) if self._actor_filter is not None else line

    def on_resize(self) -> None:
        """Keep the end in view when following."""
        if self.follow:
            self.call_after_refresh(self._to_end)

    def watch_show_horizontal_scrollbar(self) -> None:
        """Keep the end in view: the scroll bar covers the last row."""
        self.on_resize()

    def on_log_view_lines_read(self) -> None:
        """Update the scroll bars, and scroll to the end when following."""
        if self.log_index is None:
            return
        if self.log_index.generation != self._generation:
            self._generation = self.log_index.generation
            self._invalidate()
        first_new, self._shown_rows = self._shown_rows, self.rows
        self.virtual_size = Size(self._max_width, self._shown_rows)
        if self.follow:
            self._to_end()
        elif first_new < self.scroll_offset.y + self.size.height:
            self.refresh()

    # Only user actions end following: layout and growth change positions, too.
    def action_scroll_up(self) -> None:
        """Scroll up one row and stop following."""
        self.follow = False
        super().action_scroll_up()

    def action_page_up(self) -> None:
        """Scroll up one page and stop following."""
        self.follow = False
        super().action_page_up()

    def action_scroll_home(self) -> None:
        """Scroll to the first row and stop following."""
        self.follow = False
        super().action_scroll_home()

    def action_scroll_end(self) -> None:
        """Scroll to the last row and follow it."""
        self.follow = True
        self._to_end()

    @on(MouseScrollUp)
    @on(ScrollTo)
    @on(ScrollUp)
    def _by_mouse(self) -> None:
        self.follow = False

    def _to_end(self) -> None:
        # force: before the layout has a scroll bar, Textual considers the view not scrollable.
        self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)

    def watch_follow(self, follow: bool) -> None:
        """Scroll to the end when following starts."""
        if follow and self.is_mounted:
            self._to_end()

    def render_line(self, y: int) -> Strip:
        """Render one visible row."""
        row = self.scroll_offset.y + y
        width, base = self.size.width, self.rich_style
        if self.log_index is None or row >= self.rows:
            return Strip.blank(width, base)
        strip = self._strip(self._line_of(row), base)
        return strip.crop_extend(self.scroll_offset.x, self.scroll_offset.x + width, base).apply_style(base)

    def _strip(self, line: int, base: Style) -> Strip:
        log = self.log_index
        assert log is not None
        key = (line, log.generation)
        if (cached := self._cache.get(key)) is not None:
            return cached
        try:
            text = display_text(*log.line(line))
        except (IndexError, OSError):  # truncated or closed meanwhile: the next `LinesRead` repaints
            return Strip.blank(0, base)
        rich = highlight(text, self._styles, self._pattern)
        if line == self.current:
            rich.stylize("reverse")
        strip = Strip(Segment(t, s) for t, s, _ in rich.render(self.app.console))
        if line < log.complete_lines:
            self._cache[key] = strip
        if strip.cell_length > self._max_width:
            self._max_width = strip.cell_length
            self.call_later(self.on_log_view_lines_read)
        return strip

    def show_line(self, line: int) -> None:
        """Highlight `line` and scroll it to the middle of the view."""
        self.follow = False
        self.current = line
        self._invalidate()
        row = self._row_of(line)
        self.scroll_to(y=max(0, row - self.size.height // 2), animate=False, immediate=True)

    def search(self, query: str, direction: int = 1) -> None:
        """Search for `query` from the current line on; a lower-case query ignores case. Posts `SearchFinished`."""
        case = re.IGNORECASE if query == query.lower() else 0
        self._pattern = re.compile(re.escape(query), case) if query else None
        self._invalidate()
        self.action_next(direction)

    def action_next(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) match."""
        if self._pattern is None or self.log_index is None:
            return
        words = self._pattern.pattern
        if self._pattern.flags & re.IGNORECASE:
            self._find(self.log_index, re.compile(words.encode(), re.IGNORECASE), self.current, direction < 0)
        else:
            self._find(self.log_index, re.sub(r"\\(.)", r"\1", words).encode(), self.current, direction < 0)

    def action_first_error(self) -> None:
        """Go to the first line that looks like an error."""
        if self.log_index is not None:
            self._find(self.log_index, ERROR, -1, False)

    def action_toggle_follow(self) -> None:
        """Start or stop following the end."""
        self.follow = not self.follow

    @work(thread=True, exclusive=True, group="log-find", exit_on_error=False, description="search the log")
    def _find(self, log: LogIndex, pattern: re.Pattern[bytes] | bytes, after: int, backwards: bool) -> None:
        try:
            line = log.find(pattern, min(after, len(log) - 1), backwards=backwards)
        except (OSError, ValueError):  # the file became shorter than the mapping
            line = None
        if not get_current_worker().is_cancelled:
            self.post_message(self.SearchFinished(self, line))

    def on_log_view_search_finished(self, event: SearchFinished) -> None:
        """Show the match."""
        if event.line is not None:
            self.show_line(event.line)

    def watch_actor(self, actor: str) -> None:
        """Show one actor's lines, or all for an empty name."""
        self._actor_filter, self._shown_rows = _ActorFilter(actor) if actor else None, 0
        self.on_log_view_lines_read()
        self.refresh()
