"""The spending limit of a real deployment in every front end: the same prices, the same figures, the same refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest
from app_pilot import AppPilot, is_screen, run_async, run_wizard, screen_text, wait_until
from cli_harness import clean_environment
from real_mode import NAME, TWO_SKUS, RealMode, real_mode
from textual.widgets import Static

from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.tui.cli import main
from grpo_wizard.tui.controllers.launch import launch
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.teardown import TeardownScreen

HOURS = 5
GPUS = 2 * 8 * 10.0  # USD an hour: two nodes of eight B200
KNOWN = GPUS + 5.34 + 18000 * 0.34 / 730  # with the CPU nodes, the cluster's fee, and Lustre
SPENT = HOURS * KNOWN


def _json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> list[dict[str, Any]]:
    """Run a command in this process; its JSON lines."""
    ended = main(words)
    out = capsys.readouterr().out
    assert ended == code, out[-3000:]
    return [json.loads(line) for line in out.splitlines()]


def _usd(text: str) -> float:
    """The first figure in front of `of`, in `Spending limit reached: 868.60 of 100.00 USD has been spent`."""
    return float(text.partition(": ")[2].partition(" of ")[0])


def test_commands_count_the_gpus_and_destroy_books_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with real_mode(tmp_path / "home", monkeypatch, TWO_SKUS) as real:
        _enable_all(real)
        store = real.create(project__max_usd=100)
        real.record_everything_created(store, HOURS)
        home = ("--home", str(real.home))
        failed = _json(capsys, "apply", "--yes", "--json", *home, code=1)[-1]["failed"]
        assert [entry["id"] for entry in failed] == ["price"]
        assert _usd(failed[0]["title"]) == pytest.approx(SPENT, rel=0.01)
        assert real.catalog_requests() == 1
        [status] = _json(capsys, "status", "--json", *home)
        assert status["spent_usd"]["known"] == pytest.approx(SPENT, rel=0.01)
        summary = _json(capsys, "destroy", "--confirm", NAME, "--json", *home)[-1]
        assert summary["ok"] and store.load(NAME).spent_usd == pytest.approx(SPENT, rel=0.01)
        assert real.catalog_requests() == 1, "prices are kept for a day"


def test_commands_refuse_a_limit_that_they_cannot_enforce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with real_mode(tmp_path / "home", monkeypatch) as real:
        real.create(project__max_usd=100, grpo__model="Qwen/Qwen2.5-32B")  # needs no token
        home = ("--home", str(real.home))
        assert main(["plan", *home]) == 0
        out = capsys.readouterr().out
        assert "The spending limit cannot be enforced because no price is known for node pool gpu-pool" in out
        until_cluster = ("apply", "--yes", "--json", "--until", "cluster", *home)
        before = len(real.server.recorded_requests())
        ended = _json(capsys, *until_cluster, code=1)[-1]  # creates the APIs, which the catalog may need
        assert ended["created"] > 0 and "cannot be enforced" in ended["failed"][0]["title"], ended
        ended = _json(capsys, *until_cluster, code=1)[-1]
        assert ended["created"] == 0 and "cannot be enforced" in ended["failed"][0]["title"], ended
        billed = ("networks", "subnetworks", "clusters", "instances", "addresses")
        for row in real.server.recorded_requests()[before:]:
            assert row["method"] == "GET" or not row["path"].endswith(billed), row["path"]
        hourly = ("--max-usd-per-hour", "500")
        assert main(["init", "--set", "project.max_usd=0", *home]) == 0
        capsys.readouterr()
        failed = _json(capsys, "apply", "--yes", "--json", *hourly, *home, code=1)[-1]["failed"]
        assert "cannot be enforced" in failed[0]["title"] and "--skip-checks" in failed[0]["fix"]


def _review(pilot: AppPilot) -> ReviewScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ReviewScreen)
    return screen


async def _open_review(pilot: AppPilot) -> ReviewScreen:
    await wait_until(pilot, lambda: pilot.app.controller is not None, "the deployment")  # type: ignore[attr-defined]
    pilot.app.show("review")  # type: ignore[attr-defined]
    await wait_until(pilot, lambda: is_screen(pilot, ReviewScreen), "Review")
    review = _review(pilot)
    await wait_until(pilot, lambda: review.decisions is not None, "the plan")
    return review


def test_the_wizard_stops_at_the_limit_that_gpus_have_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with real_mode(tmp_path / "home", monkeypatch, TWO_SKUS) as real:
        _enable_all(real)
        real.record_everything_created(real.create(project__max_usd=100), HOURS)

        async def journey() -> None:
            async with run_wizard(real.home, rehearse=False, speed=None, start=NAME) as pilot:
                review = await _open_review(pilot)
                review.options.skip_checks, review.options.adopt = True, True
                await wait_until(
                    pilot,
                    lambda: (
                        "Spending limit reached" in review.launch_blocker()
                        and _usd(review.launch_blocker()) == pytest.approx(SPENT, rel=0.01)
                    ),
                    "the limit at today's prices",
                )
                review.draw()
                await pilot.pause()
                price = str(review.query_one("#bottom", Static).content).partition("\n")[0]
                assert f"{KNOWN:.2f} USD/h" in price and "unknown" not in price and "+" not in price
                title = screen_text(pilot).partition("\n")[0]
                assert f" {KNOWN:.2f} USD/h" in title and "≥" not in title and "spent 8" in title

        run_async(journey)


def test_the_wizards_own_launch_counts_the_gpus_without_review(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine reads prices itself, so that no way into it is blind."""
    with real_mode(tmp_path / "home", monkeypatch, TWO_SKUS) as real:
        _enable_all(real)
        real.record_everything_created(real.create(project__max_usd=100), HOURS)

        async def journey() -> None:
            async with run_wizard(real.home, rehearse=False, speed=None, start=NAME) as pilot:
                await wait_until(pilot, lambda: pilot.app.controller is not None, "the deployment")  # type: ignore[attr-defined]
                await launch(pilot.app, ApplyOptions(skip_checks=True))  # type: ignore[arg-type]
                engine = pilot.app.engine  # type: ignore[attr-defined]
                await wait_until(pilot, lambda: not engine.is_running, "the end of the run")
                await wait_until(pilot, lambda: engine.progress.summary is not None, "its summary")
                [failure] = engine.progress.summary["failed"]
                assert failure["id"] == "price" and _usd(failure["title"]) == pytest.approx(SPENT, rel=0.01)

        run_async(journey)


