"""Drills by keyboard: the dialog, the badge on every screen, and a stock-out that fails a run and is turned off."""

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


def _unwrapped(pilot: AppPilot) -> str:
    """The screen's text on one line, so that a sentence is found wherever it wraps."""
    return " ".join(screen_text(pilot).split())


async def _open(pilot: AppPilot) -> DrillsDialog:
    await pilot.press("f8")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, DrillsDialog), "the dialog")
    box = pilot.app.screen
    assert isinstance(box, DrillsDialog)
    await wait_until(pilot, lambda: box.drills, "the drills")
    return box


async def _switch(pilot: AppPilot, *keys: str) -> None:
    """Open the dialog, press keys, wait for the drill to change, and close it."""
    box = await _open(pilot)
    before = [drill["running"] for drill in box.drills]
    await pilot.press(*keys)
    await wait_until(pilot, lambda: [d["running"] for d in box.drills] != before, "the drill to change")
    await pilot.press("escape")
    await wait_until(pilot, lambda: not isinstance(pilot.app.screen, DrillsDialog), "the screen below")


def test_stock_out_drill_fails_the_run_and_retry_succeeds_after_it_ends(joined: Path) -> None:
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
            assert "Zone us-central1-b has no capacity for this machine type" in _unwrapped(pilot)
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


def test_expired_credentials_are_reported_on_review_and_destroy(joined: Path) -> None:
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
            await wait_until(pilot, lambda: login in _unwrapped(pilot), "the command that signs in")
            assert "Your sign-in has expired" in screen_text(pilot)
            assert "reading cloud resources" not in screen_text(pilot)
            app = pilot.app
            assert isinstance(app, Wizard)
            app.show("teardown")
            await wait_until(
                pilot, lambda: login in _unwrapped(pilot) and "✗" in screen_text(pilot), "the box"
            )
            await pilot.press("escape")
            await wait_until(pilot, lambda: "could not be read" in screen_text(pilot), "Destroy")

    try:
        run_async(journey)
    finally:
        client.end(address)


def test_title_shows_drills_started_in_another_terminal(joined: Path) -> None:
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
def test_drills_key_exists_in_a_rehearsal_only(joined: Path, rehearse: bool) -> None:
    """In footer, help and palette, which are built from the same bindings."""

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
