"""The checkpoints of this deployment, as they lie on Lustre now."""

from __future__ import annotations

from .clients.head import open_head
from .clients.jobs import checkpoints
from .following import job_resource
from .session import Session
from .training.checkpoints import Listing


async def list_checkpoints(session: Session) -> Listing:
    """What stands in the answers' checkpoint_dir. Raises CloudError while no head is there to ask."""
    async with open_head(session.cloud, job_resource(session).where) as head:
        return await checkpoints(head, session.answers["grpo"]["checkpoint_dir"])
