"""Reading a run's checkpoint folder before its job is submitted: a finished run would end at once and look like success."""

from __future__ import annotations

from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.ray.head import open_head
from grpo_wizard.steps.clients.ray.job_driver import (
    NO_STEPS_LEFT_REMEDY,
    no_steps_left_reason,
    read_checkpoint_folder,
)
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.deployment.session import Session


async def no_steps_left(session: Session, job: Resource) -> str:
    """Explain why `job` would have no step left to train; empty when it has, or when the folder cannot be read.

    Needs a Ray head that is ready. The job's driver checks again before it submits.
    """
    try:
        async with open_head(session.cloud, job.parent) as head:
            listing = await read_checkpoint_folder(head, str(job.spec["checkpoint_dir"]))
    except CloudError:
        return ""
    reason = no_steps_left_reason(listing, job.spec)
    return f"{reason}. {NO_STEPS_LEFT_REMEDY}" if reason else ""
