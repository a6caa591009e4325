"""What is told after a tear-down: nothing that is gone is shown as living, and a new job takes its place at once."""

from __future__ import annotations

from pathlib import Path

from screens import Drive, joined, on, play, shown, until, wizard

from grpo_wizard.state.home import Home
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.model import JobRecord, ResourceRecord
from grpo_wizard.state.store import Store
from grpo_wizard.steps.core.model import Sight
from grpo_wizard.steps.jobs.history import remember_job
from grpo_wizard.steps.jobs.watch import job_resource
from grpo_wizard.steps.registry import complete
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.controllers.prefill import tutorial
from grpo_wizard.tui.screens.monitor import MonitorScreen
from grpo_wizard.tui.screens.monitor_panes import Nodes
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.run import RunScreen
from grpo_wizard.tui.viewmodels.deployments import moment, summary
from grpo_wizard.tui.viewmodels.navigation import rail_items
from grpo_wizard.tui.viewmodels.run_progress import Story
from grpo_wizard.tui.widgets.confirm import Confirm

__all__ = ["joined"]
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
    """With a job that was last heard of as RUNNING, and three steps of its log."""
    place = Home(home)
    deployment = Store(place).create("alpha", "rehearsal", complete(tutorial()))
    deployment.job = JobRecord(
        submission_id="grpo-old", parameters_hash="0", status="RUNNING", submitted_at=_SUBMITTED
    )
    deployment.resources = _stands() if stands else {}
    deployment.place = "monitor"
    Store(place).save(deployment)
    place.spool_file("alpha").write_text("".join(_STEP.format(n=n) for n in (1, 2, 3)))
    return place


async def _monitor(pilot: Drive) -> MonitorScreen:
    app = pilot.app
    assert isinstance(app, Wizard)
    await until(pilot, lambda: app.desk is not None and len(app.screen_stack) > 2, "the deployment")
    app.go("monitor")
    await until(pilot, lambda: on(pilot, MonitorScreen), "Monitor")
    screen = pilot.app.screen
    assert isinstance(screen, MonitorScreen)
    return screen


def test_a_job_that_was_torn_down_is_not_shown_as_living_and_leads_to_review(joined: Path) -> None:
    _deployment(joined, stands=False)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _monitor(pilot)
            await until(pilot, lambda: "torn down, the job is over" in shown(pilot), "what became of it")
            assert len(screen.picture.rows) == 3
            text = shown(pilot)
            assert "ends about" not in text and "healthy" not in text and "Relaunch" in text
            await pilot.press("r")
            await until(pilot, lambda: on(pilot, ReviewScreen), "Review")

    play(journey)


def test_the_rail_and_the_keys_know_no_job_that_was_torn_down(joined: Path) -> None:
    """The job's record outlives a tear-down, for its log's sake; nothing that is shown may take it for a job."""
    home = _deployment(joined, stands=False)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            app = pilot.app
            assert isinstance(app, Wizard)
            await until(pilot, lambda: app.desk is not None and len(app.screen_stack) > 2, "the deployment")
            assert app.desk is not None
            signs = {item.key: item.sign for item in rail_items(app.desk)}
            assert (signs["run"], signs["monitor"]) == ("todo", "todo")
            app.go("run")
            await until(pilot, lambda: on(pilot, RunScreen), "Run")
            assert "Monitor" not in shown(pilot)
            app.desk.draft.deployment.resources = _stands()
            for status, sign in (("RUNNING", "training"), ("SUCCEEDED", "done"), ("FAILED", "failed")):
                event = {"event": "job", "job_id": "grpo-old", "status": status, "time": _SUBMITTED}
                Journal(home.journal_file("alpha")).append(event)
                signs = {item.key: item.sign for item in rail_items(app.desk)}
                assert (signs["run"], signs["monitor"]) == ("done", sign)
            await until(pilot, lambda: "m Monitor" in shown(pilot), "its key, with a job")

    play(journey)


def test_a_job_that_was_seen_to_end_is_shown_as_ended_though_nothing_answers_for_it(joined: Path) -> None:
    """Here not even a cluster is there any more; by the journal the job SUCCEEDED."""
    home = _deployment(joined, stands=True)
    event = {"event": "job", "job_id": "grpo-old", "status": "SUCCEEDED", "time": _SUBMITTED}
    Journal(home.journal_file("alpha")).append(event)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _monitor(pilot)
            await until(pilot, lambda: screen.picture.status == "SUCCEEDED", "how it ended", 15)
            assert "✓ done" in shown(pilot) and "lost" not in shown(pilot)

    play(journey)


def test_nodes_are_looked_at_again_when_the_job_has_ended(joined: Path) -> None:
    home = _deployment(joined, stands=True)
    event = {"event": "job", "job_id": "grpo-old", "status": "SUCCEEDED", "time": _SUBMITTED}
    Journal(home.journal_file("alpha")).append(event)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _monitor(pilot)
            await until(pilot, lambda: screen.picture.ended, "the job's end", 15)
            await pilot.press("4")
            await until(pilot, lambda: "looking" not in shown(pilot), "what the cluster says")
            pane = screen.query_one(Nodes)
            pane.say("of long ago")
            await until(pilot, lambda: "of long ago" in shown(pilot), "an old answer")
            await pilot.press("f5")
            await until(pilot, lambda: "of long ago" not in shown(pilot), "a new one")

    play(journey)


