"""No screen parses a log on the interface's loop, however large the log is."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from app_pilot import AppPilot, is_screen, run_async, run_wizard, shared_home, wait_until

from grpo_wizard.state.home import Home
from grpo_wizard.state.model import JobRecord
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.registry import validate
from grpo_wizard.steps.training.reader import LogReader
from grpo_wizard.tui.controllers.prefill import tutorial_answers
from grpo_wizard.tui.screens.monitor import MonitorScreen
from grpo_wizard.tui.screens.teardown import TeardownScreen
from grpo_wizard.tui.widgets.confirm import ConfirmDialog

__all__ = ["shared_home"]

NAME = "nemo-cluster"
FIXTURE = Path(__file__).parents[1] / "unit" / "fixtures" / "training" / "rl_loop.log"
CHECKPOINT = b"Saving checkpoint for step 4...\n"


@pytest.fixture
def parsed_in(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Bytes parsed by thread; parsing itself is unchanged."""
    counted, feed = Counter[int](), LogReader.feed

    def counting(reader: LogReader, data: bytes, at: float | None = None) -> Any:
        counted[threading.get_ident()] += len(data)
        return feed(reader, data, at)

    monkeypatch.setattr(LogReader, "feed", counting)
    return counted


def _deployment(home: Path) -> int:
    """A deployment whose job has written a megabyte; the size of its log."""
    store = StateStore(Home(home))
    deployment = store.create(NAME, "rehearsal", validate(tutorial_answers()).to_values())
    deployment.job = JobRecord(submission_id="grpo-1", parameters_hash="0", status="SUCCEEDED")
    store.save(deployment)
    head, results = FIXTURE.read_bytes().split(b"\n", 1)
    log = head + b"\n" + CHECKPOINT + results + b"(worker pid=1) waiting for the next batch\n" * 20_000
    Home(home).job_log_file(NAME).write_bytes(log)
    return len(log)


async def _look_at_teardown(pilot: AppPilot) -> None:
    pilot.app.show("teardown")  # type: ignore[attr-defined]
    await wait_until(pilot, lambda: is_screen(pilot, TeardownScreen), "Teardown")
    screen = pilot.app.screen
    assert isinstance(screen, TeardownScreen)
    await wait_until(pilot, lambda: screen.items is not None, "what is deleted")
    assert screen.checkpoint_steps == (4, 10)
    await pilot.press("k")
    await pilot.press("d")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog), "the question")
    await pilot.press("escape")
    await wait_until(pilot, lambda: is_screen(pilot, TeardownScreen), "Teardown again")


def test_teardown_opens_without_parsing_the_log_on_the_interfaces_loop(
    joined: Path, parsed_in: Counter[int]
) -> None:
    size = _deployment(joined)

    async def journey() -> None:
        async with run_wizard(joined, start=NAME) as pilot:
            await wait_until(pilot, lambda: pilot.app.controller is not None, "the deployment")  # type: ignore[attr-defined]
            await _look_at_teardown(pilot)
            pilot.app.show("review")  # type: ignore[attr-defined]
            await pilot.pause()
            await _look_at_teardown(pilot)

    run_async(journey)
    assert parsed_in[threading.get_ident()] == 0, "the interface's loop runs in this thread"
    assert sum(parsed_in.values()) == size, "once, and what was found is kept"


def test_monitor_of_a_destroyed_deployment_parses_its_log_beside_the_interface(
    joined: Path, parsed_in: Counter[int]
) -> None:
    size = _deployment(joined)

    async def journey() -> None:
        async with run_wizard(joined, start=NAME) as pilot:
            await wait_until(pilot, lambda: pilot.app.controller is not None, "the deployment")  # type: ignore[attr-defined]
            pilot.app.show("monitor")  # type: ignore[attr-defined]
            await wait_until(pilot, lambda: is_screen(pilot, MonitorScreen), "Monitor")
            screen = pilot.app.screen
            assert isinstance(screen, MonitorScreen)
            await wait_until(pilot, lambda: screen.snapshot.status == "GONE", "the last known data")
            assert [row.step for row in screen.snapshot.rows][:1] == [4]
            assert screen.snapshot.checkpoint_steps == (4, 10)

    run_async(journey)
    assert parsed_in[threading.get_ident()] == 0 and sum(parsed_in.values()) == size
