"""Leaving while something is going on: one question, by every key, and none any more when it has ended meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from screens import Drive, joined, on, play, shown, until, wizard

from grpo_wizard.state.home import Home
from grpo_wizard.state.store import Store
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.registry import complete
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.controllers.engine_runner import EngineRun
from grpo_wizard.tui.controllers.prefill import tutorial
from grpo_wizard.tui.screens.dialogs import Choose
from grpo_wizard.tui.screens.run import RunScreen

__all__ = ["joined"]


async def _at_run(pilot: Drive, end: threading.Event) -> Wizard:
    """The Run screen with a run that ends when `end` is set."""
    app = pilot.app
    assert isinstance(app, Wizard)
    await until(pilot, lambda: app.desk is not None and len(app.screen_stack) > 2, "the deployment")
    assert app.desk is not None

    async def make(session: Session) -> AsyncIterator[Event]:
        yield Event("plan", None, {"resources": []})
        await asyncio.to_thread(end.wait, 60)
        yield Event("summary", None, {"ok": True, "failed": [], "next": "status"})

    app.engine = EngineRun(app.desk, ["apply", "--yes"])
    await app.engine.start(make)
    app.go("run")
    await until(pilot, lambda: on(pilot, RunScreen), "Run")
    return app


def _asked(pilot: Drive) -> int:
    return sum(isinstance(screen, Choose) for screen in pilot.app.screen_stack)


def test_ctrl_c_asks_what_q_asks_and_the_question_goes_when_the_run_has_ended(joined: Path) -> None:
    Store(Home(joined)).create("alpha", "rehearsal", complete(tutorial()))
    end = threading.Event()

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            app = await _at_run(pilot, end)
            for key in ("ctrl+c", "q"):
                await pilot.press(key)
                await until(pilot, lambda: _asked(pilot) == 1, f"the question after {key}")
                assert "Leave?" in shown(pilot) and not len(app._notifications)
                await pilot.press("ctrl+c", "ctrl+q")
                await pilot.pause(0.2)
                assert _asked(pilot) == 1, "it is asked once"
                await pilot.press("escape")
                await until(pilot, lambda: _asked(pilot) == 0, "the end of the question")
            await pilot.press("ctrl+c")
            await until(pilot, lambda: _asked(pilot) == 1, "the question")
            await pilot.pause(0.7)
            assert _asked(pilot) == 1, "as long as it goes on, the question stands"
            end.set()
            await until(pilot, lambda: _asked(pilot) == 0, "no question any more")
            assert app.is_running and on(pilot, RunScreen)
            assert any("has ended" in notice.message for notice in app._notifications)
            await pilot.press("ctrl+c")
            await until(pilot, lambda: not app.is_running, "the end of the wizard")

    try:
        play(journey)
    finally:
        end.set()
