"""What is said of the job in `status`: Ray's word and the step that its log has come to."""

from __future__ import annotations

from typing import Any

from .clients.errors import CloudError
from .clients.ray_jobs import RayError
from .following import JobWatch, NoJob, torn_down
from .job_record import ended_as
from .session import Session
from .step import Sight


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
