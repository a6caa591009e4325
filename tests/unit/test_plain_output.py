"""Plain mode's lines: what is said of events, of a training, of what is waited for; and what may be typed."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.training.health import HealthFinding
from grpo_wizard.steps.training.rows import StepMetrics
from grpo_wizard.tui.commands._events import EventRenderer
from grpo_wizard.tui.controllers.job_monitor import JobSnapshot
from grpo_wizard.tui.plain.console import Console
from grpo_wizard.tui.plain.event_printer import EventPrinter
from grpo_wizard.tui.plain.monitor import JobPrinter

LUSTRE, POOL = "lustre.lustre.nemo-lustre", "cluster.node_pool.gpu-pool"
Told = tuple[EventPrinter, list[str], Callable[..., None]]


@pytest.fixture
def told() -> Told:
    """A teller, what it said, and a way to send it an event `at` seconds after the plan."""
    lines: list[str] = []
    teller = EventPrinter(lines.append)
    teller.estimates = {LUSTRE: (2400.0, 4800.0), POOL: (1.0, 2.0)}

    def send(event: str, at: int, id: str = "", **data: Any) -> None:
        time = f"2026-06-01T10:{at // 60:02}:{at % 60:02}.000Z"
        teller.apply_event({"event": event, "time": time, **({"id": id} if id else {}), **data})

    send("plan", 0, resources=[{"id": id, "action": "create"} for id in (LUSTRE, POOL)])
    return teller, lines, send


def test_each_event_is_a_line_with_the_time_that_has_passed(told: Told) -> None:
    _teller, lines, send = told
    send("resource_started", 5, LUSTRE, action="create", title="")
    send("resource_started", 6, POOL, action="create", title="")
    send("resource_done", 95, POOL, action="create", seconds=89.0)
    send("summary", 100, ok=True, failed=[])
    assert lines == [
        "0 s: plan: 2 to create",
        "5 s: create: lustre nemo-lustre, usually 40 to 80 m",
        "6 s: create: node pool gpu-pool",
        "1 m 35 s: done: node pool gpu-pool in 1 m 29 s",
        "1 m 40 s: all done",
    ]


def test_a_counter_is_not_read_out_at_each_count(told: Told) -> None:
    _teller, lines, send = told
    before = len(lines)
    for at in range(1, 62):
        send("resource_waiting", at, LUSTRE, detail=f"DEPLOYING {at} of 90", seconds=float(at))
    assert len(lines) - before == 3
    send("resource_waiting", 62, LUSTRE, detail="no node has room yet", seconds=62.0)
    assert lines[-1] == "1 m 02 s: waiting: lustre nemo-lustre: no node has room yet"


def test_what_is_still_waited_for_is_named_with_its_counter_and_its_usual_time(told: Told) -> None:
    teller, _lines, send = told
    send("resource_started", 5, LUSTRE, action="create", title="")
    send("resource_waiting", 7, LUSTRE, detail="in progress", seconds=2.0)
    assert teller.started_at is not None
    said = teller.still_waiting(teller.started_at + 245)
    assert said == "still waiting for lustre nemo-lustre (in progress), 4 m 00 s, usually 40 to 80 m"


def test_a_teardown_counts_what_stays_as_kept_and_names_each_thing_once() -> None:
    lines: list[str] = []
    teller, api = EventPrinter(lines.append), "project.api.lustre.googleapis.com"
    at = {"time": "2026-06-01T10:00:00.000Z"}
    fates = ((LUSTRE, "delete", "ready"), (POOL, "delete", "absent"), (api, "keep", "ready"))
    rows = [{"id": id, "action": action, "state": state} for id, action, state in fates]
    teller.apply_event({"event": "plan", "resources": rows, **at})
    told = {"event": "notice", "id": api, "detail": "api lustre.googleapis.com stays at destroy", **at}
    teller.apply_event(told)
    assert lines == [
        "0 s: plan: 1 to delete, 1 absent, 1 to keep",
        "0 s: note: api lustre.googleapis.com stays at destroy",
    ]
    assert teller.is_destroy and teller.log[-1][2] == "api lustre.googleapis.com stays at destroy"
    assert [teller.resources[id].status for id in (LUSTRE, POOL, api)] == ["wait", "gone", "kept"]


def test_an_apply_that_also_deletes_is_no_teardown() -> None:
    teller = EventPrinter(lambda line: None)
    rows = [{"id": LUSTRE, "action": "keep", "needs": []}, {"id": POOL, "action": "delete", "needs": []}]
    teller.apply_event({"event": "plan", "resources": rows, "time": "2026-06-01T10:00:00.000Z"})
    assert not teller.is_destroy


def test_a_headless_note_names_its_thing_once(capsys: pytest.CaptureFixture[str]) -> None:
    renderer = EventRenderer("rehearsal", "alpha", as_json=False)
    renderer.show(Event("notice", "project.api.x.googleapis.com", {"detail": "api x.googleapis.com stays"}))
    renderer.show(Event("notice", POOL, {"detail": "no node has room yet"}))
    out = capsys.readouterr().out
    assert out.count("x.googleapis.com") == 1 and f"{POOL}: no node has room yet" in out


def test_a_failure_ends_with_why_fix_and_command(told: Told) -> None:
    teller, _lines, send = told
    send(
        "resource_failed",
        9,
        POOL,
        title="no capacity",
        detail="the zone is full",
        fix="try later",
        command="gcloud x",
    )
    send("summary", 10, ok=False, failed=[])
    ending = teller.outcome_lines()
    assert ending == [
        "Failed: node pool gpu-pool: no capacity.",
        "Why: the zone is full",
        "Fix: try later",
        "Command: gcloud x",
    ]


def test_nothing_left_is_said_in_these_words(told: Told) -> None:
    teller, _lines, send = told
    send("summary", 10, ok=True, failed=[], next="nothing left", usd_per_hour=0.0)
    assert teller.outcome_lines() == ["No resources of this deployment remain."]


def _row(step: int, reward: float, checkpoint: bool = False, epoch: int | None = None) -> StepMetrics:
    return StepMetrics(
        step,
        epoch,
        avg_reward=reward,
        loss=0.02,
        generation_kl_error=0.001,
        total_step_seconds=60.0,
        checkpoint=checkpoint,
    )


def test_a_training_step_is_one_line_and_is_said_once() -> None:
    lines = JobPrinter()
    picture = JobSnapshot(
        "job-1", "RUNNING", rows=(_row(1, 0.1), _row(2, 0.2)), total_steps=10, verdict="healthy"
    )
    said = lines.new_lines(picture, 0.0)
    assert said[0] == "job job-1: RUNNING"
    assert said[1] == "step 1 of 10: reward 0.100, loss 0.020, KL error 0.001, 1 m 00 s"
    assert said[2].startswith(
        "step 2 of 10: reward 0.200 rising, loss 0.020, KL error 0.001, 1 m 00 s, 8 m 00 s left, ending around "
    )
    assert said[3:] == ["health: healthy"]
    assert lines.new_lines(picture, 1.0) == []


def test_from_the_second_epoch_on_a_step_names_its_epoch() -> None:
    lines, rows = JobPrinter(), (_row(3, 0.1, epoch=1), _row(4, 0.2, epoch=2))
    assert lines.new_lines(JobSnapshot("j", "RUNNING", rows=rows[:1], total_steps=6), 0.0)[1].startswith(
        "step 3 of 6: reward"
    )
    assert lines.new_lines(JobSnapshot("j", "RUNNING", rows=rows, total_steps=6), 0.0)[0].startswith(
        "step 4 of 6: epoch 2, reward"
    )


def test_steps_wait_for_those_of_earlier_attempts_and_come_in_order() -> None:
    lines, rows = JobPrinter(), tuple(_row(n, 0.1) for n in range(1, 4))
    early = JobSnapshot("j", "RUNNING", rows=rows[2:], total_steps=6, earlier_loaded=False)
    assert lines.new_lines(early, 0.0) == ["job j: RUNNING"]
    steps = lines.new_lines(JobSnapshot("j", "RUNNING", rows=rows, total_steps=6), 0.0)
    assert [line.split(":")[0] for line in steps] == [f"step {n} of 6" for n in (1, 2, 3)]


def test_health_and_checkpoints_are_said_when_they_change() -> None:
    lines = JobPrinter()
    rows = (_row(1, 0.0, True), _row(2, 0.0))
    lines.new_lines(
        JobSnapshot("j", "RUNNING", rows=rows[:1], total_steps=10, verdict="healthy", checkpoint_steps=(1,)),
        0.0,
    )
    finding = HealthFinding("zero_reward", "critical", 2, "every reward is 0", "", "look at the answers", "")
    picture = JobSnapshot(
        "j",
        "RUNNING",
        rows=rows,
        total_steps=10,
        verdict="critical",
        findings=(finding,),
        checkpoint_steps=(1, 2),
    )
    said = lines.new_lines(picture, 0.0)
    assert said[1:] == [
        "checkpoint: step_2",
        "health: critical",
        "health: critical: every reward is 0. Advice: look at the answers",
    ]


def test_a_silent_training_says_how_far_it_is_and_since_when() -> None:
    picture = JobSnapshot("j", "RUNNING", rows=(_row(3, 0.1),), total_steps=10, phase="generation")
    assert (
        JobPrinter().heartbeat_line(picture, 31.0)
        == "still RUNNING, 3 of 10 steps done, generation; nothing new for 31 s"
    )


def _typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> Console:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(line + "\n" for line in lines)))
    return Console()


def test_arrow_keys_are_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _typed(monkeypatch, "\x1b[A", " yes ").ask("Name:") == "yes"
    assert "Invalid: only text" in capsys.readouterr().out


def test_the_end_of_input_is_told_apart_from_an_empty_line(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = _typed(monkeypatch, "")
    assert talk.ask("Name:") == ""
    with pytest.raises(EOFError):
        talk.ask("Name:")


def test_what_comes_from_outside_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Console().print("a\x1b[2J\x1b]0;title\x07b\rc\x9bd")
    assert capsys.readouterr().out == "abcd\n"


def test_a_menu_takes_keys_and_words_and_says_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = {"n": "next", "l": "leave"}
    assert _typed(monkeypatch, "x", "?", "Leave").choose("", ways, "n") == "l"
    out = capsys.readouterr().out
    assert out.startswith("Next or leave? (n/l) (n): ")
    assert "Invalid: type one of n, l." in out and "  n: next" in out
    assert _typed(monkeypatch, "").choose("", ways, "n") == "n"
