"""What is said of the job in `status`: Ray's word and the step that its log has come to."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.ray.jobs_api import RayError
from grpo_wizard.steps.core.model import Sight
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.jobs.history import ended_as
from grpo_wizard.steps.jobs.watch import JobWatch, NoJob, torn_down


async def describe(session: Session, sight: Sight) -> dict[str, Any] | None:
    """{"id", "status", "step", "total_steps", …}; LOST when a job was submitted that the head does not know any more; None: no job."""
    watch = JobWatch(session)
    if "job_id" in sight.facts:
        try:
            await watch.catch_up()
            return watch.document()
        except (CloudError, RayError, NoJob):
            pass
    watch.read_spool()
    watch.status = sight.facts.get("status", "")
    if torn_down(session):
        return None
    watch.status = watch.status or ended_as(session, watch.job_id)  # the head is gone by now
    return watch.document()
