"""The record of the job in the state: which one is the present one, which ones it resumed, and how they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.state.journal import Journal
from grpo_wizard.state.model import JobRecord
from grpo_wizard.steps.clients.ray.job_driver import ended_job_state, parameters_hash
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import ObservedState, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.training.reader import parse_log

if TYPE_CHECKING:
    from pathlib import Path

TERMINAL_STATUSES = ("SUCCEEDED", "FAILED", "STOPPED")
_COMPLETED = ("max_steps", "async_complete")  # RunInfo.end_reason of a run that has trained all its steps
_TAIL_BYTES = (
    1_000_000  # of a log: its last lines say how the run ended, so a log of any size is read quickly
)


def record_job(session: Session, resource: Resource, observed: ObservedState) -> None:
    """Record an observed job. A new one moves its predecessor's log aside, so that its rows are kept."""
    id, status = observed.outputs.get("job_id", ""), observed.outputs.get("status", "")
    before = session.deployment.job
    if not id or (before and before.submission_id == id and before.status == status):
        return
    if before is None or before.submission_id != id:
        extra = _rotate_log(session, before) if before else {}
        session.deployment.job = JobRecord(
            submission_id=id,
            parameters_hash=parameters_hash(str(resource.spec["entrypoint"])),
            status=status,
            attempt=before.attempt + 1 if before else 1,
            checkpoint_dir=str(resource.spec["checkpoint_dir"]),
            extra=dict(extra),
        )
    else:
        before.status = status
    session.save()


def _rotate_log(session: Session, before: JobRecord) -> dict[str, str]:
    spool = session.store.home.job_log_file(session.deployment.name)
    if spool.exists():
        spool.replace(spool.with_name(f"{before.submission_id}.log"))
    spool.with_name(spool.name + ".exact").unlink(missing_ok=True)
    if _lustre_recreated_since(session, before):
        return {}
    same_folder = str(before.extra.get("earlier", ""))
    return {"earlier": f"{same_folder} {before.submission_id}".strip()}


def _lustre_recreated_since(session: Session, before: JobRecord) -> bool:
    """Whether the file system was created after that job: its checkpoints are gone then, and nothing resumes it."""
    return any(
        record.kind == "lustre" and record.origin == "created" and record.done_at > before.submitted_at
        for record in session.deployment.resources.values()
    )


def final_status(session: Session, id: str) -> str:
    """Return how this submission ended: SUCCEEDED, FAILED or STOPPED; empty when it was last observed running.

    An end that was observed stays true: a head that was re-created since knows nothing of earlier jobs.
    """
    return recorded_end(session, id) or _status_in_log(session, id)


def recorded_end(session: Session, id: str) -> str:
    """Return the end that Ray reported, as kept in the state or the journal; empty when there is none."""
    job = session.deployment.job
    if not id:
        return ""
    if job is not None and job.submission_id == id and job.status in TERMINAL_STATUSES:
        return job.status
    return _status_in_journal(session, id)


def _status_in_journal(session: Session, id: str) -> str:
    documents, _ = Journal(session.store.home.journal_file(session.deployment.name)).read(0)
    statuses = (
        d.get("status") for d in reversed(documents) if d.get("event") == "job" and d.get("job_id") == id
    )
    return next((str(status) for status in statuses if status in TERMINAL_STATUSES), "")


def _status_in_log(session: Session, id: str) -> str:
    """Infer the end from NeMo RL's last lines, for a job whose end nobody asked Ray about in time."""
    job, home, name = session.deployment.job, session.store.home, session.deployment.name
    spool = home.job_log_file(name)
    if job is None or job.submission_id != id:
        spool = spool.with_name(f"{id}.log")
    if not id or not spool.exists():
        return ""
    return "SUCCEEDED" if parse_log(_tail(spool)).run_info.end_reason in _COMPLETED else ""


def _tail(file: Path) -> bytes:
    with file.open("rb") as log:
        log.seek(max(0, file.stat().st_size - _TAIL_BYTES))
        return log.read()


def record_end(session: Session, id: str, status: str, step: int | None) -> None:
    """Write an observed end into the journal, once: whoever only reads may not write the state."""
    if status not in TERMINAL_STATUSES or recorded_end(session, id) == status:
        return
    data = {
        "job_id": id,
        "status": status,
        "step": step,
        "total_steps": None,
        "avg_reward": None,
        "detail": "",
    }
    Journal(session.store.home.journal_file(session.deployment.name)).append(
        Event("job", "grpo.job", data).to_json()
    )


def restore_job_state(session: Session, resource: Resource, observed: ObservedState) -> ObservedState:
    """Return the job as observed, or as it ended where no head knows it any more.

    Not when its checkpoints were deleted with their file system: it is re-created then, like everything else.
    """
    job, record = session.deployment.job, session.deployment.resources.get(resource.id)
    if (
        observed.state != "absent"
        or observed.outputs
        or job is None
        or record is None
        or record.origin != "created"
    ):
        return observed
    if record.identity not in ("", job.submission_id) or _lustre_recreated_since(session, job):
        return observed
    status = final_status(session, job.submission_id)
    if not status:
        return observed
    same = job.parameters_hash == parameters_hash(str(resource.spec["entrypoint"]))
    return ended_job_state(session.deployment.lineage, job.submission_id, status, same)
