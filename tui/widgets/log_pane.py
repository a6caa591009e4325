"""The log with a search field and a status line: number of lines, whether it follows, and the actor filter."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.widgets import Input, Static

from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.widgets.log_view import LogView


class LogPane(Vertical):
    """A LogView; `/` searches, `a` cycles through the actors."""

    DEFAULT_CSS = """
    LogPane { height: 1fr; }
    LogPane #log-search { display: none; height: 1; padding: 0 1; background: $panel; }
    LogPane #log-search.-open { display: block; }
    LogPane #log-status { height: 1; background: $surface; color: $muted; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash", "search", _("Search"), key_display="/", id="log.search", tooltip=_("Search the log")
        ),
        Binding("a", "actor", _("Actor"), id="log.actor", tooltip=_("Show only one actor's lines")),
    ]

    def __init__(self, path: Path | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._log = LogView(path)
        self._note = ""

    def compose(self) -> ComposeResult:
        """Yield the log, the hidden search field, and the status line."""
        yield self._log
        yield Input(placeholder=_("Search"), id="log-search", compact=True)
        yield Static("", id="log-status", markup=False)

    def on_mount(self) -> None:
        """Update the status line when the log changes."""
        for name in ("follow", "actor", "current"):
            self.watch(self._log, name, self._update_status, init=False)
        self._update_status()

    def open(self, path: Path) -> None:
        """Show another file."""
        self._log.open(path)

    @on(LogView.LinesRead)
    def _update_status(self) -> None:
        log, rows = self._log, self._log.rows
        parts = [ngettext("{n} line", "{n} lines", rows).format(n=f"{rows:,}")]
        parts.append(_("following") if log.follow else _("not following"))
        if log.current >= 0:
            parts.append(_("at line {n}").format(n=f"{log.current + 1:,}"))
        if log.actor:
            parts.append(_("{actor} only").format(actor=log.actor))
        if self._note:
            parts.append(self._note)
        self.query_one("#log-status", Static).update(" · ".join(parts))

    def action_search(self) -> None:
        """Open the search field."""
        search = self.query_one("#log-search", Input)
        search.add_class("-open")
        search.focus()

    @on(Input.Submitted, "#log-search")
    def _search(self, event: Input.Submitted) -> None:
        event.stop()
        self._close()
        self._log.search(event.value)

    def on_key(self, event: Key) -> None:
        """Close the search field on Esc."""
        if event.key == "escape" and self.query_one("#log-search", Input).has_focus:
            event.stop()
            self._close()

    def _close(self) -> None:
        self.query_one("#log-search", Input).remove_class("-open")
        self._log.focus()

    @on(LogView.SearchFinished)
    def _search_finished(self, event: LogView.SearchFinished) -> None:
        self._note = "" if event.line is not None else _("no match")
        self._update_status()

    def action_actor(self) -> None:
        """Filter by the next actor; after the last, show all."""
        names = ["", *sorted(self._log.log_index.actors)] if self._log.log_index else [""]
        self._log.actor = names[(names.index(self._log.actor) + 1) % len(names)]
