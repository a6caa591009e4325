"""Status icons: a glyph and a word, always together, so that neither colour nor font carries the meaning alone.

Whether the terminal supports more than ASCII is decided once, from locale, encoding and TERM. If it does not, all
text is converted to ASCII of the same width just before painting (`to_ascii`), so that no other code has to care.
"""

from __future__ import annotations

import locale
import os
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from rich.cells import cell_len, chop_cells

from grpo_wizard.tui.style.i18n import _

# TERM values whose character sets have no box drawing or braille: the Linux console, serial terminals.
_ASCII_ONLY_TERMS = ("dumb", "linux", "vt52", "vt100", "vt102", "vt220", "unknown")


@dataclass(frozen=True, slots=True)
class StatusIcon:
    """A status: glyph (1 cell), word, and the theme variable with its colour."""

    glyph: str
    label: str
    colour: str

    def __str__(self) -> str:
        return f"{self.glyph} {self.label}"


@cache
def status_icons() -> Mapping[str, StatusIcon]:
    """All icons by key: levels of findings, then states, then trends."""
    return {
        "pass": StatusIcon("✓", _("pass"), "success"),
        "info": StatusIcon("·", _("info"), "secondary"),
        "warn": StatusIcon("!", _("warn"), "warning"),
        "block": StatusIcon("✗", _("block"), "error"),
        "look": StatusIcon("…", _("running"), "secondary"),
        "todo": StatusIcon("○", _("to do"), "muted"),
        "wait": StatusIcon("○", _("waiting"), "muted"),
        "here": StatusIcon("▸", _("current"), "primary"),
        "half": StatusIcon("◐", _("partial"), "primary"),
        "work": StatusIcon("◐", _("working"), "primary"),
        "training": StatusIcon("●", _("training"), "primary"),
        "done": StatusIcon("✓", _("done"), "success"),
        "kept": StatusIcon("=", _("kept"), "success"),
        "failed": StatusIcon("✗", _("failed"), "error"),
        "paused": StatusIcon("‖", _("paused"), "warning"),
        "gone": StatusIcon("-", _("deleted"), "muted"),
        "up": StatusIcon("↑", _("rising"), "primary"),
        "down": StatusIcon("↓", _("falling"), "primary"),
        "flat": StatusIcon("→", _("steady"), "muted"),
        "broken": StatusIcon("✗", _("error"), "error"),
    }


def status_icon(key: str) -> StatusIcon:
    """The icon called `key`. Raises KeyError for an unknown one."""
    return status_icons()[key]


def supports_unicode(env: Mapping[str, str], encoding: str) -> bool:
    """Whether the terminal supports more than ASCII. `encoding`: of the locale or the stream."""
    if env.get("GRPO_WIZARD_ASCII") or env.get("TERM", "").lower() in _ASCII_ONLY_TERMS:
        return False
    return encoding.lower().replace("-", "").replace("_", "") in {"utf8", "utf16", "cp65001", "gb18030"}


@cache
def terminal_supports_unicode() -> bool:
    """`supports_unicode` for this process, by locale and by stdout (so PYTHONIOENCODING counts)."""
    encoding = getattr(sys.__stdout__, "encoding", None) or "ascii"
    # PEP 538 and 540 make stdout UTF-8 under LANG=C, too, but the terminal still runs with "C".
    locale_name = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    if locale_name.upper() in {"C", "POSIX"}:
        return False
    return supports_unicode(os.environ, encoding) and supports_unicode(
        os.environ, locale.getpreferredencoding(False)
    )


# Pairs of a character and its ASCII equivalent: marks, arrows, dashes, quotes, lines, corners, blocks, bars.
_ASCII_EQUIVALENTS = """
✓v ✗X …. ○o ●@ ◐* ◆# ·. •* ×x ▪* ■# □o ◯o ⭘O €E °o ≥> ≤< ✔v ✖X ★* ☐o
▸> ▾v ▴^ ▶> ◀< ◂< ↑^ ↓v →> ←< ↳> ▼v ▲^ ►>
–- —- −- “" ”" ‘' ’'
│| ┃| ┆| ┊| ║| ╎| ‖| ─- ━- ┄- ┈- ═= ╌- ╸- ╺-
┌+ ┐+ └+ ┘+ ├+ ┤+ ┬+ ┴+ ┼+ ╭+ ╮+ ╰+ ╯+ ╔+ ╗+ ╚+ ╝+ ╟+ ╢+
▌| ▐| ▎| ▏| ▕| ▍| ▊| ▉| ▋| ▔- ▀- ░- ▒% ▓#
▁_ ▂. ▃- ▄= ▅+ ▆* ▇# █#
"""
_ASCII = {ord(pair[0]): pair[1] for pair in _ASCII_EQUIVALENTS.split()} | {
    0xA0: " ",
    0x2009: " ",
    0x202F: " ",
}


@lru_cache(4096)
def to_ascii(text: str) -> str:
    """`text` in ASCII of the same width: ü becomes u; a character without an equivalent becomes `?` per cell."""
    if text.isascii():
        return text
    return "".join(_one_ascii(char) for char in text.translate(_ASCII))


def _one_ascii(char: str) -> str:
    if char.isascii():
        return char
    if 0x2800 <= ord(char) <= 0x28FF:
        return "*" if char != "\u2800" else " "
    base = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    width = cell_len(char)
    return base if len(base) == width else "?" * width


def truncate(text: str, width: int, *, right: bool = False) -> str:
    """`text` in exactly `width` cells: truncated with `…`, or padded (on the left if `right`)."""
    if width <= 0:
        return ""
    if (length := cell_len(text)) > width:
        cut = chop_cells(text, width - 1)[0] if width > 1 else ""
        text, length = cut + "…", cell_len(cut) + 1
    pad = " " * (width - length)
    return pad + text if right else text + pad
