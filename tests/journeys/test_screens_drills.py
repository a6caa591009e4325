"""Drills by keys: a dialog in a rehearsal, its badge on every screen, a stock-out that is met, ended and got over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from app_pilot import (
    AppPilot,
    is_screen,
    run_async,
    run_wizard,
    screen_text,
    shared_home,
    wait_for_run_end,
    wait_until,
)

from grpo_wizard.state.home import Home
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.emulator.drills import client
from grpo_wizard.steps.registry import STEP_NAMES
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.screens.command_palette import active_keys
from grpo_wizard.tui.screens.drills import DrillsDialog
from grpo_wizard.tui.screens.home import HomeScreen
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.run import RunScreen

__all__ = ["shared_home"]
POOL = "cluster.node_pool.gpu-pool"


async def _open(pilot: AppPilot) -> DrillsDialog:
    await pilot.press("f8")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, DrillsDialog), "the dialog")
    box = pilot.app.screen
    assert isinstance(box, DrillsDialog)
    await wait_until(pilot, lambda: box.drills, "the drills")
    return box


async def _switch(pilot: AppPilot, *keys: str) -> None:
    """Opens the dialog, presses keys, waits for the answer, and leaves."""
    box = await _open(pilot)
    before = [drill["running"] for drill in box.drills]
    await pilot.press(*keys)
    await wait_until(pilot, lambda: [d["running"] for d in box.drills] != before, "the drill to change")
    await pilot.press("escape")
    await wait_until(pilot, lambda: not isinstance(pilot.app.screen, DrillsDialog), "the screen below")


def test_a_stock_out_by_keys_is_met_and_got_over(joined: Path) -> None:
    store = StateStore(Home(joined))
    deployment = store.create("alpha", "rehearsal", {name: {} for name in STEP_NAMES})
    deployment.place = "review"
    store.save(deployment)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            await wait_until(pilot, lambda: is_screen(pilot, ReviewScreen), "Review")
            await _switch(pilot, "space")
            assert screen_text(pilot).startswith(" REHEARSAL · drill: stock-out ")
            review = pilot.app.screen
            assert isinstance(review, ReviewScreen)
            await wait_until(pilot, lambda: not review.launch_blocker(), "Launch")
            await pilot.press("l")
            screen = await wait_for_run_end(pilot)
            assert [failure.id for failure in screen.progress.failures] == [POOL]
            assert "zone us-central1-b has no machines of this type left" in screen_text(pilot)
            assert "drill: stock-out" in screen_text(pilot)
            await _switch(pilot, "e")
            assert "drill" not in screen_text(pilot).splitlines()[0]
            await pilot.press("r")
            await wait_until(
                pilot,
                lambda: (
                    screen.progress.resources.get(POOL)
                    and screen.progress.resources[POOL].status in ("done", "kept")
                ),
                "the pool",
            )
            app = pilot.app
            assert isinstance(app, Wizard) and isinstance(app.screen, RunScreen) and app.engine is not None
            await app.engine.pause()

    run_async(journey)


def test_an_expired_sign_in_is_said_on_review_and_on_teardown(joined: Path) -> None:
    store = StateStore(Home(joined))
    deployment = store.create("beta", "rehearsal", {name: {} for name in STEP_NAMES})
    deployment.place = "review"
    store.save(deployment)
    address = process.connect(os.environ[process.URL_ENV], os.environ[process.TOKEN_ENV])
    client.begin(address, ["expired-credentials"])

    async def journey() -> None:
        async with run_wizard(joined, start="beta") as pilot:
            await wait_until(pilot, lambda: is_screen(pilot, ReviewScreen), "Review")
            login = "gcloud auth application-default"
            await wait_until(pilot, lambda: login in screen_text(pilot), "the command that signs in")
            assert "the sign-in has expired" in screen_text(pilot) and "looking" not in screen_text(pilot)
            app = pilot.app
            assert isinstance(app, Wizard)
            app.show("teardown")
            await wait_until(
                pilot, lambda: login in screen_text(pilot) and "✗" in screen_text(pilot), "the box"
            )
            await pilot.press("escape")
            await wait_until(pilot, lambda: "could not be looked at" in screen_text(pilot), "Teardown")

    try:
        run_async(journey)
    finally:
        client.end(address)


def test_a_drill_of_another_terminal_is_seen_and_several_are_counted(joined: Path) -> None:
    async def journey() -> None:
        async with run_wizard(joined) as pilot:
            await wait_until(pilot, lambda: is_screen(pilot, HomeScreen), "the opening")
            address = process.connect(os.environ[process.URL_ENV], os.environ[process.TOKEN_ENV])
            client.begin(address, ["head-lost", "image-gone"])
            await wait_until(pilot, lambda: "REHEARSAL · 2 drills" in screen_text(pilot), "the badge")
            client.end(address)
            await wait_until(pilot, lambda: "2 drills" not in screen_text(pilot), "no badge")

    run_async(journey)


@pytest.mark.parametrize("rehearse", [True, False])
def test_the_key_is_there_in_a_rehearsal_only(joined: Path, rehearse: bool) -> None:
    """In footer, help and palette, which are all drawn from the same bindings."""

    async def journey() -> None:
        async with run_wizard(joined, rehearse=rehearse) as pilot:
            await wait_until(pilot, lambda: is_screen(pilot, HomeScreen), "the opening")
            await pilot.pause(0.3)
            assert ("f8" in [key for key, *_ in active_keys(pilot.app.screen)]) is rehearse
            assert ("f8 Drills" in screen_text(pilot)) is rehearse
            await pilot.press("f8")
            await pilot.pause(0.3)
            assert isinstance(pilot.app.screen, DrillsDialog) is rehearse

    run_async(journey)
