"""What is shown of a log line, signs, ASCII, colours: pure functions."""

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


def test_of_a_progress_bar_the_last_state_is_shown_with_what_is_glued_to_it() -> None:
    raw = "\rProcessed prompts:   1%|█ | 16/1024\rProcessed prompts: 100%|██| 1024/1024▶ Computing"
    assert display_text(raw.encode()) == "Processed prompts: 100%|██| 1024/1024▶ Computing"
    assert display_text(b"whole line\r") == "whole line"


def test_a_character_cut_by_the_end_of_a_read_is_left_out_not_shown_broken() -> None:
    whole = "📊 Training Results:".encode()
    assert display_text(whole[:2]) == "" and display_text(b"a " + whole[:3]) == "a "
    assert display_text(whole) == "📊 Training Results:"


@pytest.mark.parametrize("text", ["[/usr/bin/x]", "[/]", "[//]", "open [/dev/shm]", "[bold]x[/bold]"])
def test_brackets_are_letters(text: str) -> None:
    assert highlight(display_text(text.encode()), PLAIN).plain == text


def test_escapes_and_controls_never_reach_the_terminal() -> None:
    assert (
        display_text(b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x07bell\x9b")
        == "red bell\N{REPLACEMENT CHARACTER}"
    )
    assert display_text("a\u202eb\tc".encode()) == "ab      c"


def test_a_long_line_is_cut_with_the_number_of_what_is_left_out() -> None:
    text = display_text(b"a" * 8192, 1_291_808)
    assert text == "a" * MAX_CELLS + " … 1,299,000 more characters"
    assert cell_len(display_text("日".encode() * 900)) <= MAX_CELLS + 40


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.binary(max_size=300))
def test_any_bytes_become_one_line_that_can_be_painted(raw: bytes) -> None:
    text = display_text(raw)
    assert not any(char in text for char in "\n\r\x1b\x07\x9b")
    Console(file=None, width=80).render_lines(highlight(text, PLAIN))


PRINTED = st.characters(exclude_categories=("Cs", "Cc", "Cf", "Mn", "Me", "Mc"))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.text(PRINTED, max_size=30), st.integers(0, 30))
def test_ascii_and_fitting_keep_the_cells(text: str, width: int) -> None:
    assert to_ascii(text).isascii()
    assert cell_len(truncate(text, width)) == width


def test_drawn_things_have_a_likeness_of_one_cell() -> None:
    drawn = "".join(chr(code) for block in (range(0x2500, 0x25A0), range(0x2801, 0x2900)) for code in block)
    assert all(len(to_ascii(char)) == 1 for char in drawn)
    assert to_ascii("✓ pass ✗ block … look ○ ◐ ● ü 日本") == "v pass X block . look o * @ u ????"


def test_every_sign_has_a_word_and_no_two_levels_look_alike_in_ascii() -> None:
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
def test_ascii_is_chosen_by_terminal_and_wish(env: dict[str, str], encoding: str, expected: bool) -> None:
    assert supports_unicode(env, encoding) is expected


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_every_colour_of_text_stands_out_from_its_ground(theme) -> None:  # type: ignore[no-untyped-def]
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