def test_a_new_job_takes_the_place_of_the_one_that_was_torn_down(joined: Path) -> None:
    home = _deployment(joined, stands=False)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _monitor(pilot)
            await until(pilot, lambda: screen.picture.status == "GONE", "the old job, gone")
            session = screen.session
            assert session is not None
            lustre = ResourceRecord(
                kind="lustre", name="l", step="lustre", origin="created", done_at="2026-11-30T10:00:00Z"
            )
            session.deployment.resources = _stands() | {"lustre.lustre.l": lustre}
            sight = Sight("ready", facts={"job_id": "grpo-new", "status": "PENDING"})
            remember_job(session, job_resource(session), sight)
            assert home.spool_file("alpha").with_name("grpo-old.log").exists()
            now = session.deployment.job
            assert now is not None and not now.extra, "on a new Lustre nothing is resumed"
            home.spool_file("alpha").write_text(_STEP.format(n=1))
            await until(pilot, lambda: screen.picture.job_id == "grpo-new", "the new job, by itself")
            assert [row["step"] for row in screen.picture.rows] == [1]
            assert "torn down" not in shown(pilot)

    play(journey)


def test_the_list_says_when_a_job_was_seen_and_not_that_it_runs(joined: Path) -> None:
    home = _deployment(joined, stands=True)
    told = moment(_SUBMITTED)
    assert summary(home, "alpha", told + 5).sign == "training"
    later = summary(home, "alpha", told + 120)
    assert (later.sign, later.word) == ("look", "last seen") and later.detail.startswith("RUNNING  at ")


def test_nothing_waits_when_everything_was_taken_down() -> None:
    """What was not there when its turn came, and what stays, end without an event of their own."""
    story, at = Story(), {"time": "2026-11-30T09:00:00.000Z"}
    ids = [f"cluster.{kind}.a" for kind in ("cluster", "node_pool")] + ["project.api.compute"]
    rows = [{"id": id, "action": "delete", "state": "ready"} for id in ids]
    story.take({"event": "plan", "resources": rows, **at})
    story.take({"event": "resource_started", "id": ids[0], "action": "delete", **at})
    story.take({"event": "resource_done", "id": ids[0], "action": "delete", **at})
    story.take({"event": "notice", "id": ids[2], "detail": "api compute stays", **at})
    story.take({"event": "summary", "ok": True, "next": "nothing left", **at})
    assert [story.things[id].sign for id in ids] == ["gone", "gone", "kept"]


def test_a_counter_takes_the_place_of_the_one_before_it() -> None:
    """GKE counts every few seconds: the log keeps one line a thing; what is no counter stays."""
    story, ids = Story(), ("cluster.cluster.a", "cluster.node_pool.b")
    at = {"time": "2026-11-30T09:00:00.000Z"}
    story.take({"event": "plan", "resources": [{"id": id, "action": "create"} for id in ids], **at})
    story.take({"event": "resource_waiting", "id": ids[0], "detail": "waiting for quota", **at})
    for n in range(1, 13):
        for id in ids:
            detail = f"CLUSTER_CONFIGURING {n} of 12; CLUSTER_DEPLOYING {n} of 7"
            story.take({"event": "resource_waiting", "id": id, "detail": detail, **at})
    texts = [text for _time, _sign, text in story.log]
    assert len(texts) == 3 and "waiting for quota" in texts[0]
    assert all("CONFIGURING 12 of 12" in text for text in texts[1:])


def test_teardown_names_the_reservation_that_bills_on(joined: Path) -> None:
    """At 80 by 24, on the page and in the last question; what billing ends with is no secret of the command's."""
    _deployment(joined, stands=False)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            app = pilot.app
            assert isinstance(app, Wizard)
            await until(pilot, lambda: app.desk is not None and len(app.screen_stack) > 2, "the deployment")
            app.go("teardown")
            await until(pilot, lambda: "reservation nemo-res" in shown(pilot), "the reservation")
            told = " ".join(shown(pilot).split())
            assert "also after a teardown" in told and "until somebody deletes it" in told
            assert "Goes" in told and "After this: 0.00 USD/h" in told and "Tear down" in told
            await pilot.press("d")
            await until(pilot, lambda: isinstance(pilot.app.screen, Confirm), "the question")
            await until(pilot, lambda: "reservation nemo-res" in shown(pilot), "the reservation")

    play(journey)


def test_enter_without_the_name_says_what_to_type(joined: Path) -> None:
    async def journey() -> None:
        async with wizard(joined) as pilot:
            pilot.app.push_screen(Confirm("Tear down alpha?", [], "alpha", "Tear down"))
            await until(pilot, lambda: isinstance(pilot.app.screen, Confirm), "the question")
            for typed in ("", "alp"):
                await pilot.press(*typed, "enter")
                await until(pilot, lambda: "✗ type alpha" in shown(pilot), "what to type")
            await pilot.press("h")
            assert "✗ type alpha" not in shown(pilot)

    play(journey)
