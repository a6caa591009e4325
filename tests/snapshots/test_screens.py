"""Snapshots of every screen at both sizes. After an intended change: `pytest tests/snapshots --snapshot-update`, then review.

The clock stands still, the world is a fresh rehearsal's, and what Run and Monitor show is recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input
from textual.widgets._footer import FooterKey

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.model import JobRecord, ResourceRecord
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.registry import STEP_NAMES, all_resources, validate
from grpo_wizard.steps.training.health import diagnose
from grpo_wizard.steps.training.reader import parse_log
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.controllers.job_monitor import JobSnapshot
from grpo_wizard.tui.controllers.prefill import tutorial_answers
from grpo_wizard.tui.screens.monitor import MonitorScreen
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.step import StepScreen
from grpo_wizard.tui.screens.teardown import TeardownScreen
from grpo_wizard.tui.viewmodels.deployments import parse_time
from grpo_wizard.tui.widgets.log_view import LogView

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
LOG = Path(__file__).parents[1] / "unit" / "fixtures" / "training" / "rl_loop.log"
NOW = parse_time("2026-11-30T09:22:00Z")
Snap = Callable[..., bool]
Before = Callable[[Pilot[int]], Awaitable[None]]
sized = pytest.mark.parametrize("size", SIZES)


@pytest.fixture
def home(shared_rehearsal: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Home]:
    """A home folder whose rehearsals use the module's new emulator; the time zone is UTC."""
    for name, value in shared_rehearsal.address.env.items():
        if name.startswith("GRPO_WIZARD_REHEARSAL"):
            monkeypatch.setenv(name, value)
    for name in ("HF_TOKEN", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield Home(tmp_path)
    monkeypatch.undo()
    time.tzset()


_JOB = {"grpo.job.nemo": ResourceRecord(kind="job", name="nemo", step="grpo", origin="created")}


def _deployment(
    home: Home, name: str, place: str = "", created: str = "2026-11-30T09:00:00Z", **changes: Any
) -> None:
    store = StateStore(home)
    deployment = store.create(name, changes.pop("mode", "rehearsal"), changes.pop("answers", {}))
    deployment.place, deployment.created_at = place, created
    for key, value in changes.items():
        setattr(deployment, key, value)
    store.save(deployment)


def _app(home: Home, start: str | None = None) -> Wizard:
    return Wizard(
        home, rehearse=True, speed="max", start=start, clock=lambda: NOW, preload=False, ascii_only=False
    )


async def _until(pilot: Pilot[int], holds: Callable[[], object]) -> None:
    for _ in range(1200):
        if holds():
            break
        await pilot.pause(0.05)
    else:
        raise AssertionError("timed out waiting for the screen")
    await pilot.pause(0.2)


def _assert_footer_fits(pilot: Pilot[int]) -> None:
    """No label of the footer is cut off at the right edge."""
    width = pilot.app.size.width
    keys = [key for key in pilot.app.screen.query(FooterKey) if key.display]
    cut = [f"{key.key_display} {key.description}" for key in keys if key.region.right > width]
    assert not cut, cut


@pytest.fixture
def snap_compare(snap_compare: Snap) -> Snap:
    """Compares a snapshot, and checks that the footer fits."""

    def compare(app: Wizard, *, run_before: Before, **options: Any) -> bool:
        async def before(pilot: Pilot[int]) -> None:
            await run_before(pilot)
            _assert_footer_fits(pilot)

        return snap_compare(app, run_before=before, **options)

    return compare


def _shows(pilot: Pilot[int], kind: type) -> bool:
    return isinstance(pilot.app.screen, kind) and pilot.app.screen.is_mounted


# --- the screens, one after the other


@sized
def test_home_screen(size: str, home: Home, snap_compare: Snap) -> None:
    _deployment(
        home,
        "gsm8k-27b",
        mode="real",
        answers=validate(tutorial_answers()).to_values(),
        created="2026-11-30T00:10:00Z",
        job=JobRecord(submission_id="grpo-1", parameters_hash="0", status="RUNNING"),
        resources=_JOB,
    )
    Journal(home.journal_file("gsm8k-27b")).append(
        {
            "event": "job",
            "time": "2026-11-30T09:20:00.000Z",
            "status": "RUNNING",
            "step": 6,
            "total_steps": 10,
            "avg_reward": 0.61,
        }
    )
    _deployment(
        home,
        "llama-8b",
        mode="real",
        answers={"project": {"project_id": "p-12345", "zone": "europe-west4-b"}, "quotas": {}},
    )
    _deployment(
        home, "rehearsal-1", answers=validate(tutorial_answers()).to_values(), created="2026-11-29T09:00:00Z"
    )
    Journal(home.journal_file("rehearsal-1")).append(
        {"event": "summary", "time": "2026-11-29T10:00:00.000Z", "ok": True, "next": "nothing left"}
    )

    async def before(pilot: Pilot[int]) -> None:
        await _until(pilot, lambda: len(getattr(pilot.app.screen, "rows", ())) == 3)

    assert snap_compare(_app(home), terminal_size=SIZES[size], run_before=before)


@sized
def test_empty_home_screen(size: str, home: Home, snap_compare: Snap) -> None:
    async def before(pilot: Pilot[int]) -> None:
        await pilot.pause(1.0)

    assert snap_compare(_app(home), terminal_size=SIZES[size], run_before=before)


def _at_step(name: str, *keys: str) -> Before:
    async def before(pilot: Pilot[int]) -> None:
        await _until(pilot, lambda: _shows(pilot, StepScreen))
        screen = pilot.app.screen
        assert isinstance(screen, StepScreen)
        await _until(pilot, lambda: screen.checks.is_settled)
        await pilot.press(*keys)
        await pilot.pause(0.5)
        await _until(pilot, lambda: screen.checks.is_settled)

    return before


# Heavy until the order of results that are folded into one line no longer depends on which check ends first.
@pytest.mark.heavy
@sized
@pytest.mark.parametrize("name", STEP_NAMES)
def test_step_screen(name: str, size: str, home: Home, snap_compare: Snap) -> None:
    _deployment(home, "gsm8k-27b", name, answers={each: {} for each in STEP_NAMES[: STEP_NAMES.index(name)]})
    assert snap_compare(_app(home, "gsm8k-27b"), terminal_size=SIZES[size], run_before=_at_step(name))


@sized
def test_invalid_value(size: str, home: Home, snap_compare: Snap) -> None:
    _deployment(home, "gsm8k-27b", "networks", answers={"project": {}, "quotas": {}})
    keys = ("end", "ctrl+u", *"My-Net")
    assert snap_compare(
        _app(home, "gsm8k-27b"), terminal_size=SIZES[size], run_before=_at_step("networks", *keys)
    )


@sized
@pytest.mark.parametrize("missing", [False, True], ids=["ready", "missing"])
def test_review_screen(missing: bool, size: str, home: Home, snap_compare: Snap) -> None:
    answers: dict[str, dict[str, Any]] = {each: {} for each in STEP_NAMES}
    _deployment(home, "gsm8k-27b", "review", answers=answers)

    async def before(pilot: Pilot[int]) -> None:
        await _until(pilot, lambda: _shows(pilot, ReviewScreen))
        screen = pilot.app.screen
        assert isinstance(screen, ReviewScreen)
        await _until(pilot, lambda: screen.check_results is not None)
        if missing:
            app = pilot.app
            assert isinstance(app, Wizard) and app.controller is not None
            app.controller.draft.working_answers["quotas"].pop("reservation")
            await screen.action_refresh().wait()
            screen.draw()

    assert snap_compare(_app(home, "gsm8k-27b"), terminal_size=SIZES[size], run_before=before)


def _journal_of_a_run(home: Home, name: str, until: str) -> None:
    """Write the journal of the tutorial's deployment at 9:22: networks exist, Lustre is slowest. `until`: half or failed."""
    journal, resources = Journal(home.journal_file(name)), all_resources(validate(tutorial_answers()))

    def tell(event: str, at: str, **data: Any) -> None:
        journal.append({"event": event, "time": f"2026-11-30T{at}.000Z", **data})

    tell(
        "plan",
        "09:00:00",
        resources=[{"id": r.id, "action": "create", "needs": list(r.depends_on)} for r in resources],
    )
    for r in resources:
        if r.step in ("project", "networks") or r.kind in ("address", "peering", "firewall"):
            begin = "09:00:01" if r.step == "project" else "09:00:09"
            tell("resource_started", begin, id=r.id, action="create")
            tell(
                "resource_done",
                "09:01:52" if r.step == "networks" else "09:02:31",
                id=r.id,
                action="create",
                seconds=1.0,
            )
    tell("resource_started", "09:01:53", id="cluster.cluster.nemo-cluster", action="create")
    tell("resource_started", "09:02:32", id="lustre.lustre.nemo-lustre", action="create")
    tell("resource_done", "09:11:00", id="cluster.cluster.nemo-cluster", action="create", seconds=547.0)
    tell("resource_started", "09:11:01", id="cluster.node_pool.gpu-pool", action="create")
    tell(
        "resource_waiting", "09:14:10", id="cluster.node_pool.gpu-pool", detail="nodes 0 of 0", seconds=189.0
    )
    if until == "failed":
        tell(
            "resource_failed",
            "09:20:00",
            id="lustre.lustre.nemo-lustre",
            title="Lustre nemo-lustre is in an error",
            detail="Internal error [the zone is out of capacity]",
            fix="choose another zone, or try again later",
            command="gcloud lustre instances describe nemo-lustre --location=us-central1-b",
        )
        tell("summary", "09:20:01", ok=False, failed=[])


@sized
@pytest.mark.parametrize("state", ["half", "failed"])
def test_run_screen(state: str, size: str, home: Home, snap_compare: Snap) -> None:
    _deployment(home, "gsm8k-27b", "run", answers=validate(tutorial_answers()).to_values())
    _journal_of_a_run(home, "gsm8k-27b", state)

    async def before(pilot: Pilot[int]) -> None:
        await _until(pilot, lambda: _shows(pilot, StepScreen) or pilot.app.screen.id != "_default")
        app = pilot.app
        assert isinstance(app, Wizard)
        app.show("run")
        await pilot.pause(1.5)

    app = _app(home, "gsm8k-27b")
    app.speed = "1"
    assert snap_compare(app, terminal_size=SIZES[size], run_before=before)


def _picture(spool: Path) -> JobSnapshot:
    reader = parse_log(LOG.read_bytes())
    verdict = diagnose(reader)
    return JobSnapshot(
        "grpo-1",
        "RUNNING",
        "",
        tuple(reader.rows),
        20,
        "Training policy",
        verdict.verdict,
        verdict.findings,
        spool,
        (5, 10),
    )


@sized
@pytest.mark.parametrize("pane", ["overview", "charts", "log"])
def test_monitor_screen(
    pane: str, size: str, home: Home, snap_compare: Snap, monkeypatch: pytest.MonkeyPatch
) -> None:
    _deployment(
        home,
        "gsm8k-27b",
        "monitor",
        answers=validate(tutorial_answers()).to_values(),
        job=JobRecord(submission_id="grpo-1", parameters_hash="0", status="RUNNING"),
        resources=_JOB,
    )
    spool = home.job_log_file("gsm8k-27b")
    spool.write_bytes(LOG.read_bytes())
    monkeypatch.setattr(
        MonitorScreen, "_start_monitoring", lambda screen: None
    )  # no Ray head: the test passes the snapshot

    async def before(pilot: Pilot[int]) -> None:
        await _until(pilot, lambda: _shows(pilot, MonitorScreen))
        screen = pilot.app.screen
        assert isinstance(screen, MonitorScreen)
        screen.show_snapshot(_picture(spool))
        await screen.action_pane(pane)
        lines = spool.read_bytes().count(b"\n")
        await _until(pilot, lambda: all(view.rows >= lines for view in screen.query(LogView)))
        screen.update_title()
        await pilot.pause(0.3)

    assert snap_compare(_app(home, "gsm8k-27b"), terminal_size=SIZES[size], run_before=before)


@sized
@pytest.mark.parametrize("asked", [False, True], ids=["lists", "name"])
def test_destroy_screen(asked: bool, size: str, home: Home, snap_compare: Snap) -> None:
    from grpo_wizard.tui.viewmodels.destroy import DestroyItem

    _deployment(home, "gsm8k-27b", "teardown", answers=validate(tutorial_answers()).to_values())
    home.job_log_file("gsm8k-27b").write_bytes(LOG.read_bytes())

    async def before(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, Wizard)
        await _until(pilot, lambda: app.controller is not None and len(app.screen_stack) > 2)
        app.show("teardown")
        await _until(pilot, lambda: _shows(pilot, TeardownScreen) and pilot.app.screen.items is not None)  # type: ignore[attr-defined]
        screen = pilot.app.screen
        assert isinstance(screen, TeardownScreen)
        screen.items = [
            DestroyItem(
                r.id,
                r.kind,
                r.name,
                r.name != "nemo-net" and not r.retain_on_destroy,
                "adopted"
                if r.name == "nemo-net"
                else "kept by destroy because other workloads may use it"
                if r.retain_on_destroy
                else "",
            )
            for r in all_resources(validate(tutorial_answers()))
        ]
        screen.draw()
        if asked:
            screen.action_destroy()
        await pilot.pause(0.5)

    assert snap_compare(_app(home, "gsm8k-27b"), terminal_size=SIZES[size], run_before=before)


@sized
@pytest.mark.parametrize("box", ["error", "help", "name", "leave", "palette"])
def test_dialog(box: str, size: str, home: Home, snap_compare: Snap) -> None:
    error = WizardError(
        "permission compute.networks.create is missing",
        "403 for [user@example.com] on project [/b]my-project",
        "ask for the role roles/compute.networkAdmin",
        "gcloud projects add-iam-policy-binding my-project --role=…",
    )

    async def before(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, Wizard)
        await pilot.pause(0.8)
        if box == "error":
            app.show_error(error)
        elif box == "leave":
            from grpo_wizard.tui.screens.quit_dialog import show_quit_dialog

            show_quit_dialog(app)
        else:
            await pilot.press({"help": "f1", "name": "r", "palette": "ctrl+p"}[box])
            await pilot.pause()
            for field in app.screen.query(Input):
                field.cursor_blink = False
        await pilot.pause(0.8)

    assert snap_compare(_app(home), terminal_size=SIZES[size], run_before=before)


@sized
def test_drills_dialog(size: str, home: Home, shared_rehearsal: Any, snap_compare: Snap) -> None:
    """One is active: its switch, the word next to it, and the title bar behind the dialog."""
    _deployment(home, "gsm8k-27b", "quotas", answers={"project": {}})
    shared_rehearsal.call("POST", "/_rehearsal/drills/stock-out")

    async def before(pilot: Pilot[int]) -> None:
        from grpo_wizard.tui.screens.drills import DrillsDialog

        await _at_step("quotas")(pilot)
        await pilot.press("f8")
        await _until(pilot, lambda: isinstance(pilot.app.screen, DrillsDialog) and pilot.app.screen.drills)

    try:
        assert snap_compare(_app(home, "gsm8k-27b"), terminal_size=SIZES[size], run_before=before)
    finally:
        shared_rehearsal.call("DELETE", "/_rehearsal/drills")


def test_step_screen_in_ascii(home: Home, snap_compare: Snap) -> None:
    _deployment(home, "gsm8k-27b", "quotas", answers={"project": {}})
    app = Wizard(
        home, rehearse=True, speed="max", start="gsm8k-27b", clock=lambda: NOW, preload=False, ascii_only=True
    )
    assert snap_compare(app, terminal_size=SIZES["80x24"], run_before=_at_step("quotas"))


def test_no_color_keeps_glyphs_and_words(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR removes colours; glyphs and words remain."""
    monkeypatch.setenv("NO_COLOR", "1")
    _deployment(home, "gsm8k-27b", "quotas", answers={"project": {}})

    async def journey() -> None:
        app = _app(home, "gsm8k-27b")
        async with app.run_test(size=SIZES["80x24"]) as pilot:
            await _at_step("quotas")(pilot)
            picture = app.export_screenshot()
            for sign in ("REHEARSAL", "(•)", "info"):
                assert sign in picture

    asyncio.run(journey())
