"""The checkpoints of this deployment, as they lie on Lustre now."""

from __future__ import annotations

from grpo_wizard.steps.clients.ray.head import open_head
from grpo_wizard.steps.clients.ray.job_driver import read_checkpoint_folder
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.jobs.watch import job_resource
from grpo_wizard.steps.training.checkpoints import CheckpointListing


async def list_checkpoints(session: Session) -> CheckpointListing:
    """What stands in the answers' checkpoint_dir. Raises CloudError while no head is there to ask."""
    async with open_head(session.cloud, job_resource(session).parent) as head:
        return await read_checkpoint_folder(head, session.answers.grpo.checkpoint_dir)
