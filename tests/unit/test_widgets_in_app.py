"""The widgets in a running app: keys in, text on the screen out."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Button, Static

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.durations import format_duration, format_duration_range
from grpo_wizard.tui.screens.dialogs import ErrorDialog
from grpo_wizard.tui.style.theme import ThemedApp
from grpo_wizard.tui.widgets.checks import CheckRow, Checks
from grpo_wizard.tui.widgets.command_line import CommandLine, fold
from grpo_wizard.tui.widgets.confirm import ConfirmDialog
from grpo_wizard.tui.widgets.lane import LaneState, timeline_bar
from grpo_wizard.tui.widgets.log_pane import LogPane
from grpo_wizard.tui.widgets.log_view import LogView
from grpo_wizard.tui.widgets.stepper import Stepper, StepperItem
from grpo_wizard.tui.widgets.title_bar import TitleBar, TitleState


class Stage(ThemedApp[None]):
    """An app with a few widgets that records the selected steps."""

    def __init__(self, *widgets: Widget, ascii_only: bool = False) -> None:
        super().__init__(ascii_only=ascii_only)
        self._given, self.chosen = widgets, list[str]()

    def compose(self) -> ComposeResult:
        yield from self._given

    def on_stepper_step_selected(self, event: Stepper.StepSelected) -> None:
        self.chosen.append(event.key)


def play(app: Stage, act: Callable[[Pilot[None]], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> None:
    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await act(pilot)

    asyncio.run(run())


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    """Wait for a condition that a thread fulfils, for five seconds at most."""
    for _round in range(250):
        if holds():
            return
        await pilot.pause(0.02)
    raise AssertionError("it did not come to hold within 5 s")


def screen(app: Stage) -> list[str]:
    """The rows of the screen as text."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def _log(path: Path, lines: int = 2000) -> Path:
    actors = ("VllmGenerationWorker", "DTensorPolicyWorker")
    text = [f"({actors[n % 2]} pid={n % 2}) step line {n} [/] ok\n" for n in range(lines)]
    text[1500] = "ValueError: Needle in the haystack\n"
    path.write_text("".join(text), encoding="utf-8")
    return path


def test_log_view_follows_its_end_until_scrolled_up(tmp_path: Path) -> None:
    path, view = _log(tmp_path / "log"), LogView(tmp_path / "log")
    app = Stage(view)

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: view.rows == 2000 and "line 1999" in screen(app)[-2] + screen(app)[-1])
        with path.open("a") as out:
            out.write("the newest\n")
        await until(pilot, lambda: any("the newest" in row for row in screen(app)))
        view.focus()
        await pilot.press("home")
        await until(pilot, lambda: "line 0 [/] ok" in screen(app)[0])
        assert not view.follow
        with path.open("a") as out:
            out.write("newer still\n")
        await until(pilot, lambda: view.rows == 2002)
        assert "line 0 " in screen(app)[0]
        await pilot.press("f")
        await until(pilot, lambda: any("newer still" in row for row in screen(app)))

    play(app, act)


def test_log_view_shows_the_last_row_with_both_scroll_bars(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x" * 200 + "\n" + "row\n" * 22 + "the last\n")
    app = Stage(LogView(tmp_path / "log"))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: any("the last" in row for row in screen(app)))
        await pilot.resize_terminal(60, 12)
        await until(pilot, lambda: any("the last" in row for row in screen(app)))

    play(app, act)


def test_log_pane_searches_and_filters_by_keyboard(tmp_path: Path) -> None:
    pane = LogPane(_log(tmp_path / "log"))
    app = Stage(pane)

    async def act(pilot: Pilot[None]) -> None:
        view = app.query_one(LogView)
        view.focus()
        await until(pilot, lambda: view.rows == 2000)
        await pilot.press("slash", *"line 77", "enter")
        await until(pilot, lambda: view.current == 77)
        await pilot.press("n")
        await until(pilot, lambda: view.current == 770)
        await pilot.press("N")
        await until(pilot, lambda: view.current == 77)
        await pilot.press("e")
        await until(pilot, lambda: view.current == 1500)
        assert any("Needle in the haystack" in row for row in screen(app))
        await pilot.press("slash", *"needle", "enter")
        await until(pilot, lambda: view.current == 1500)
        await pilot.press("slash", *"Needles", "enter")
        await until(pilot, lambda: "no match" in str(app.query_one("#log-status", Static).render()))
        await pilot.press("a")
        await until(pilot, lambda: view.rows == 999 or view.rows == 1000)
        assert view.actor == "DTensorPolicyWorker"
        assert not any("Vllm" in row for row in screen(app))

    play(app, act)


