"""What is said of the job in `status`: Ray's word and the step that its log has come to."""

from __future__ import annotations

from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.ray.jobs_api import RayError
from grpo_wizard.steps.core.model import ObservedState
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.jobs.history import final_status
from grpo_wizard.steps.jobs.watch import JobNotFound, JobWatcher, is_destroyed


async def describe_job(session: Session, sight: ObservedState) -> dict[str, object] | None:
    """{"id", "status", "step", "total_steps", …}; LOST when a job was submitted that the head does not know any more; None: no job."""
    watch = JobWatcher(session)
    if "job_id" in sight.outputs:
        try:
            await watch.catch_up()
            return watch.to_json()
        except (CloudError, RayError, JobNotFound):
            pass
    watch.read_spool()
    watch.status = sight.outputs.get("status", "")
    if is_destroyed(session):
        return None
    watch.status = watch.status or final_status(session, watch.job_id)  # the head is gone by now
    return watch.to_json()