def test_the_wizard_refuses_a_limit_that_it_cannot_enforce_unless_the_user_accepts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with real_mode(tmp_path / "home", monkeypatch) as real:
        real.create(project__max_usd=100)
        _enable_all(real)

        async def journey() -> None:
            async with run_wizard(real.home, rehearse=False, speed=None, start=NAME) as pilot:
                review = await _open_review(pilot)
                assert any(row.title == "Spending" and row.status == "block" for row in review._rows)
                review.check_results = []  # whatever else blocks in this project
                assert "cannot be enforced" in review.launch_blocker()
                assert any(row.key == "anyway" for row in review._rows)
                review.options.skip_checks = True
                assert review.launch_blocker() == ""
                review.draw()
                assert any(
                    row.title == "Spending" and row.status == "warn" and "known prices only" in row.body
                    for row in review._rows
                )

        run_async(journey)


def _enable_all(real: RealMode) -> None:
    from grpo_wizard.steps.project.permissions import APIS

    real.server.enable(*APIS)


def test_teardown_says_what_is_billed_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with real_mode(tmp_path / "home", monkeypatch, TWO_SKUS) as real:
        store = real.create(project__ownership_marks=False)
        _enable_all(real)
        assert main(["apply", "--yes", "--skip-checks", "--until", "lustre", "--home", str(real.home)]) == 0
        deployment = store.load(NAME)
        for record in deployment.resources.values():  # as if the cluster had been adopted
            if record.kind in ("cluster", "node_pool"):
                record.origin = "adopted"
        store.save(deployment)

        async def journey() -> None:
            async with run_wizard(real.home, rehearse=False, speed=None, start=NAME) as pilot:
                await wait_until(pilot, lambda: pilot.app.controller is not None, "the deployment")  # type: ignore[attr-defined]
                pilot.app.show("teardown")  # type: ignore[attr-defined]
                await wait_until(pilot, lambda: is_screen(pilot, TeardownScreen), "Teardown")
                screen = pilot.app.screen
                assert isinstance(screen, TeardownScreen)
                await wait_until(pilot, lambda: screen.items is not None, "what is deleted")
                after = str(screen.query_one("#after", Static).content)
                assert f"After this, {GPUS + 5.34:.2f} USD/h will still be billed." in after
                await pilot.press("k")
                await pilot.pause()
                after = str(screen.query_one("#after", Static).content)
                assert f"After this, {KNOWN:.2f} USD/h will still be billed." in after

        run_async(journey)


def test_plain_mode_stops_at_the_limit_that_gpus_have_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with real_mode(tmp_path / "home", monkeypatch, TWO_SKUS) as real:
        _enable_all(real)
        deployment = real.record_everything_created(store := real.create(project__max_usd=100), HOURS)
        deployment.place = "review"
        store.save(deployment)
        terminal: Any = pexpect.spawn(
            sys.executable,
            real.argv("--plain", "--deployment", NAME),
            env=clean_environment(TERM="dumb", LANG="C.UTF-8"),
            encoding="utf-8",
            timeout=60,
            dimensions=(24, 1000),
        )
        try:
            terminal.expect("[^\r\n]*/l\\)")
            terminal.sendline("v")
            terminal.expect("Spending: ([^\r\n]*)")
            found = terminal.match.group(1)
            assert "Spending limit reached" in found, found
            assert _usd(found[found.index("Spending limit reached") :]) == pytest.approx(SPENT, rel=0.01)
            terminal.expect("Price: ([^\r\n]*)")
            assert f"{KNOWN:.2f} USD/h" in terminal.match.group(1)
            terminal.expect("Cannot launch: ")
        finally:
            terminal.close(force=True)
