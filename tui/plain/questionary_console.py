"""The console on top of questionary, for capable terminals: the line can be edited with the usual keys.

questionary's own output moves the cursor and erases. This one writes text only, in the order in which it is typed: no
escape sequences and no repainting; a corrected line is printed again after the prompt.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from prompt_toolkit.output.plain_text import PlainTextOutput

from grpo_wizard.tui.plain.console import Console


class _TextOnlyOutput(PlainTextOutput):
    """Output without menus below the prompt and without blanks in place of cursor moves."""

    def get_rows_below_cursor_position(self) -> int:
        return 1

    def cursor_forward(self, amount: int) -> None:
        """Do nothing: the text to the left has been written already."""


class QuestionaryConsole(Console):
    """A console that reads lines through questionary."""

    def _read_line(self, prompt: str) -> str:
        return self._prompt("text", prompt)

    def ask_hidden(self, prompt: str) -> str:
        return self._prompt("password", prompt).strip()

    def _prompt(self, kind: str, prompt: str) -> str:
        """Read a line. Raise EOFError at the end of input and KeyboardInterrupt for Ctrl+C."""
        import questionary

        # Print the prompt here: questionary would print it again at the first key.
        print(self._format(prompt) + " ", end="", flush=True)
        question: Any = getattr(questionary, kind)("", qmark="", output=_TextOnlyOutput(sys.stdout))
        return str(question.unsafe_ask(patch_stdout=False))


def create_console(enabled_by: str, environment: Mapping[str, str]) -> Console:
    """Return questionary's console if --plain was given on a capable terminal, else the line-based one."""
    capable = environment.get("TERM", "dumb").lower() not in ("", "dumb") and sys.stdin.isatty()
    accessible = environment.get("ACCESSIBLE") or environment.get("GRPO_WIZARD_PLAIN")
    return QuestionaryConsole() if enabled_by == "--plain" and capable and not accessible else Console()
