"""The same conversation through questionary, on a terminal that can: a line that can be edited with the usual keys.

Its own output moves the cursor and erases. Ours writes text only, in the order in which it is typed: no escape sequence,
no repaint of other lines; what is corrected is said again behind the prompt.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from prompt_toolkit.output.plain_text import PlainTextOutput

from grpo_wizard.tui.plain.console import Console


class _TextOnlyOutput(PlainTextOutput):
    """Neither room for menus below the prompt, nor blanks in the place of a cursor's move."""

    def get_rows_below_cursor_position(self) -> int:
        return 1

    def cursor_forward(self, amount: int) -> None:
        """Nothing: what stands to the left has been written already."""


class QuestionaryConsole(Console):
    """Talk whose questions are questionary's."""

    def _read_line(self, prompt: str) -> str:
        return self._prompt("text", prompt)

    def ask_hidden(self, prompt: str) -> str:
        return self._prompt("password", prompt).strip()

    def _prompt(self, kind: str, prompt: str) -> str:
        """Raises EOFError at the end of input and KeyboardInterrupt for ctrl+c, as reading a line does."""
        import questionary

        # The prompt is ours: questionary would say it again at the first key.
        print(self._format(prompt) + " ", end="", flush=True)
        question: Any = getattr(questionary, kind)("", qmark="", output=_TextOnlyOutput(sys.stdout))
        return str(question.unsafe_ask(patch_stdout=False))


def create_console(enabled_by: str, environment: Mapping[str, str]) -> Console:
    """Lines wherever a screen reader or a poor terminal may be behind it; questionary where `--plain` was simply asked for."""
    capable = environment.get("TERM", "dumb").lower() not in ("", "dumb") and sys.stdin.isatty()
    accessible = environment.get("ACCESSIBLE") or environment.get("GRPO_WIZARD_PLAIN")
    return QuestionaryConsole() if enabled_by == "--plain" and capable and not accessible else Console()
