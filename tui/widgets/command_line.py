"""The equivalent gcloud or kubectl command, to read and to copy."""

from __future__ import annotations

import re
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from grpo_wizard.tui.style.i18n import _


def fold(command: str, width: int) -> str:
    """Break `command` at its flags into lines of at most `width` cells, continued by backslashes.

    To a shell the result is the same command.
    """
    words = _words(command)
    lines = [words[0]] if words else []
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += " " + word
        else:
            lines.append("    " + word)
    return " \\\n".join(lines)


# A word as a shell reads it, with its quotes: runs of plain characters, escapes, '…' and "…".
_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")


def _words(command: str) -> list[str]:
    """Split into words, with their quotes; a flag and its value stay together."""
    words = _WORD.findall(command)
    if _WORD.sub("", command).strip():  # an unclosed quote: one long line is better than a wrong one
        return [command]
    joined: list[str] = []
    for word in words:
        flag = joined[-1] if joined else ""
        is_value = flag.startswith("--") and not word.startswith("-") and "=" not in flag and " " not in flag
        joined[-1:] = [f"{flag} {word}"] if is_value else [*joined[-1:], word]
    return joined


class CommandLine(Widget, can_focus=True):
    """A box with a command; `y` copies it as one line, by OSC 52, which also works over ssh."""

    HELP = _("Shows the equivalent command. Press `y` to copy it.")
    DEFAULT_CSS = """
    CommandLine { height: auto; width: 1fr; border-top: solid $line; border-title-color: $muted;
                  border-title-style: bold; color: $secondary; padding: 0 1; }
    CommandLine:focus { border-top: solid $border; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", _("Copy command"), id="command.copy", tooltip=_("Copy this command"), show=False)
    ]
    command: reactive[str] = reactive("", layout=True)

    def __init__(
        self, command: str = "", title: str = "", *, copy_key: str = "y", id: str | None = None
    ) -> None:
        """`copy_key`: the key to show in the border, if the screen binds another one."""
        super().__init__(id=id)
        self._title, self._copy_key = title, copy_key
        self.set_reactive(CommandLine.command, command)
        self._update_border_title()

    def _update_border_title(self, note: str = "") -> None:
        hint = f"{self._copy_key} {_('Copy command')}" if self._can_copy else ""
        parts = [self._title, note or hint]
        self.border_title = Content(" " + " · ".join(part for part in parts if part) + " ")

    @property
    def _can_copy(self) -> bool:
        return bool(self.command)

    def show(self, command: str, title: str) -> None:
        """Show another command."""
        self.command, self._title = command, title
        self._update_border_title()

    def render(self) -> Text:
        """Render the command, folded at its flags."""
        return Text(fold(self.command, max(20, self.size.width)), end="")

    def action_copy(self) -> None:
        """Copy the command, and confirm in the border for two seconds."""
        self.app.copy_to_clipboard(self.command)
        self._update_border_title("✓ " + _("copied"))
        self.set_timer(2, self._update_border_title)
