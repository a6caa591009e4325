"""Watch the job in a thread beside the interface: its log into the spool file, a snapshot of it twice a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.controllers.threads import LoopThread

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.steps.jobs.watch import JobWatcher
    from grpo_wizard.steps.training.health import HealthFinding
    from grpo_wizard.steps.training.rows import StepMetrics

_PUBLISH_SECONDS = 0.5
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "GONE")


@dataclass(frozen=True)
class JobSnapshot:
    """The job at one moment. `status` is Ray's own, LOST, or GONE when the deployment was destroyed."""

    job_id: str = ""
    status: str = ""
    detail: str = ""
    rows: tuple[StepMetrics, ...] = ()
    total_steps: int | None = None
    phase: str = ""
    verdict: str = "unknown"
    findings: tuple[HealthFinding, ...] = ()
    log_path: Path | None = None
    checkpoint_steps: tuple[int, ...] = field(default=())
    """Steps after which a checkpoint was begun."""
    earlier_loaded: bool = True
    """Whether `rows` include those of earlier attempts: their logs are parsed beside the watch."""

    @property
    def ended(self) -> bool:
        """Whether the job is over."""
        return self.status in _ENDED

    def values(self, key: str) -> list[float]:
        """Return a metric of every step that has it."""
        return [float(value) for row in self.rows if (value := getattr(row, key)) is not None]

    def points(self, key: str) -> list[tuple[float, float]]:
        """Return (step, value) of a metric for every step that has it."""
        return [(float(row.step), float(v)) for row in self.rows if (v := getattr(row, key)) is not None]

    def throughput(self) -> list[float]:
        """Return tokens per second of training and generation together: per GPU where the log has it."""
        for label in ("E2E (Tokens/sec/gpu)", "E2E (Tokens/sec)"):
            found = [row.throughput[label] for row in self.rows if label in row.throughput]
            if found:
                return found
        return []


class JobMonitor:
    """Follow the newest job of a deployment until it ends. `on_snapshot` and `on_error` are called in the caller's loop."""

    def __init__(
        self,
        session: Session,
        on_snapshot: Callable[[JobSnapshot], None],
        on_error: Callable[[WizardError], None],
    ) -> None:
        from grpo_wizard.steps.jobs.watch import JobWatcher

        self.watch = JobWatcher(session)
        self._on_snapshot, self._on_error = on_snapshot, on_error
        self.thread = LoopThread("job", self._main)

    async def _main(self) -> None:
        ticker = asyncio.create_task(self._tick())
        earlier = asyncio.create_task(asyncio.to_thread(self.watch.load_earlier))
        try:
            await self._follow()
            await earlier
        finally:
            ticker.cancel()
            earlier.cancel()
            self._publish()

    async def _follow(self) -> None:
        from grpo_wizard.state.journal import Journal
        from grpo_wizard.steps.core.events import Event
        from grpo_wizard.steps.jobs.follow import job_event_data
        from grpo_wizard.steps.jobs.history import final_status

        watch, reported = self.watch, (0, "")
        session = watch.session
        journal = Journal(session.store.home.journal_file(session.deployment.name))
        try:
            async for _event in watch.run():
                now = (len(watch.reader.rows), watch.status)
                if now != reported:
                    reported = now
                    journal.append(Event("job", "grpo.job", job_event_data(watch)).to_json())
        except WizardError as error:
            watch.detail = error.title
            if not watch.status and session.deployment.job is not None:
                watch.status = final_status(session, watch.job_id) or session.deployment.job.status or "LOST"
            self.thread.post(self._on_error, error)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_PUBLISH_SECONDS)
            self._publish()

    def _publish(self) -> None:
        self.watch.record_checkpoints()
        self.thread.post(self._on_snapshot, job_snapshot(self.watch))

    def cancel(self) -> None:
        """Stop watching; the job keeps running."""
        self.thread.cancel()


def job_snapshot(watch: JobWatcher) -> JobSnapshot:
    """Return what the watcher knows now. Parses nothing: it is called twice a second."""
    run_info, rows = watch.reader.run_info, watch.steps()
    report = watch.health()
    total = run_info.total_steps or watch.session.answers.grpo.max_num_steps
    return JobSnapshot(
        watch.job_id,
        watch.status,
        watch.detail,
        rows,
        total,
        run_info.phase or "",
        report.verdict,
        report.findings,
        watch.spool,
        tuple(row.step for row in rows if row.checkpoint),
        watch.earlier_loaded,
    )


def last_job_snapshot(session: Session) -> JobSnapshot:
    """Return the last known data of a job that was destroyed. Blocking: it parses the log."""
    from grpo_wizard.steps.jobs.watch import JobWatcher

    watch = JobWatcher(session)
    watch.read_spool()
    watch.load_earlier()
    return replace(job_snapshot(watch), status="GONE", phase="", verdict="unknown", findings=())


def seconds_left(snapshot: JobSnapshot) -> float | None:
    """Estimate from the mean of the last three steps; None while no step is complete."""
    durations = [s for s in snapshot.values("total_step_seconds")[-3:] if s == s]
    if not durations or not snapshot.total_steps or not snapshot.rows or snapshot.ended:
        return None
    return max(0, snapshot.total_steps - snapshot.rows[-1].step) * sum(durations) / len(durations)


def has_epochs(rows: Sequence[StepMetrics]) -> bool:
    """Whether the run reached a second epoch: NeMo RL's own step numbers restart with each."""
    return any((row.epoch or 1) > 1 for row in rows)


def local_time(epoch: float) -> str:
    """Format as hh:mm of this machine's clock."""
    return time.strftime("%H:%M", time.localtime(epoch))
