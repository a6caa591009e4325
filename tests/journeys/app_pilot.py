"""Helpers that drive the app in tests: waiting for conditions, typing, and a home folder on a shared emulator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from grpo_wizard.state.home import Home
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.screens.run import RunScreen
from grpo_wizard.tui.screens.step import StepScreen

SIZE = (80, 24)
TIMEOUT_S = 60.0
AppPilot = Pilot[int]


async def wait_until(
    pilot: AppPilot, condition: Callable[[], object], what: str, timeout: float = TIMEOUT_S
) -> None:
    """Wait until `condition()` is true. On a timeout, raise AssertionError with the text of the screen."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(
                f"waited {timeout:.0f} s for {what}; the screen shows:\n{screen_text(pilot)}"
            )
        await pilot.pause(0.05)
    await pilot.pause()


def screen_text(pilot: AppPilot) -> str:
    """The screen's text, line by line."""
    lines = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in lines)


def is_screen(pilot: AppPilot, kind: type[Screen[None]], place: str = "") -> bool:
    """Whether this screen (and step) is current and mounted."""
    screen = pilot.app.screen
    return (
        isinstance(screen, kind)
        and screen.is_mounted
        and (not place or getattr(screen, "screen_name", "") == place)
    )


async def wait_for_step(pilot: AppPilot, name: str) -> StepScreen:
    """Wait for a step's screen, and for the results of its checks."""
    await wait_until(pilot, lambda: is_screen(pilot, StepScreen, name), f"step {name}")
    screen = pilot.app.screen
    assert isinstance(screen, StepScreen)
    await wait_until(pilot, lambda: screen.checks.is_settled, f"the checks of {name}")
    return screen


async def wait_for_run_end(pilot: AppPilot, timeout: float = 120.0) -> RunScreen:
    """Wait for the Run screen and the end of its run."""
    await wait_until(pilot, lambda: is_screen(pilot, RunScreen), "Run")
    screen = pilot.app.screen
    assert isinstance(screen, RunScreen)
    app = pilot.app
    assert isinstance(app, Wizard)
    await wait_until(
        pilot, lambda: app.engine is not None and not app.engine.is_running, "the end of the run", timeout
    )
    await wait_until(pilot, lambda: screen.finished, "its summary")
    return screen


async def type_text(pilot: AppPilot, text: str) -> None:
    """Type a text key by key."""
    for char in text:
        await pilot.press(
            {" ": "space", "-": "minus", "_": "underscore", "/": "slash", ".": "full_stop"}.get(char, char)
        )


@asynccontextmanager
async def run_wizard(home: Path, **options: object) -> AsyncIterator[AppPilot]:
    """Run the app without a terminal at 80 by 24."""
    app = Wizard(Home(home), preload=False, **{"speed": "max", "rehearse": True, **options})  # type: ignore[arg-type]
    async with app.run_test(size=SIZE) as pilot:
        yield pilot


def run_async(journey: Callable[[], Awaitable[None]]) -> None:
    """Run a journey in an event loop of its own."""
    asyncio.run(journey())  # type: ignore[arg-type]


@pytest.fixture(name="joined")
def shared_home(shared_rehearsal: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home folder of its own whose rehearsals use the module's emulator."""
    for name, value in shared_rehearsal.address.env.items():  # type: ignore[attr-defined]
        if name.startswith("GRPO_WIZARD_REHEARSAL"):
            monkeypatch.setenv(name, value)
    home = tmp_path / "home"
    home.mkdir()
    return home
