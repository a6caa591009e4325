"""Wrapping of text for terminals."""

from __future__ import annotations

import re
import textwrap

_COMMAND = re.compile(r"[^:]*: (?:grpo-wizard|gcloud|kubectl|ray|bash|curl|export|pip|python3?|cd|echo) ")


def wrap_text(text: str, width: int, hanging: int = 0) -> str:
    """Break lines between words. Continuations start at column `hanging`, or at the line's own indentation if it is larger.

    A command stays on one line, to be copied.
    """
    return "\n".join(
        line if _COMMAND.match(line) else _fill_line(line, width - 1, hanging) for line in text.split("\n")
    )


def _fill_line(line: str, width: int, hanging: int) -> str:
    indent = " " * max(len(line) - len(line.lstrip()), hanging)
    return textwrap.fill(
        line, max(width, 20), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
