"""What is remembered of the job: which one is the present one, and which ones it resumed."""

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
    from collections.abc import Mapping, Sequence

TERMINAL_STATUSES = ("SUCCEEDED", "FAILED", "STOPPED")
# How NeMo RL's log ends when the run has made all its steps (training/rows.py, `ending`).
_COMPLETED = ("max_steps", "async_complete")


def record_job(session: Session, resource: Resource, sight: ObservedState) -> None:
    """Called when a job was seen. A new one moves the log of the one before it aside, so that its rows are kept."""
    id, status = sight.outputs.get("job_id", ""), sight.outputs.get("status", "")
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
    """Whether the file system was made after that job: then its checkpoints are gone, and nothing resumes it."""
    return any(
        record.kind == "lustre" and record.origin == "created" and record.done_at > before.submitted_at
        for record in session.deployment.resources.values()
    )


def final_status(session: Session, id: str) -> str:
    """How this very submission ended: SUCCEEDED, FAILED or STOPPED; empty where it was last seen unended.

    What was seen stays true: a head that was made anew since knows nothing of the jobs before it.
    """
    return recorded_end(session, id) or _status_in_log(session, id)


def recorded_end(session: Session, id: str) -> str:
    """The same by Ray's own word alone, as the state or the journal has kept it."""
    job = session.deployment.job
    if not id:
        return ""
    if job is not None and job.submission_id == id and job.status in TERMINAL_STATUSES:
        return job.status
    return _status_in_journal(session, id)


def _status_in_journal(session: Session, id: str) -> str:
    documents, _ = Journal(session.store.home.journal_file(session.deployment.name)).read(0)
    told = (d.get("status") for d in reversed(documents) if d.get("event") == "job" and d.get("job_id") == id)
    return next((str(status) for status in told if status in TERMINAL_STATUSES), "")


def _status_in_log(session: Session, id: str) -> str:
    """By NeMo RL's own last words, where nobody asked Ray in time."""
    job, home, name = session.deployment.job, session.store.home, session.deployment.name
    spool = home.job_log_file(name)
    if job is None or job.submission_id != id:
        spool = spool.with_name(f"{id}.log")
    if not id or not spool.exists():
        return ""
    return "SUCCEEDED" if parse_log(spool.read_bytes()).run_info.end_reason in _COMPLETED else ""


def record_end(session: Session, id: str, status: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Into the journal, once, where an end is seen by somebody who only looks and may not write the state."""
    if status not in TERMINAL_STATUSES or recorded_end(session, id) == status:
        return
    step = rows[-1]["step"] if rows else None
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


def restore_job_state(session: Session, resource: Resource, sight: ObservedState) -> ObservedState:
    """The job as it is, or as it was seen to end where no head knows it any more.

    Not where its checkpoints went with their file system: then it is made anew like everything else.
    """
    job, record = session.deployment.job, session.deployment.resources.get(resource.id)
    if (
        sight.state != "absent"
        or sight.outputs
        or job is None
        or record is None
        or record.origin != "created"
    ):
        return sight
    if record.identity not in ("", job.submission_id) or _lustre_recreated_since(session, job):
        return sight
    status = final_status(session, job.submission_id)
    if not status:
        return sight
    same = job.parameters_hash == parameters_hash(str(resource.spec["entrypoint"]))
    return ended_job_state(session.deployment.lineage, job.submission_id, status, same)
