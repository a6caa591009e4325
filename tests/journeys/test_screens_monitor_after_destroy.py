"""Screens after a destroy: a destroyed job is not shown as running, and a new job replaces it at once."""

from __future__ import annotations

from pathlib import Path

from app_pilot import AppPilot, is_screen, run_async, run_wizard, screen_text, shared_home, wait_until

from grpo_wizard.state.home import Home
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.model import JobRecord, ResourceRecord
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.core.model import ObservedState
from grpo_wizard.steps.jobs.history import record_job
from grpo_wizard.steps.jobs.watch import job_resource
from grpo_wizard.steps.registry import validate
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.controllers.prefill import tutorial_answers
from grpo_wizard.tui.screens.monitor import MonitorScreen
from grpo_wizard.tui.screens.monitor_panes import NodesPane
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.run import RunScreen
from grpo_wizard.tui.viewmodels.deployments import deployment_summary, parse_time
from grpo_wizard.tui.viewmodels.navigation import stepper_items
from grpo_wizard.tui.viewmodels.run_progress import RunProgress
from grpo_wizard.tui.widgets.confirm import ConfirmDialog

__all__ = ["shared_home"]
_STEP = """========================= Step {n}/10 =========================
▶ Preparing batch...
📊 Training Results:
  • Loss: 0.0125
  • Avg Reward: 0.5312
⏱️  Timing:
  • Total step time: 5.00s
"""
_SUBMITTED = "2026-11-30T09:00:00Z"


def _stands(name: str = "nemo") -> dict[str, ResourceRecord]:
    return {f"grpo.job.{name}": ResourceRecord(kind="job", name=name, step="grpo", origin="created")}


def _deployment(home: Path, stands: bool) -> Home:
    """Create a deployment whose job was last seen RUNNING, with three steps in its log."""
    place = Home(home)
    deployment = StateStore(place).create("alpha", "rehearsal", validate(tutorial_answers()).to_values())
    deployment.job = JobRecord(
        submission_id="grpo-old", parameters_hash="0", status="RUNNING", submitted_at=_SUBMITTED
    )
    deployment.resources = _stands() if stands else {}
    deployment.place = "monitor"
    StateStore(place).save(deployment)
    place.job_log_file("alpha").write_text("".join(_STEP.format(n=n) for n in (1, 2, 3)))
    return place


async def _monitor(pilot: AppPilot) -> MonitorScreen:
    app = pilot.app
    assert isinstance(app, Wizard)
    await wait_until(
        pilot, lambda: app.controller is not None and len(app.screen_stack) > 2, "the deployment"
    )
    app.show("monitor")
    await wait_until(pilot, lambda: is_screen(pilot, MonitorScreen), "Monitor")
    screen = pilot.app.screen
    assert isinstance(screen, MonitorScreen)
    return screen


def test_monitor_shows_a_destroyed_job_and_relaunches(joined: Path) -> None:
    _deployment(joined, stands=False)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _monitor(pilot)
            await wait_until(
                pilot, lambda: "destroyed; the job has ended" in screen_text(pilot), "what became of it"
            )
            assert len(screen.snapshot.rows) == 3
            text = screen_text(pilot)
            assert "will end around" not in text and "healthy" not in text and "r Launch" in text
            await pilot.press("r")
            await wait_until(pilot, lambda: is_screen(pilot, ReviewScreen), "Review")

    run_async(journey)


def test_stepper_and_keys_ignore_a_destroyed_job(joined: Path) -> None:
    """The job's record is kept after destroy, for its log; no screen may take it for an existing job."""
    home = _deployment(joined, stands=False)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            app = pilot.app
            assert isinstance(app, Wizard)
            await wait_until(
                pilot, lambda: app.controller is not None and len(app.screen_stack) > 2, "the deployment"
            )
            assert app.controller is not None
            signs = {item.key: item.status for item in stepper_items(app.controller)}
            assert (signs["run"], signs["monitor"]) == ("todo", "todo")
            app.show("run")
            await wait_until(pilot, lambda: is_screen(pilot, RunScreen), "Run")
            assert "Monitor" not in screen_text(pilot)
            app.controller.draft.deployment.resources = _stands()
            for status, sign in (("RUNNING", "training"), ("SUCCEEDED", "done"), ("FAILED", "failed")):
                event = {"event": "job", "job_id": "grpo-old", "status": status, "time": _SUBMITTED}
                Journal(home.journal_file("alpha")).append(event)
                signs = {item.key: item.status for item in stepper_items(app.controller)}
                assert (signs["run"], signs["monitor"]) == ("done", sign)
            await wait_until(pilot, lambda: "m Monitor" in screen_text(pilot), "its key, with a job")

    run_async(journey)


def test_ended_job_is_shown_as_ended_without_a_ray_head(joined: Path) -> None:
    """The cluster no longer exists, either; the journal says that the job SUCCEEDED."""
    home = _deployment(joined, stands=True)
    event = {"event": "job", "job_id": "grpo-old", "status": "SUCCEEDED", "time": _SUBMITTED}
    Journal(home.journal_file("alpha")).append(event)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _monitor(pilot)
            await wait_until(pilot, lambda: screen.snapshot.status == "SUCCEEDED", "how it ended", 15)
            assert "✓ done" in screen_text(pilot) and "lost" not in screen_text(pilot)

    run_async(journey)


