"""A sign is a glyph and a word, always together: neither hue nor font may carry the meaning alone.

Whether the terminal can show more than ASCII is decided once, from locale, encoding and TERM. Where it
cannot, every text becomes ASCII of the same width at the last moment (`to_ascii`), so that nothing else
needs to know.
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

# TERM values whose character sets hold no box drawing or braille: the kernel's console, serial terminals.
_ASCII_ONLY_TERMS = ("dumb", "linux", "vt52", "vt100", "vt102", "vt220", "unknown")


@dataclass(frozen=True, slots=True)
class StatusIcon:
    """One meaning: glyph (1 cell), word, and the theme variable that underlines it."""

    glyph: str
    label: str
    colour: str

    def __str__(self) -> str:
        return f"{self.glyph} {self.label}"


@cache
def status_icons() -> Mapping[str, StatusIcon]:
    """All signs by key: levels of findings first, then states, then trends."""
    return {
        "pass": StatusIcon("✓", _("pass"), "success"),
        "info": StatusIcon("·", _("info"), "secondary"),
        "warn": StatusIcon("!", _("warn"), "warning"),
        "block": StatusIcon("✗", _("block"), "error"),
        "look": StatusIcon("…", _("look"), "secondary"),
        "todo": StatusIcon("○", _("to do"), "muted"),
        "wait": StatusIcon("○", _("waits"), "muted"),
        "here": StatusIcon("▸", _("here"), "primary"),
        "half": StatusIcon("◐", _("half-way"), "primary"),
        "work": StatusIcon("◐", _("works"), "primary"),
        "training": StatusIcon("●", _("training"), "primary"),
        "done": StatusIcon("✓", _("done"), "success"),
        "kept": StatusIcon("=", _("kept"), "success"),
        "failed": StatusIcon("✗", _("failed"), "error"),
        "paused": StatusIcon("‖", _("paused"), "warning"),
        "gone": StatusIcon("-", _("deleted"), "muted"),
        "up": StatusIcon("↑", _("rising"), "primary"),
        "down": StatusIcon("↓", _("falling"), "primary"),
        "flat": StatusIcon("→", _("steady"), "muted"),
        "broken": StatusIcon("✗", _("broken"), "error"),
    }


def status_icon(key: str) -> StatusIcon:
    """The sign called `key`; KeyError for one that is not declared."""
    return status_icons()[key]


def supports_unicode(env: Mapping[str, str], encoding: str) -> bool:
    """Whether more than ASCII may be sent. `encoding`: of the locale or the stream."""
    if env.get("GRPO_WIZARD_ASCII") or env.get("TERM", "").lower() in _ASCII_ONLY_TERMS:
        return False
    return encoding.lower().replace("-", "").replace("_", "") in {"utf8", "utf16", "cp65001", "gb18030"}


@cache
def terminal_supports_unicode() -> bool:
    """`can_unicode` for this process, by locale and by stdout (so PYTHONIOENCODING counts)."""
    out = getattr(sys.__stdout__, "encoding", None) or "ascii"
    # PEP 538 and 540 make stdout UTF-8 under LANG=C too; what the terminal was told is still "C".
    named = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    if named.upper() in {"C", "POSIX"}:
        return False
    return supports_unicode(os.environ, out) and supports_unicode(
        os.environ, locale.getpreferredencoding(False)
    )


# Pairs of a sign and its likeness: marks, arrows, dashes and quotes, lines, corners, blocks, bars by height.
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
    """`text` in ASCII with as many cells: ü becomes u, what has no likeness `?` per cell."""
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
    """`text` in exactly `width` cells: cut with `…`, or padded (at the left when `right`)."""
    if width <= 0:
        return ""
    if (length := cell_len(text)) > width:
        cut = chop_cells(text, width - 1)[0] if width > 1 else ""
        text, length = cut + "…", cell_len(cut) + 1
    pad = " " * (width - length)
    return pad + text if right else text + pad
