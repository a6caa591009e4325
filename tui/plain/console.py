"""Line-based input and output that never moves the cursor: the terminal stays in its own line mode.

questionary and prompt_toolkit were measured on a pty under TERM=dumb: three of their questions wrote 107 escape
sequences (cursor moves, erasures, bracketed paste) and repainted the prompt at every key. Reading whole lines writes
none, and the terminal echoes and corrects what is typed, as screen readers expect. questionary_console.py has the same
interface on top of questionary, for terminals that can do more.
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
    """Prompts and output on this process's terminal."""

    def print(self, text: str = "") -> None:
        """Print whole lines and flush. Escape sequences in the text are removed."""
        print(self._format(text), flush=True)

    def ask(self, prompt: str) -> str:
        """Return the line that was typed, stripped. Raise EOFError at the end of input."""
        while True:
            typed = (
                self._read_line(prompt).strip().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            )
            if not _CONTROL_CHARS.search(typed.replace("\t", " ")):
                return typed
            self.print(_("Invalid: only text can be typed here; arrow and function keys have no effect."))

    def _read_line(self, prompt: str) -> str:
        print(self._format(prompt) + " ", end="", flush=True)
        line = sys.stdin.readline()  # not input(): with readline loaded, it writes escape sequences
        if not line:
            raise EOFError
        return line

    def ask_hidden(self, prompt: str) -> str:
        """Like `ask`, without echo."""
        return getpass.getpass(self._format(prompt) + " ").strip()

    def choose(self, heading: str, options: Mapping[str, str], default: str = "") -> str:
        """Ask for one of the options (key -> label) and return its key. `?` lists them."""
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
            self.print(_("Invalid: type one of {keys}.").format(keys=", ".join(options)))

    def confirm(self, prompt: str, default: bool = False) -> bool:
        """Ask yes or no, accepting the same words as switches do."""
        from grpo_wizard.steps.core import validators
        from grpo_wizard.steps.core.answers import InvalidValue

        hint = _("yes or no ({default})").format(default=_("yes") if default else _("no"))
        while True:
            typed = self.ask(f"{prompt} {hint}:")
            try:
                return validators.switch(typed) if typed else default
            except InvalidValue as error:
                self.print(_("Invalid: {rule}.").format(rule=error))

    def print_list(self, lines: Sequence[str]) -> None:
        """Print each text on an indented line."""
        for line in lines:
            self.print(f"  {line}")

    def _format(self, text: str) -> str:
        plain = _CONTROL_CHARS.sub("", _ESCAPES.sub("", text))
        shown = plain if terminal_supports_unicode() else to_ascii(plain)
        return wrap_text(shown, shutil.get_terminal_size().columns) if sys.stdout.isatty() else shown


def _match_option(typed: str, options: Mapping[str, str]) -> str:
    """Return the key of the option that was typed as a key or as a label, else an empty string."""
    lowered = typed.lower()
    if lowered in options:
        return lowered
    return next((key for key, label in options.items() if lowered and label.lower() == lowered), "")
