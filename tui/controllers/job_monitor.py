"""The job beside the screens: its log into the spool, and a picture of it twice a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.controllers.threads import LoopThread

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.steps.jobs.watch import JobWatcher
    from grpo_wizard.steps.training.health import HealthFinding

_PUBLISH_SECONDS = 0.5
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "GONE")


@dataclass(frozen=True)
class JobSnapshot:
    """The job at one moment. `status` is Ray's own word, LOST, or GONE when it was torn down; `rows` as `metrics --json` gives them."""

    job_id: str = ""
    status: str = ""
    detail: str = ""
    rows: tuple[dict[str, Any], ...] = ()
    total_steps: int | None = None
    phase: str = ""
    verdict: str = "unknown"
    findings: tuple[HealthFinding, ...] = ()
    log_path: Path | None = None
    checkpoint_steps: tuple[int, ...] = field(default=())
    """Steps after which a checkpoint was begun."""

    @property
    def ended(self) -> bool:
        """Whether the job is over."""
        return self.status in _ENDED

    def values(self, key: str) -> list[float]:
        """A column of the rows, as numbers."""
        return [float(row[key]) for row in self.rows if row.get(key) is not None]

    def points(self, key: str) -> list[tuple[float, float]]:
        """(step, value) of a column."""
        return [(float(row["step"]), float(row[key])) for row in self.rows if row.get(key) is not None]

    def throughput(self) -> list[float]:
        """Tokens a second and GPU of training and generation together, by the log's own label; the best known name wins."""
        for label in ("E2E (Tokens/sec/gpu)", "E2E (Tokens/sec)"):
            found = [
                float(row["throughput"][label]) for row in self.rows if label in row.get("throughput", {})
            ]
            if found:
                return found
        return []


class JobMonitor:
    """Follows the newest job of a deployment until it has ended. `seen` is called in the screen's loop."""

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
        try:
            await self._follow()
        finally:
            ticker.cancel()
            self._publish()

    async def _follow(self) -> None:
        from grpo_wizard.state.journal import Journal
        from grpo_wizard.steps.core.events import Event
        from grpo_wizard.steps.jobs.follow import job_event_data
        from grpo_wizard.steps.jobs.history import final_status

        watch, told = self.watch, (0, "")
        session = watch.session
        journal = Journal(session.store.home.journal_file(session.deployment.name))
        try:
            async for _event in watch.run():
                now = (len(watch.reader.rows), watch.status)
                if now != told:
                    told = now
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
        self.thread.post(self._on_snapshot, job_snapshot(self.watch))

    def cancel(self) -> None:
        """Stops watching; the job goes on."""
        self.thread.cancel()


def job_snapshot(watch: JobWatcher) -> JobSnapshot:
    """What the watch knows now."""
    facts, rows = watch.reader.run_info, tuple(watch.rows())
    verdict = watch.health()
    total = facts.total_steps or watch.session.answers.grpo.max_num_steps
    return JobSnapshot(
        watch.job_id,
        watch.status,
        watch.detail,
        rows,
        total,
        facts.phase or "",
        verdict.verdict,
        verdict.findings,
        watch.spool,
        tuple(row["step"] for row in rows if row.get("checkpoint")),
    )


def last_job_snapshot(session: Session) -> JobSnapshot:
    """Of a job that was torn down: its log as far as it was read, and nothing that lives."""
    from grpo_wizard.steps.jobs.watch import JobWatcher

    watch = JobWatcher(session)
    watch.read_spool()
    return replace(job_snapshot(watch), status="GONE", phase="", verdict="unknown", findings=())


def seconds_left(snapshot: JobSnapshot) -> float | None:
    """By the mean of the last three steps; None as long as nothing is known."""
    took = [s for s in snapshot.values("total_step_seconds")[-3:] if s == s]
    if not took or not snapshot.total_steps or not snapshot.rows or snapshot.ended:
        return None
    return max(0, snapshot.total_steps - int(snapshot.rows[-1]["step"])) * sum(took) / len(took)


def has_epochs(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether the run went into a second epoch: NeMo RL's own step numbers begin again with each."""
    return any((row.get("epoch") or 1) > 1 for row in rows)


def local_time(epoch: float) -> str:
    """hh:mm of this machine's clock."""
    return time.strftime("%H:%M", time.localtime(epoch))
