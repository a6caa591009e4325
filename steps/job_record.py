"""What is remembered of the job: which one is the present one, and which ones it resumed."""

from __future__ import annotations

from grpo_wizard.state.model import JobRecord

from .clients.jobs import parameters
from .session import Session
from .step import Resource, Sight


def remember_job(session: Session, resource: Resource, sight: Sight) -> None:
    """Called when a job was seen. A new one moves the log of the one before it aside, so that its rows are kept."""
    id, status = sight.facts.get("job_id", ""), sight.facts.get("status", "")
    before = session.deployment.job
    if not id or (before and before.submission_id == id and before.status == status):
        return
    if before is None or before.submission_id != id:
        extra = _moved_aside(session, before) if before else {}
        session.deployment.job = JobRecord(
            submission_id=id,
            parameters_hash=parameters(str(resource.spec["entrypoint"])),
            status=status,
            attempt=before.attempt + 1 if before else 1,
            checkpoint_dir=str(resource.spec["checkpoint_dir"]),
            extra=dict(extra),
        )
    else:
        before.status = status
    session.save()


def _moved_aside(session: Session, before: JobRecord) -> dict[str, str]:
    spool = session.store.home.spool_file(session.deployment.name)
    if spool.exists():
        spool.replace(spool.with_name(f"{before.submission_id}.log"))
    spool.with_name(spool.name + ".exact").unlink(missing_ok=True)
    if _on_another_lustre(session, before):
        return {}
    same_folder = str(before.extra.get("earlier", ""))
    return {"earlier": f"{same_folder} {before.submission_id}".strip()}


def _on_another_lustre(session: Session, before: JobRecord) -> bool:
    """Whether the file system was made after that job: then its checkpoints are gone, and nothing resumes it."""
    return any(
        record.kind == "lustre" and record.origin == "created" and record.done_at > before.submitted_at
        for record in session.deployment.resources.values()
    )