def test_nodes_pane_refreshes_after_the_job_has_ended(joined: Path) -> None:
    home = _deployment(joined, stands=True)
    event = {"event": "job", "job_id": "grpo-old", "status": "SUCCEEDED", "time": _SUBMITTED}
    Journal(home.journal_file("alpha")).append(event)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _monitor(pilot)
            await wait_until(pilot, lambda: screen.snapshot.ended, "the job's end", 15)
            await pilot.press("4")
            await wait_until(pilot, lambda: "Loading" not in screen_text(pilot), "what the cluster says")
            pane = screen.query_one(NodesPane)
            pane.show_content("of long ago")
            await wait_until(pilot, lambda: "of long ago" in screen_text(pilot), "an old answer")
            await pilot.press("f5")
            await wait_until(pilot, lambda: "of long ago" not in screen_text(pilot), "a new one")

    run_async(journey)


def test_monitor_switches_to_the_job_of_a_new_run(joined: Path) -> None:
    home = _deployment(joined, stands=False)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _monitor(pilot)
            await wait_until(pilot, lambda: screen.snapshot.status == "GONE", "the old job, gone")
            session = screen.session
            assert session is not None
            lustre = ResourceRecord(
                kind="lustre", name="l", step="lustre", origin="created", done_at="2026-11-30T10:00:00Z"
            )
            session.deployment.resources = _stands() | {"lustre.lustre.l": lustre}
            sight = ObservedState("ready", outputs={"job_id": "grpo-new", "status": "PENDING"})
            record_job(session, job_resource(session), sight)
            assert home.job_log_file("alpha").with_name("grpo-old.log").exists()
            now = session.deployment.job
            assert now is not None and not now.extra, "on a new Lustre nothing is resumed"
            home.job_log_file("alpha").write_text(_STEP.format(n=1))
            await wait_until(pilot, lambda: screen.snapshot.job_id == "grpo-new", "the new job, by itself")
            assert [row.step for row in screen.snapshot.rows] == [1]
            assert "destroyed" not in screen_text(pilot)

    run_async(journey)


def test_summary_shows_when_a_job_was_last_seen(joined: Path) -> None:
    home = _deployment(joined, stands=True)
    told = parse_time(_SUBMITTED)
    assert deployment_summary(home, "alpha", told + 5).status == "training"
    later = deployment_summary(home, "alpha", told + 120)
    assert (later.status, later.label) == ("look", "last seen") and later.detail.startswith("RUNNING  at ")


def test_destroyed_run_leaves_no_resource_waiting() -> None:
    """Resources that did not exist, and those that are kept, have no event of their own."""
    progress, at = RunProgress(), {"time": "2026-11-30T09:00:00.000Z"}
    ids = [f"cluster.{kind}.a" for kind in ("cluster", "node_pool")] + ["project.api.compute"]
    rows = [{"id": id, "action": "delete", "state": "ready"} for id in ids]
    progress.apply_event({"event": "plan", "resources": rows, **at})
    progress.apply_event({"event": "resource_started", "id": ids[0], "action": "delete", **at})
    progress.apply_event({"event": "resource_done", "id": ids[0], "action": "delete", **at})
    progress.apply_event({"event": "notice", "id": ids[2], "detail": "api compute stays", **at})
    progress.apply_event({"event": "summary", "ok": True, "next": "nothing left", **at})
    assert [progress.resources[id].status for id in ids] == ["gone", "gone", "kept"]


def test_counter_replaces_the_previous_log_line() -> None:
    """GKE counts every few seconds: the log keeps one counter line per resource, and all other lines."""
    progress, ids = RunProgress(), ("cluster.cluster.a", "cluster.node_pool.b")
    at = {"time": "2026-11-30T09:00:00.000Z"}
    progress.apply_event({"event": "plan", "resources": [{"id": id, "action": "create"} for id in ids], **at})
    progress.apply_event({"event": "resource_waiting", "id": ids[0], "detail": "waiting for quota", **at})
    for n in range(1, 13):
        for id in ids:
            detail = f"CLUSTER_CONFIGURING {n} of 12; CLUSTER_DEPLOYING {n} of 7"
            progress.apply_event({"event": "resource_waiting", "id": id, "detail": detail, **at})
    texts = [text for _time, _sign, text in progress.log]
    assert len(texts) == 3 and "waiting for quota" in texts[0]
    assert all("CONFIGURING 12 of 12" in text for text in texts[1:])


def test_destroy_names_the_reservation_that_is_still_billed(joined: Path) -> None:
    """At 80 by 24, on the screen and in the confirmation."""
    _deployment(joined, stands=False)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            app = pilot.app
            assert isinstance(app, Wizard)
            await wait_until(
                pilot, lambda: app.controller is not None and len(app.screen_stack) > 2, "the deployment"
            )
            app.show("teardown")
            await wait_until(pilot, lambda: "reservation nemo-res" in screen_text(pilot), "the reservation")
            told = " ".join(screen_text(pilot).split())
            assert "even after destroy" in told and "until it is deleted" in told
            assert (
                "Will be deleted" in told
                and "After this, nothing will be billed." in told
                and "Destroy" in told
            )
            await pilot.press("d")
            await wait_until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog), "the question")
            await wait_until(pilot, lambda: "reservation nemo-res" in screen_text(pilot), "the reservation")

    run_async(journey)


def test_confirm_without_the_name_reports_a_mismatch(joined: Path) -> None:
    async def journey() -> None:
        async with run_wizard(joined) as pilot:
            pilot.app.push_screen(ConfirmDialog("Destroy alpha?", [], "alpha", "Destroy"))
            await wait_until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog), "the question")
            for typed in ("", "alp"):
                await pilot.press(*typed, "enter")
                await wait_until(
                    pilot, lambda: "✗ The name does not match alpha" in screen_text(pilot), "what to type"
                )
            await pilot.press("h")
            assert "✗ The name does not match alpha" not in screen_text(pilot)

    run_async(journey)
