"""Display of log lines, status icons, ASCII conversion and colours: pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from textual.color import Color

from grpo_wizard.tui.style.icons import status_icons, supports_unicode, to_ascii, truncate
from grpo_wizard.tui.style.theme import DARK, LIGHT
from grpo_wizard.tui.widgets.log_text import MAX_CELLS, display_text, highlight

RULES = ("actor", "time", "error", "warn", "step", "number", "found")
PLAIN = {f"log-{rule}": "bold" for rule in RULES}


def test_display_text_shows_the_last_state_of_a_progress_bar() -> None:
    raw = "\rProcessed prompts:   1%|█ | 16/1024\rProcessed prompts: 100%|██| 1024/1024▶ Computing"
    assert display_text(raw.encode()) == "Processed prompts: 100%|██| 1024/1024▶ Computing"
    assert display_text(b"whole line\r") == "whole line"


def test_display_text_omits_a_truncated_character() -> None:
    whole = "📊 Training Results:".encode()
    assert display_text(whole[:2]) == "" and display_text(b"a " + whole[:3]) == "a "
    assert display_text(whole) == "📊 Training Results:"


@pytest.mark.parametrize("text", ["[/usr/bin/x]", "[/]", "[//]", "open [/dev/shm]", "[bold]x[/bold]"])
def test_highlight_keeps_brackets_literal(text: str) -> None:
    assert highlight(display_text(text.encode()), PLAIN).plain == text


def test_display_text_removes_escapes_and_control_characters() -> None:
    assert (
        display_text(b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x07bell\x9b")
        == "red bell\N{REPLACEMENT CHARACTER}"
    )
    assert display_text("a\u202eb\tc".encode()) == "ab      c"


def test_display_text_truncates_a_long_line_and_counts_the_rest() -> None:
    text = display_text(b"a" * 8192, 1_291_808)
    assert text == "a" * MAX_CELLS + " … 1,299,000 more characters"
    assert cell_len(display_text("日".encode() * 900)) <= MAX_CELLS + 40


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.binary(max_size=300))
def test_display_text_turns_any_bytes_into_one_line(raw: bytes) -> None:
    text = display_text(raw)
    assert not any(char in text for char in "\n\r\x1b\x07\x9b")
    Console(file=None, width=80).render_lines(highlight(text, PLAIN))


PRINTED = st.characters(exclude_categories=("Cs", "Cc", "Cf", "Mn", "Me", "Mc"))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.text(PRINTED, max_size=30), st.integers(0, 30))
def test_to_ascii_and_truncate_keep_the_width(text: str, width: int) -> None:
    assert to_ascii(text).isascii()
    assert cell_len(truncate(text, width)) == width


def test_to_ascii_maps_drawing_characters_to_one_cell() -> None:
    drawn = "".join(chr(code) for block in (range(0x2500, 0x25A0), range(0x2801, 0x2900)) for code in block)
    assert all(len(to_ascii(char)) == 1 for char in drawn)
    assert to_ascii("✓ pass ✗ block … running ○ ◐ ● ü 日本") == "v pass X block . running o * @ u ????"


def test_status_icons_have_words_and_differ_in_ascii() -> None:
    assert all(sign.label and cell_len(sign.glyph) == 1 for sign in status_icons().values())
    levels = [to_ascii(str(status_icons()[key])) for key in ("pass", "info", "warn", "block", "look")]
    assert len(set(levels)) == 5
    assert len({level[0] for level in levels if not level.startswith(".")}) == 3


@pytest.mark.parametrize(
    ("env", "encoding", "expected"),
    [
        ({"TERM": "xterm-256color"}, "UTF-8", True),
        ({"TERM": "linux"}, "utf-8", False),
        ({"TERM": "xterm"}, "cp1252", False),
        ({"TERM": "xterm"}, "ANSI_X3.4-1968", False),
        ({"TERM": "xterm", "GRPO_WIZARD_ASCII": "1"}, "utf-8", False),
    ],
)
def test_supports_unicode(env: dict[str, str], encoding: str, expected: bool) -> None:
    assert supports_unicode(env, encoding) is expected


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_text_colours_have_sufficient_contrast(theme) -> None:  # type: ignore[no-untyped-def]
    names = ("primary", "secondary", "warning", "error", "success", "foreground")
    texts = [getattr(theme, name) for name in names] + [
        colour for name, colour in theme.variables.items() if name.startswith(("muted", "series"))
    ]
    for ground in (theme.background, theme.surface, theme.panel):
        for text in texts:
            assert _contrast(text, ground) >= 4.5, (text, ground, _contrast(text, ground))
    assert _contrast(theme.variables["on-rehearsal"], theme.variables["rehearsal"]) >= 7


def _contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio."""

    def light(name: str) -> float:
        rgb = Color.parse(name).normalized
        parts = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb)
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)
