"""Drills by keys: a dialog in a rehearsal, its badge on every screen, a stock-out that is met, ended and got over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from screens import Drive, joined, on, play, run_ended, shown, until, wizard

from grpo_wizard.state.home import Home
from grpo_wizard.state.store import Store
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.emulator.drills import client
from grpo_wizard.steps.registry import NAMES
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.screens.command_palette import keys_of
from grpo_wizard.tui.screens.drills import DrillsBox
from grpo_wizard.tui.screens.home import OpeningScreen
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.run import RunScreen

__all__ = ["joined"]
POOL = "cluster.node_pool.gpu-pool"


async def _open(pilot: Drive) -> DrillsBox:
    await pilot.press("f8")
    await until(pilot, lambda: isinstance(pilot.app.screen, DrillsBox), "the dialog")
    box = pilot.app.screen
    assert isinstance(box, DrillsBox)
    await until(pilot, lambda: box.drills, "the drills")
    return box


async def _switch(pilot: Drive, *keys: str) -> None:
    """Opens the dialog, presses keys, waits for the answer, and leaves."""
    box = await _open(pilot)
    before = [drill["running"] for drill in box.drills]
    await pilot.press(*keys)
    await until(pilot, lambda: [d["running"] for d in box.drills] != before, "the drill to change")
    await pilot.press("escape")
    await until(pilot, lambda: not isinstance(pilot.app.screen, DrillsBox), "the screen below")


def test_a_stock_out_by_keys_is_met_and_got_over(joined: Path) -> None:
    store = Store(Home(joined))
    deployment = store.create("alpha", "rehearsal", {name: {} for name in NAMES})
    deployment.place = "review"
    store.save(deployment)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            await until(pilot, lambda: on(pilot, ReviewScreen), "Review")
            await _switch(pilot, "space")
            assert shown(pilot).startswith(" REHEARSAL · drill: stock-out ")
            review = pilot.app.screen
            assert isinstance(review, ReviewScreen)
            await until(pilot, lambda: not review.reason(), "Launch")
            await pilot.press("l")
            screen = await run_ended(pilot)
            assert [failure.id for failure in screen.story.failures] == [POOL]
            assert "zone us-central1-b has no machines of this type left" in shown(pilot)
            assert "drill: stock-out" in shown(pilot)
            await _switch(pilot, "e")
            assert "drill" not in shown(pilot).splitlines()[0]
            await pilot.press("r")
            await until(
                pilot,
                lambda: screen.story.things.get(POOL) and screen.story.things[POOL].sign in ("done", "kept"),
                "the pool",
            )
            app = pilot.app
            assert isinstance(app, Wizard) and isinstance(app.screen, RunScreen) and app.engine is not None
            await app.engine.pause()

    play(journey)


def test_an_expired_sign_in_is_said_on_review_and_on_teardown(joined: Path) -> None:
    store = Store(Home(joined))
    deployment = store.create("beta", "rehearsal", {name: {} for name in NAMES})
    deployment.place = "review"
    store.save(deployment)
    address = process.join(os.environ[process.URL], os.environ[process.TOKEN])
    client.begin(address, ["expired-credentials"])

    async def journey() -> None:
        async with wizard(joined, start="beta") as pilot:
            await until(pilot, lambda: on(pilot, ReviewScreen), "Review")
            login = "gcloud auth application-default"
            await until(pilot, lambda: login in shown(pilot), "the command that signs in")
            assert "the sign-in has expired" in shown(pilot) and "looking" not in shown(pilot)
            app = pilot.app
            assert isinstance(app, Wizard)
            app.go("teardown")
            await until(pilot, lambda: login in shown(pilot) and "✗" in shown(pilot), "the box")
            await pilot.press("escape")
            await until(pilot, lambda: "could not be looked at" in shown(pilot), "Teardown")

    try:
        play(journey)
    finally:
        client.end(address)


def test_a_drill_of_another_terminal_is_seen_and_several_are_counted(joined: Path) -> None:
    async def journey() -> None:
        async with wizard(joined) as pilot:
            await until(pilot, lambda: on(pilot, OpeningScreen), "the opening")
            address = process.join(os.environ[process.URL], os.environ[process.TOKEN])
            client.begin(address, ["head-lost", "image-gone"])
            await until(pilot, lambda: "REHEARSAL · 2 drills" in shown(pilot), "the badge")
            client.end(address)
            await until(pilot, lambda: "2 drills" not in shown(pilot), "no badge")

    play(journey)


@pytest.mark.parametrize("rehearse", [True, False])
def test_the_key_is_there_in_a_rehearsal_only(joined: Path, rehearse: bool) -> None:
    """In footer, help and palette, which are all drawn from the same bindings."""

    async def journey() -> None:
        async with wizard(joined, rehearse=rehearse) as pilot:
            await until(pilot, lambda: on(pilot, OpeningScreen), "the opening")
            await pilot.pause(0.3)
            assert ("f8" in [key for key, *_ in keys_of(pilot.app.screen)]) is rehearse
            assert ("f8 Drills" in shown(pilot)) is rehearse
            await pilot.press("f8")
            await pilot.pause(0.3)
            assert isinstance(pilot.app.screen, DrillsBox) is rehearse

    play(journey)
