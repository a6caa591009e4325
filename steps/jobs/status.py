"""The job as `status` shows it: Ray's status, and the last step in its log."""

from __future__ import annotations

from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.ray.jobs_api import RayError
from grpo_wizard.steps.core.model import ObservedState
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.jobs.history import final_status
from grpo_wizard.steps.jobs.watch import JobNotFound, JobWatcher, is_destroyed


async def describe_job(session: Session, observed: ObservedState) -> dict[str, object] | None:
    """Return {"id", "status", "step", "total_steps", …}; LOST when the head no longer knows the job; None: no job."""
    watch = JobWatcher(session)
    if "job_id" in observed.outputs:
        try:
            await watch.catch_up()
            return watch.to_json()
        except (CloudError, RayError, JobNotFound):
            pass
    watch.read_spool()
    watch.status = observed.outputs.get("status", "")
    if is_destroyed(session):
        return None
    watch.status = watch.status or final_status(session, watch.job_id)
    return watch.to_json()