def test_log_view_shows_markup_and_escapes_literally(tmp_path: Path) -> None:
    path = tmp_path / "log"
    text = b"[/]\n[//] [bold]\n\x1b[2Jcleared?\n" + "📊 r\r100%|██|▶ next\n".encode()
    path.write_bytes(text + b"\xff\xfe\n" + "📊".encode()[:2])
    app = Stage(LogView(path))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.query_one(LogView).rows == 6 and "[/]" in screen(app)[0])
        rows = [row.rstrip() for row in screen(app)]
        assert rows[0:4] == ["[/]", "[//] [bold]", "cleared?", "100%|██|▶ next"] and rows[5] == ""

    play(app, act)


def test_errors_and_checks_show_markup_literally() -> None:
    text = "closing tag '[/usr/bin/x]' [/] [//] [bold]"
    checks = Checks()
    app = Stage(checks)

    async def act(pilot: Pilot[None]) -> None:
        checks.show([CheckRow("a", "block", text, fix=text)])
        await pilot.pause()
        below = sum(text in row for row in screen(app))
        app.push_screen(ErrorDialog(WizardError(text, text, text, text)))
        await pilot.pause()
        shown = sum(text in row for row in screen(app))
        assert below and shown == below + 4, "title, why, fix and command"

    play(app, act, size=(120, 30))


ITEMS = [
    StepperItem("project", "Project", "done", 1),
    StepperItem("quotas", "Quotas", "todo", 2),
    StepperItem("review", "Review"),
]


@pytest.mark.parametrize("width", [80, 120])
def test_stepper_is_a_list_or_one_line_and_works_by_keyboard(width: int) -> None:
    rail = Stepper()
    app = Stage(rail)

    async def act(pilot: Pilot[None]) -> None:
        rail.show(ITEMS, "quotas")
        await pilot.pause()
        text = "\n".join(screen(app))
        assert rail.is_line == (width == 80)
        assert ("Step 2 of 2: Quotas" in text) == rail.is_line and "done" in text
        rail.focus()
        await pilot.press("up", "enter", "down", "down", "down", "enter")
        assert app.chosen == ["project", "review"]
        if not rail.is_line:
            await pilot.click(Stepper, offset=(4, 2))
            await pilot.click(Stepper, offset=(4, 3))
            assert app.chosen == ["project", "review", "quotas"]

    play(app, act, (width, 24))


def test_confirm_dialog_requires_the_exact_name() -> None:
    app, answers = Stage(), list[bool | None]()

    async def act(pilot: Pilot[None]) -> None:
        for name, expected in (("gsm8k-27", None), ("gsm8k-27b", True)):
            lines = [("warn", "[/] lost")]
            app.push_screen(ConfirmDialog("Destroy [/]?", lines, "gsm8k-27b", "Destroy"), answers.append)
            await pilot.pause()
            await pilot.press(*name)
            assert app.screen.query_one("#do", Button).disabled is (expected is None)
            await pilot.press("enter")
            await pilot.pause()
            assert answers == ([] if expected is None else [False, True])
            if expected is None:
                await pilot.press("escape")
                await pilot.pause()
                assert answers == [False]

    play(app, act)


def test_checks_sort_the_worst_first_and_block_while_running() -> None:
    checks = Checks()
    app = Stage(checks)

    async def act(pilot: Pilot[None]) -> None:
        checks.show([CheckRow("a", "pass", "fine [/]"), CheckRow("b", "look", "GPU quota")])
        assert checks.blocks
        checks.upsert(CheckRow("b", "block", "CPUs: 24 left", fix="ask for quota"))
        await pilot.pause()
        rows = [row.strip() for row in screen(app)]
        assert rows[1].startswith("✗ block") and rows[2].startswith("→ ask")
        assert rows[3].startswith("✓ pass     fine [/]")
        checks.upsert(CheckRow("b", "pass", "CPUs"))
        assert not checks.blocks
        checks.stale = True
        await pilot.pause()
        assert checks.blocks and "… running" in "\n".join(screen(app))

    play(app, act)


