"""Watching a job costs what is new in its log: logs of earlier attempts are parsed once, and never for a snapshot."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from grpo_wizard.state.home import Home
from grpo_wizard.state.model import JobRecord
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.clients.ray.log_follower import LogChunk
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.jobs.checkpoints import known_checkpoint_steps
from grpo_wizard.steps.jobs.history import final_status
from grpo_wizard.steps.jobs.recorded_steps import read_recorded_steps
from grpo_wizard.steps.jobs.watch import JobWatcher
from grpo_wizard.steps.registry import WORKFLOW, validate
from grpo_wizard.steps.training.reader import LogReader
from grpo_wizard.tui.controllers.job_monitor import job_snapshot
from grpo_wizard.tui.controllers.prefill import tutorial_answers

NAME = "alpha"
WORKER_LINE = b"(DTensorPolicyWorker pid=4711, ip=10.0.0.7) loaded shard 3 of 8\n"


@dataclass
class Parsed:
    """What LogReader was fed: bytes, and the threads that did it."""

    byte_count: int = 0
    threads: set[int] = field(default_factory=set)

    def since(self) -> int:
        """Bytes parsed since the last call."""
        count, self.byte_count = self.byte_count, 0
        return count


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Parsed:
    """Counts what is parsed; parsing itself is unchanged."""
    counted, feed = Parsed(), LogReader.feed

    def counting(reader: LogReader, data: bytes, at: float | None = None) -> Any:
        counted.byte_count += len(data)
        counted.threads.add(threading.get_ident())
        return feed(reader, data, at)

    monkeypatch.setattr(LogReader, "feed", counting)
    return counted


def step_lines(step: int, total: int = 400, checkpoint: bool = False) -> bytes:
    """A training step as NeMo RL prints it."""
    lines = [
        f"========================= Step {step}/{total} =========================",
        "▶ Training policy...",
        *([f"Saving checkpoint for step {step}..."] if checkpoint else []),
        "📊 Training Results:",
        "  • Loss: 0.0213",
        f"  • Avg Reward: {step / 1000:.4f}",
        "",
    ]
    return "\n".join(lines).encode()


def _session(home: Path, earlier: str = "") -> Session:
    store = StateStore(Home(home))
    answers = validate(tutorial_answers())
    deployment = store.create(NAME, "rehearsal", answers.to_values())
    deployment.job = JobRecord(
        submission_id="grpo-9", parameters_hash="0", status="RUNNING", extra={"earlier": earlier}
    )
    return Session(store, deployment, cast(Any, None), answers, WORKFLOW)


def _write_log(session: Session, job_id: str, data: bytes) -> Path:
    folder = session.store.home.folder(NAME)
    file = folder / ("job.log" if job_id == "grpo-9" else f"{job_id}.log")
    file.write_bytes(data)
    return file


def test_logs_of_earlier_attempts_are_parsed_once_however_many_snapshots_are_taken(
    tmp_path: Path, parsed: Parsed
) -> None:
    session = _session(tmp_path, "grpo-1 grpo-2")
    first = _write_log(session, "grpo-1", b"".join(map(step_lines, range(1, 6))))
    second = _write_log(session, "grpo-2", b"".join(map(step_lines, range(4, 8))))
    own = _write_log(session, "grpo-9", b"".join(map(step_lines, range(7, 10))))
    watcher = JobWatcher(session)
    watcher.read_spool()
    assert [row.step for row in job_snapshot(watcher).rows] == [7, 8, 9]
    assert not job_snapshot(watcher).earlier_loaded and parsed.since() == own.stat().st_size
    watcher.load_earlier()
    assert parsed.since() == first.stat().st_size + second.stat().st_size
    for _again in range(5):
        assert [row.step for row in job_snapshot(watcher).rows] == list(range(1, 10))
    assert [row["step"] for row in watcher.rows()] == list(range(1, 10))
    JobWatcher(session).load_earlier()  # another screen, the same process
    assert parsed.since() == 0


def test_a_snapshot_reads_only_what_the_log_has_grown_by(tmp_path: Path, parsed: Parsed) -> None:
    session = _session(tmp_path, "grpo-1")
    _write_log(session, "grpo-1", step_lines(1))
    watcher = JobWatcher(session)
    watcher.load_earlier()
    parsed.since()
    for step in (2, 3):
        watcher.apply_event(LogChunk(0, step_lines(step)))
        assert parsed.since() == len(step_lines(step))
        assert job_snapshot(watcher).rows[-1].step == step and parsed.since() == 0


def test_a_snapshot_is_cheap_beside_megabytes_of_earlier_logs(tmp_path: Path) -> None:
    """A ratio, for a machine may be busy: taking one used to parse everything again."""
    session = _session(tmp_path, "grpo-1")
    _write_log(session, "grpo-1", b"".join(step_lines(n) + WORKER_LINE * 300 for n in range(1, 201)))
    watcher = JobWatcher(session)
    begun = time.perf_counter()
    watcher.load_earlier()
    parsing = time.perf_counter() - begun
    begun = time.perf_counter()
    for _again in range(10):
        assert len(job_snapshot(watcher).rows) == 200
    assert time.perf_counter() - begun < parsing, "ten snapshots cost less than parsing once"


def test_a_snapshot_does_not_change_when_the_log_goes_on(tmp_path: Path) -> None:
    watcher = JobWatcher(_session(tmp_path))
    watcher.apply_event(LogChunk(0, step_lines(1)))
    snapshot = job_snapshot(watcher)
    watcher.apply_event(LogChunk(0, b"  \xe2\x80\xa2 Loss: 9.5000\n"))
    assert (snapshot.rows[-1].loss, job_snapshot(watcher).rows[-1].loss) == (0.0213, 9.5)


def test_steps_with_a_checkpoint_are_recorded_while_the_job_is_watched(
    tmp_path: Path, parsed: Parsed
) -> None:
    session = _session(tmp_path, "grpo-1")
    _write_log(session, "grpo-1", step_lines(1) + step_lines(2, checkpoint=True))
    own = step_lines(3) + step_lines(4, checkpoint=True)
    _write_log(session, "grpo-9", own)
    watcher = JobWatcher(session)
    watcher.apply_event(LogChunk(0, own))
    assert watcher.record_checkpoints() == (4,)
    assert read_recorded_steps(session.store.home, NAME, "grpo-9") is None, "step 2 is not known yet"
    watcher.load_earlier()
    watcher.record_checkpoints()
    parsed.since()
    assert known_checkpoint_steps(session) == (2, 4) and parsed.since() == 0
    watcher.apply_event(LogChunk(0, step_lines(5, checkpoint=True)))
    watcher.record_checkpoints()
    assert known_checkpoint_steps(session) == (2, 4, 5)


def test_a_job_that_nobody_watched_is_parsed_once_for_its_checkpoints(tmp_path: Path, parsed: Parsed) -> None:
    session = _session(tmp_path)
    assert known_checkpoint_steps(session) == ()
    own = _write_log(session, "grpo-9", step_lines(1, checkpoint=True))
    assert known_checkpoint_steps(session) == (1,) and parsed.since() == own.stat().st_size
    assert known_checkpoint_steps(session) == (1,) and parsed.since() == 0
    assert session.deployment.job is not None
    session.deployment.job.submission_id = "grpo-10"  # another job: what is recorded is not its own
    assert known_checkpoint_steps(session) == (1,) and parsed.since() == own.stat().st_size


def test_how_a_job_ended_is_read_from_the_end_of_its_log(tmp_path: Path, parsed: Parsed) -> None:
    session = _session(tmp_path)
    end = b"\nMax number of steps has been reached, stopping training early\n"
    _write_log(session, "grpo-9", WORKER_LINE * 30_000 + end)
    assert final_status(session, "grpo-9") == "SUCCEEDED"
    assert parsed.since() <= 1_000_000 < len(WORKER_LINE) * 30_000
