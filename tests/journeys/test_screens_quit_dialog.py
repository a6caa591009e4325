"""Quitting during a run: every key opens the same dialog once, and it closes when the run ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from app_pilot import AppPilot, is_screen, run_async, run_wizard, screen_text, shared_home, wait_until

from grpo_wizard.state.home import Home
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.registry import validate
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.controllers.engine_runner import EngineRunner
from grpo_wizard.tui.controllers.prefill import tutorial_answers
from grpo_wizard.tui.screens.dialogs import ChoiceDialog
from grpo_wizard.tui.screens.run import RunScreen

__all__ = ["shared_home"]


async def _at_run(pilot: AppPilot, end: threading.Event) -> Wizard:
    """Open the Run screen with a run that ends when `end` is set."""
    app = pilot.app
    assert isinstance(app, Wizard)
    await wait_until(
        pilot, lambda: app.controller is not None and len(app.screen_stack) > 2, "the deployment"
    )
    assert app.controller is not None

    async def make(session: Session) -> AsyncIterator[Event]:
        yield Event("plan", None, {"resources": []})
        await asyncio.to_thread(end.wait, 60)
        yield Event("summary", None, {"ok": True, "failed": [], "next": "status"})

    app.engine = EngineRunner(app.controller, ApplyOptions())
    await app.engine.start(make)
    app.show("run")
    await wait_until(pilot, lambda: is_screen(pilot, RunScreen), "Run")
    return app


def _asked(pilot: AppPilot) -> int:
    return sum(isinstance(screen, ChoiceDialog) for screen in pilot.app.screen_stack)


def test_ctrl_c_opens_the_quit_dialog_which_closes_when_the_run_ends(joined: Path) -> None:
    StateStore(Home(joined)).create("alpha", "rehearsal", validate(tutorial_answers()).to_values())
    end = threading.Event()

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            app = await _at_run(pilot, end)
            for key in ("ctrl+c", "q"):
                await pilot.press(key)
                await wait_until(pilot, lambda: _asked(pilot) == 1, f"the question after {key}")
                assert "Quit?" in screen_text(pilot) and not len(app._notifications)
                await pilot.press("ctrl+c", "ctrl+q")
                await pilot.pause(0.2)
                assert _asked(pilot) == 1, "it is asked once"
                await pilot.press("escape")
                await wait_until(pilot, lambda: _asked(pilot) == 0, "the end of the question")
            await pilot.press("ctrl+c")
            await wait_until(pilot, lambda: _asked(pilot) == 1, "the question")
            await pilot.pause(0.7)
            assert _asked(pilot) == 1, "as long as it goes on, the question stands"
            end.set()
            await wait_until(pilot, lambda: _asked(pilot) == 0, "no question any more")
            assert app.is_running and is_screen(pilot, RunScreen)
            assert any("has finished" in notice.message for notice in app._notifications)
            await pilot.press("ctrl+c")
            await wait_until(pilot, lambda: not app.is_running, "the end of the wizard")

    try:
        run_async(journey)
    finally:
        end.set()
