"""Rehearsals by keyboard: from setup to rising rewards to destroy, failed runs, and runs of other processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest
from app_pilot import (
    AppPilot,
    is_screen,
    run_async,
    run_wizard,
    screen_text,
    shared_home,
    type_text,
    wait_for_run_end,
    wait_for_step,
    wait_until,
)
from emulator_server import start_emulator
from textual.containers import VerticalScroll
from textual.widgets import Static

from grpo_wizard.state.home import Home
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.lock import Lock
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.registry import STEP_NAMES
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.cli import main
from grpo_wizard.tui.screens.home import HomeScreen
from grpo_wizard.tui.screens.monitor import MonitorScreen
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.run import RunScreen
from grpo_wizard.tui.screens.step import StepScreen
from grpo_wizard.tui.screens.teardown import TeardownScreen
from grpo_wizard.tui.viewmodels.deployments import deployment_summary, is_busy
from grpo_wizard.tui.widgets.confirm import ConfirmDialog

__all__ = ["shared_home"]


async def _through_the_steps(pilot: AppPilot) -> None:
    for name in STEP_NAMES:
        await wait_for_step(pilot, name)
        await pilot.press("enter")
    await wait_until(pilot, lambda: is_screen(pilot, ReviewScreen), "Review")


async def _launch(pilot: AppPilot) -> None:
    review = pilot.app.screen
    assert isinstance(review, ReviewScreen)
    await wait_until(pilot, lambda: not review.launch_blocker(), "Launch to be enabled")
    await pilot.press("l")
    await wait_until(pilot, lambda: is_screen(pilot, RunScreen), "Run")


async def _tear_down(pilot: AppPilot, name: str, staying: str = "") -> None:
    await pilot.press("t")
    await wait_until(pilot, lambda: is_screen(pilot, TeardownScreen), "Teardown")
    screen = pilot.app.screen
    assert isinstance(screen, TeardownScreen)
    await wait_until(pilot, lambda: screen.items is not None, "what goes and what stays")
    stays = str(screen.query_one("#kept Static", Static).content)
    assert staying in stays and "other workloads may use it" in stays
    await pilot.press("d")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog), "the question for the name")
    await type_text(pilot, name)
    await pilot.press("enter")
    await wait_for_run_end(pilot)


def _left(home: Path) -> list[str]:
    """Existing resources that are neither kept by design nor created by controllers."""
    address = process.find(home)
    assert address is not None
    return [
        f"{row['kind']} {row['name']}"
        for row in process.list_resources(address)
        if not row["kept_by_design"] and not row["derived"]
    ]


def test_lifecycle_from_setup_to_rising_rewards_to_destroy(tmp_path: Path) -> None:
    home = start_emulator(tmp_path / "home", ray="real").home

    async def journey() -> None:
        async with run_wizard(home, start="rehearsal", create=True) as pilot:
            await _through_the_steps(pilot)
            await _launch(pilot)
            screen = await wait_for_run_end(pilot, 240)
            assert screen.progress.ok, screen.progress.failures
            await pilot.press("m")
            await wait_until(pilot, lambda: is_screen(pilot, MonitorScreen), "Monitor")
            monitor = pilot.app.screen
            assert isinstance(monitor, MonitorScreen)
            await wait_until(pilot, lambda: monitor.snapshot.ended, "the end of the job", 240)
            assert monitor.snapshot.status == "SUCCEEDED"
            rewards = monitor.snapshot.values("avg_reward")
            assert len(rewards) == 10
            assert sum(rewards[-3:]) >= 2 * sum(rewards[:3]), rewards
            assert "rising" in screen_text(pilot)
            assert "REHEARSAL" in screen_text(pilot)
            await _tear_down(pilot, "rehearsal")
            assert "no resources left" in screen_text(pilot)
        assert _left(home) == []

    try:
        run_async(journey)
    finally:
        process.stop(home)


def test_failed_run_shows_the_cause_and_retry_resumes(tmp_path: Path) -> None:
    """A subnet's operation fails once; its dependents are not started; the second run creates the rest."""
    faults = tmp_path / "faults.json"
    error = {
        "errors": [
            {"code": "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "message": "The range is used by another subnet."}
        ]
    }
    faults.write_text(
        json.dumps(
            [
                {
                    "match": {
                        "service": "compute.googleapis.com",
                        "method": "POST",
                        "path": "*/subnetworks",
                        "nth": 2,
                    },
                    "do": {"operation_error": error},
                }
            ]
        )
    )
    home = start_emulator(tmp_path / "home", ray="none", faults=faults).home

    async def journey() -> None:
        async with run_wizard(home, start="rehearsal", create=True) as pilot:
            app = pilot.app
            assert isinstance(app, Wizard)
            await wait_for_step(pilot, "project")
            await pilot.press("enter")
            app.show("review")
            await wait_until(pilot, lambda: is_screen(pilot, ReviewScreen), "Review")
            await _launch(pilot)
            screen = await wait_for_run_end(pilot)
            assert not screen.progress.ok
            text = screen_text(pilot)
            assert "Failed" in text and "used by another subnet" in text and "r Try again" in text
            await pilot.press("r")
            await wait_until(
                pilot,
                lambda: (
                    app.engine is not None
                    and any(
                        thing.id.startswith("raycluster.raycluster") and thing.status in ("work", "done")
                        for thing in app.engine.progress.resources.values()
                    )
                ),
                "the RayCluster, which hangs on that subnet",
                120,
            )
            lane = next(
                lane for lane in app.engine.progress.lanes(app.clock()) if "network resources" in lane.title
            )  # type: ignore[union-attr]
            assert lane.status == "done"
            await pilot.press("q")
            await pilot.press("down", "enter")  # pause
            await wait_until(pilot, lambda: not app.is_running, "the end of the wizard")

    try:
        run_async(journey)
        assert Home(home).deployments() == ["rehearsal"]
        with Lock(Home(home), "rehearsal", "test"):
            pass  # the wizard has released it
    finally:
        process.stop(home)


def test_destroy_keeps_adopted_resources(tmp_path: Path) -> None:
    server = start_emulator(tmp_path / "home", ray="none")
    try:
        server.enable("compute.googleapis.com")
        network = {"name": "nemo-net", "autoCreateSubnetworks": True}
        status, answer = server.call("POST", "/compute/v1/projects/my-project/global/networks", network)
        assert status == 200, answer
        common = ["--rehearse", "--home", str(server.home), "--speed", "max"]
        answers = files("grpo_wizard.assets").joinpath("answers-tutorial.toml")
        assert main(["init", *common, "--deployment", "alpha", "--answers", str(answers)]) == 0
        assert main(["apply", *common, "--yes", "--adopt", "--until", "networks"]) == 0

        async def journey() -> None:
            async with run_wizard(server.home, start="alpha") as pilot:
                await wait_until(pilot, lambda: is_screen(pilot, RunScreen), "Run, where it was left")
                await pilot.pause(0.6)
                await _tear_down(pilot, "alpha", "nemo-net")
                assert "no resources left" in screen_text(pilot)

        run_async(journey)
        assert {name for name in _left(server.home) if "subnet" not in name} == {"network nemo-net"}
    finally:
        process.stop(server.home)


def _telling(home: Home, name: str) -> Callable[..., None]:
    """Return a function that writes events into the deployment's journal, dated `second` seconds from now."""
    journal, begin = Journal(home.journal_file(name)), datetime.now(UTC)

    def tell(event: str, second: int, **data: object) -> None:
        at = (begin + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        journal.append({"event": event, "time": at, **data})

    return tell


_NET = {"id": "networks.network.nemo-net", "action": "create"}


def _alpha(joined: Path) -> Home:
    home = Home(joined)
    StateStore(home).create(
        "alpha", "rehearsal", {"project": {"project_id": "my-project"}, "quotas": {"reservation": "nemo-res"}}
    )
    return home


def test_run_screen_follows_another_process(joined: Path) -> None:
    home = _alpha(joined)

    async def journey() -> None:
        with Lock(home, "alpha", "grpo-wizard apply --yes"):
            tell = _telling(home, "alpha")
            tell("plan", 0, resources=[_NET | {"needs": []}])
            tell("resource_started", 1, **_NET, title="create")
            async with run_wizard(joined, start="alpha") as pilot:
                await wait_until(
                    pilot, lambda: is_screen(pilot, RunScreen) and "working" in screen_text(pilot), "its lane"
                )
                tell("resource_done", 9, **_NET, seconds=8.0)
                tell("summary", 10, ok=True, failed=[])
                await wait_until(pilot, lambda: "done" in screen_text(pilot), "the lane's end")
                await pilot.press("escape")
                await wait_until(pilot, lambda: is_screen(pilot, HomeScreen), "the deployments")

    run_async(journey)


@pytest.mark.parametrize("ok", [True, False], ids=["finished", "failed"])
def test_open_but_idle_wizard_is_not_shown_as_working(ok: bool, joined: Path) -> None:
    """The first wizard keeps the lock after its run; the second shows who holds it, and how the run ended."""
    home = _alpha(joined)

    async def journey() -> None:
        with Lock(home, "alpha", "grpo-wizard"):
            tell = _telling(home, "alpha")
            tell("plan", 0, resources=[_NET | {"needs": []}])
            tell("resource_started", 1, **_NET, title="create")
            async with run_wizard(joined, start="alpha") as pilot:
                await wait_until(
                    pilot, lambda: is_screen(pilot, RunScreen) and "working" in screen_text(pilot), "its lane"
                )
                assert deployment_summary(home, "alpha", 0.0).status == "work"
                if ok:
                    tell("resource_done", 9, **_NET, seconds=8.0)
                else:
                    tell("resource_failed", 9, **_NET, title="no room", detail="", fix="", command="")
                tell("summary", 10, ok=ok, failed=[])
                await wait_until(
                    pilot, lambda: "open in grpo-wizard (process" in screen_text(pilot), "who has it"
                )
                assert "working" not in screen_text(pilot)
                assert ("✓ done" if ok else "✗ failed") in screen_text(pilot)
                assert "Try again" not in screen_text(pilot)
                assert deployment_summary(home, "alpha", 0.0).status != "work"

    run_async(journey)


def test_run_log_follows_its_end_with_long_lines(joined: Path) -> None:
    """Also the last line; scrolling up stops following, and End resumes it."""
    home = _alpha(joined)
    rows = [f"cluster.node_pool.pool-{n}" for n in range(12)]

    async def journey() -> None:
        with Lock(home, "alpha", "grpo-wizard destroy"):
            tell = _telling(home, "alpha")
            tell("plan", 0, resources=[{"id": id, "action": "delete", "state": "ready"} for id in rows])
            async with run_wizard(joined, start="alpha") as pilot:
                await wait_until(
                    pilot, lambda: is_screen(pilot, RunScreen) and "alpha" in screen_text(pilot), "Run"
                )
                for n, id in enumerate(rows):
                    tell("notice", n, id=id, detail=f"this goes slowly, {'and on ' * 20}END{n}")
                await wait_until(pilot, lambda: "END11" in screen_text(pilot), "the end of the newest line")
                box = pilot.app.screen.query_one("#run-log", VerticalScroll)
                box.scroll_to(y=0, animate=False)
                await wait_until(
                    pilot, lambda: "END0" in screen_text(pilot), "the first line, after scrolling up"
                )
                tell("resource_done", 20, id=rows[0], action="delete")
                await pilot.pause(1.2)
                assert "END0" in screen_text(pilot) and "deleted" not in _shown_log(pilot)
                box.focus()
                await pilot.press("end")
                await wait_until(pilot, lambda: "deleted" in _shown_log(pilot), "the newest line again")
                tell("summary", 21, ok=True, failed=[], next="nothing left")
                await wait_until(pilot, lambda: "run succeeded" in _shown_log(pilot), "the last line of all")

    run_async(journey)


def _shown_log(pilot: AppPilot) -> str:
    return screen_text(pilot).partition(" Log ")[2]


def test_plan_of_a_killed_process_does_not_make_a_wizard_busy(
    joined: Path,
) -> None:
    """A killed run has no summary; the current holder of the lock did not start it."""
    home = _alpha(joined)
    tell = _telling(home, "alpha")
    tell("plan", -60, resources=[_NET | {"needs": []}])
    tell("resource_started", -59, **_NET, title="create")
    with Lock(home, "alpha", "grpo-wizard"):
        assert not is_busy(home, "alpha")
    with Lock(home, "alpha", "grpo-wizard apply --yes"):
        assert is_busy(home, "alpha"), "a command looks before it plans"
    assert not is_busy(home, "alpha")


@pytest.mark.parametrize("key", ["n", "r"])
def test_new_deployment_requires_an_unused_name(key: str, joined: Path) -> None:
    StateStore(Home(joined)).create("alpha", "rehearsal", {})

    async def journey() -> None:
        async with run_wizard(joined) as pilot:
            await wait_until(
                pilot, lambda: is_screen(pilot, HomeScreen) and "alpha" in screen_text(pilot), "the list"
            )
            await pilot.press(key)
            await wait_until(pilot, lambda: "A local name" in screen_text(pilot), "the question")
            await pilot.press("end", "ctrl+u", *"alpha")
            assert "already exists" in screen_text(pilot)
            await pilot.press("enter")
            assert "A local name" in screen_text(pilot)
            await pilot.press("2")
            await pilot.press("enter")
            await wait_until(pilot, lambda: is_screen(pilot, StepScreen, "project"), "step 1")
            assert StateStore(Home(joined)).load("alpha2").mode == ("rehearsal" if key == "r" else "real")

    run_async(journey)