def test_command_line_copies_the_whole_command() -> None:
    box = CommandLine("gcloud x create y --flag 'a b' --other z", "Creates y")
    app = Stage(box)

    async def act(pilot: Pilot[None]) -> None:
        box.focus()
        await pilot.press("y")
        assert app.clipboard == "gcloud x create y --flag 'a b' --other z"
        assert "copied" in screen(app)[0]

    play(app, act)


WORD = st.text("abc-=_/.{}[]$ '\"", min_size=1, max_size=12)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(WORD, min_size=1, max_size=12), st.integers(10, 80))
def test_folded_command_is_the_same_to_a_shell(words: list[str], width: int) -> None:
    command = shlex.join(words)
    assert shlex.split(fold(command, width).replace("\\\n", " ")) == words


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_title_bar_never_truncates_badge_and_price(width: int) -> None:
    places = ("my-project", "us-central1-b")
    state = TitleState("a-deployment-with-a-very-long-name", True, places, "", 1184.1, True)
    app = Stage(TitleBar(state))

    async def act(pilot: Pilot[None]) -> None:
        row = screen(app)[0]
        assert row.startswith(" REHEARSAL ") and row.rstrip().endswith("≥ 1,184.10 USD/h")
        assert len(row) == width

    play(app, act, (width, 24))


def test_ascii_mode_paints_only_ascii() -> None:
    rail, checks = Stepper(), Checks()
    title = TitleBar(TitleState("ü 日本", True, status="training"))
    app = Stage(title, rail, checks, CommandLine("x"), ascii_only=True)

    async def act(pilot: Pilot[None]) -> None:
        rail.show(ITEMS, "quotas")
        checks.show([CheckRow("a", "block", "„Zitat“ ≥ 3", "…", "→")])
        await pilot.pause()
        assert "\n".join(screen(app)).isascii() and "X block" in "\n".join(screen(app))

    play(app, act, (120, 40))


def test_no_color_paints_only_greys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    checks = Checks()
    app = Stage(checks)

    async def act(pilot: Pilot[None]) -> None:
        checks.show([CheckRow("a", "block", "x"), CheckRow("b", "warn", "y")])
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        styles = [segment.style for strip in strips for segment in strip if segment.style]
        colours = [c.triplet for style in styles for c in (style.color, style.bgcolor) if c and c.triplet]
        assert colours and all(max(triplet) - min(triplet) <= 2 for triplet in colours)

    play(app, act)


def test_lane_bar_lies_on_the_common_axis() -> None:
    assert timeline_bar(LaneState("a", "done", 0, 50), 100, 100, 10) == "━━━━━     "
    assert timeline_bar(LaneState("a", "work", 50), 70, 100, 10) == "     ━▶   "
    assert timeline_bar(LaneState("a"), 70, 100, 10) == " " * 10
    assert timeline_bar(LaneState("late", "work", 300), 300, 100, 10).strip() == "▶"
    times = [format_duration(seconds) for seconds in (0.4, 59.6, 547, 1860, 33_120)]
    assert times == ["0 s", "1 m 00 s", "9 m 07 s", "31 m", "9 h 12 m"]
    assert format_duration_range((2400, 4800)) == "40–80 m" and format_duration_range((20, 90)) == "20–90 s"


def test_widgets_import_no_sdk_and_no_numpy() -> None:
    code = (
        "import importlib, pkgutil, sys; import grpo_wizard.tui.widgets as w, grpo_wizard.tui.widgets.title_bar;"
        "[importlib.import_module(f'{w.__name__}.{m.name}') for m in pkgutil.iter_modules(w.__path__)];"
        "print(sorted({'google', 'kubernetes', 'ray', 'numpy', 'aiohttp', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
