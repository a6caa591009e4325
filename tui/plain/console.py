"""Lines out, lines in. The terminal stays in its own line mode, so that nothing here ever moves a cursor.

questionary and prompt_toolkit were measured on a pty under TERM=dumb: three questions of theirs wrote 107 escape
sequences (cursor moves, erasures, bracketed paste) and painted each prompt anew at every key. Reading whole lines
writes none, and what is typed is echoed and corrected by the terminal, as a screen reader expects. questions.py is the same
conversation through questionary for terminals that can do more.
"""

from __future__ import annotations

import getpass
import re
import shutil
import sys
from collections.abc import Mapping, Sequence

from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import terminal_supports_unicode, to_ascii
from grpo_wizard.tui.style.text import wrap_text

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

HELP = "?"
BACK = "<"
SKIP = "!"
NONE = "-"


class Console:
    """One conversation on this process's terminal."""

    def print(self, text: str = "") -> None:
        """Whole lines, at once. What came from outside cannot steer the terminal."""
        print(self._format(text), flush=True)

    def ask(self, prompt: str) -> str:
        """What was typed, without blanks at its ends. Raises EOFError at the end of input.

        Not `input()`: with the readline module loaded, that one sends escape sequences of its own.
        """
        while True:
            typed = (
                self._read_line(prompt).strip().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            )
            if not _CONTROL_CHARS.search(typed.replace("\t", " ")):
                return typed
            self.print(_("Refused: only text can be typed here; arrow and function keys do nothing."))

    def _read_line(self, prompt: str) -> str:
        print(self._format(prompt) + " ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line

    def ask_hidden(self, prompt: str) -> str:
        """The same, not shown while it is typed."""
        return getpass.getpass(self._format(prompt) + " ").strip()

    def choose(self, heading: str, options: Mapping[str, str], default: str = "") -> str:
        """One key of `ways` (key to label). `?` says each key with its label."""
        labels = list(options.values())
        listed = ", ".join(labels[:-1]) + (" " + _("or") + " " if labels[:-1] else "") + labels[-1]
        prompt = (
            f"{heading} {listed[:1].upper()}{listed[1:]}? ({'/'.join(options)})"
            + (f" ({default})" if default else "")
            + ":"
        )
        while True:
            typed = self.ask(prompt.strip())
            if typed == HELP:
                self.print_list([f"{key}: {label}" for key, label in options.items()])
                continue
            found = _match_option(typed or default, options)
            if found:
                return found
            self.print(_("Refused: one of {keys}.").format(keys=", ".join(options)))

    def confirm(self, prompt: str, default: bool = False) -> bool:
        """Yes or no, in the words that every switch takes."""
        from grpo_wizard.steps.core import validators
        from grpo_wizard.steps.core.answers import InvalidValue

        words = _("yes or no ({default})").format(default=_("yes") if default else _("no"))
        while True:
            typed = self.ask(f"{prompt} {words}:")
            try:
                return validators.switch(typed) if typed else default
            except InvalidValue as refusal:
                self.print(_("Refused: {rule}.").format(rule=refusal))

    def print_list(self, lines: Sequence[str]) -> None:
        """Each on a line of its own."""
        for line in lines:
            self.print(f"  {line}")

    def _format(self, text: str) -> str:
        plain = _CONTROL_CHARS.sub("", _ESCAPES.sub("", text))
        shown = plain if terminal_supports_unicode() else to_ascii(plain)
        return wrap_text(shown, shutil.get_terminal_size().columns) if sys.stdout.isatty() else shown


def _match_option(typed: str, options: Mapping[str, str]) -> str:
    """By key, or by the label's words."""
    lowered = typed.lower()
    if lowered in options:
        return lowered
    return next((key for key, label in options.items() if lowered and label.lower() == lowered), "")
