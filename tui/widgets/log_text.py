"""Display of a raw log line: bytes to text, and text to highlighted text. Pure functions."""

from __future__ import annotations

import codecs
import re

from rich.cells import cell_len, chop_cells
from rich.text import Text

from grpo_wizard.tui.style.i18n import ngettext

MAX_CELLS = 1000
"""A line is cut behind this many cells."""

# CSI and OSC sequences, and the two-byte escapes; a log must not steer the terminal.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_CONTROLS = {code: None for code in [*range(0x20), *range(0x7F, 0xA0)] if code != 0x09}
# Bidirectional overrides could show a text in another order than it has.
_CONTROLS |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F])


def display_text(raw: bytes, omitted: int = 0) -> str:
    """The text of a line: what follows the last carriage return, without control characters, cut at MAX_CELLS.

    `omitted`: bytes of the line that are not in `raw`. A UTF-8 sequence cut off by the end of a read is left out.
    """
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(raw)
    states = [state for state in text.split("\r") if state.strip()]
    text = _ESCAPES.sub("", states[-1] if states else "").translate(_CONTROLS).expandtabs(8)
    if len(text) <= MAX_CELLS // 2 and not omitted:
        return text
    if cell_len(text) <= MAX_CELLS and not omitted:
        return text
    kept = chop_cells(text, MAX_CELLS)[0]
    more = len(text) - len(kept) + omitted
    return kept + " " + ngettext("… {n} more character", "… {n} more characters", more).format(n=f"{more:,}")


_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("log-actor", re.compile(r"^\([\w.:-]+ pid=\d+(?:, ip=[^)]+)?\)")),
    ("log-time", re.compile(r"\b\d{2,4}-\d\d(?:-\d\d)?[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?")),
    ("log-error", re.compile(r"\b(?:ERROR|FATAL|[A-Z]\w*(?:Error|Exception))\b|Traceback|out of memory")),
    ("log-warn", re.compile(r"\bWARN(?:ING)?\b")),
    ("log-step", re.compile(r"=+ Step \d+/\d+ =+|^▶ .*")),
    ("log-number", re.compile(r"(?<=: )-?\d[\d.,]*(?:e[-+]\d+)?(?:s|%)?(?=$|[ ,)])")),
)


def highlight(text: str, styles: dict[str, str], search: re.Pattern[str] | None = None) -> Text:
    """Highlight `text` with `styles` by rule, and the matches of `search`; brackets are never parsed as markup."""
    result = Text(text, no_wrap=True, end="")
    for name, rule in _RULES:
        for match in rule.finditer(text):
            result.stylize(styles[name], *match.span())
    if search is not None:
        for match in search.finditer(text):
            result.stylize(styles["log-found"], *match.span())
    return result
