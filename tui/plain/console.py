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
import textwrap
from collections.abc import Mapping, Sequence

from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import to_ascii, unicode_here

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_COMMAND = re.compile(r"[^:]*: (?:grpo-wizard|gcloud|kubectl|ray|bash|curl|export|pip|python3?|cd|echo) ")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

HELP = "?"
BEFORE = "<"
ENOUGH = "!"
NOTHING = "-"


class Talk:
    """One conversation on this process's terminal."""

    def say(self, text: str = "") -> None:
        """Whole lines, at once. What came from outside cannot steer the terminal."""
        print(self._fit(text), flush=True)

    def ask(self, prompt: str) -> str:
        """What was typed, without blanks at its ends. Raises EOFError at the end of input.

        Not `input()`: with the readline module loaded, that one sends escape sequences of its own.
        """
        while True:
            typed = self._typed(prompt).strip().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            if not _CONTROLS.search(typed.replace("\t", " ")):
                return typed
            self.say(_("Refused: only text can be typed here; arrow and function keys do nothing."))

    def _typed(self, prompt: str) -> str:
        print(self._fit(prompt) + " ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line

    def hidden(self, prompt: str) -> str:
        """The same, not shown while it is typed."""
        return getpass.getpass(self._fit(prompt) + " ").strip()

    def choose(self, head: str, ways: Mapping[str, str], default: str = "") -> str:
        """One key of `ways` (key to label). `?` says each key with its label."""
        labels = list(ways.values())
        listed = ", ".join(labels[:-1]) + (" " + _("or") + " " if labels[:-1] else "") + labels[-1]
        prompt = (
            f"{head} {listed[:1].upper()}{listed[1:]}? ({'/'.join(ways)})"
            + (f" ({default})" if default else "")
            + ":"
        )
        while True:
            typed = self.ask(prompt.strip())
            if typed == HELP:
                self.list([f"{key}: {label}" for key, label in ways.items()])
                continue
            found = _matching(typed or default, ways)
            if found:
                return found
            self.say(_("Refused: one of {keys}.").format(keys=", ".join(ways)))

    def yes(self, prompt: str, default: bool = False) -> bool:
        """Yes or no, in the words that every switch takes."""
        from grpo_wizard.steps.core import validators
        from grpo_wizard.steps.core.model import Refused

        words = _("yes or no ({default})").format(default=_("yes") if default else _("no"))
        while True:
            typed = self.ask(f"{prompt} {words}:")
            try:
                return validators.switch(typed) if typed else default
            except Refused as refusal:
                self.say(_("Refused: {rule}.").format(rule=refusal))

    def list(self, lines: Sequence[str]) -> None:
        """Each on a line of its own."""
        for line in lines:
            self.say(f"  {line}")

    def _fit(self, text: str) -> str:
        plain = _CONTROLS.sub("", _ESCAPES.sub("", text))
        shown = plain if unicode_here() else to_ascii(plain)
        return wrapped(shown, shutil.get_terminal_size().columns) if sys.stdout.isatty() else shown


def wrapped(text: str, width: int) -> str:
    """Lines that end between words. A command stays one line, however long: it is there to be copied."""
    return "\n".join(line if _COMMAND.match(line) else _filled(line, width - 1) for line in text.split("\n"))


def _filled(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        line, max(width, 20), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _matching(typed: str, ways: Mapping[str, str]) -> str:
    """By key, or by the label's words."""
    lowered = typed.lower()
    if lowered in ways:
        return lowered
    return next((key for key, label in ways.items() if lowered and label.lower() == lowered), "")


def sentence(text: str) -> str:
    """With a full stop, unless it has an end of its own."""
    return text if not text or text[-1] in ".!?:" else text + "."
