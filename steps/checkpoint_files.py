"""The files below the checkpoint folder, listed by `du` in the head's container."""

from __future__ import annotations

from .clients.exec import run_in_pod
from .clients.head import open_head
from .following import job_resource
from .session import Session
from .training.checkpoints import Listing, parse_du, read


async def list_checkpoints(session: Session) -> Listing:
    """What stands in the answers' checkpoint_dir now. Raises CloudError while no head is there to ask."""
    folder = session.answers["grpo"]["checkpoint_dir"]
    async with open_head(session.cloud, job_resource(session).where) as head:
        done = await run_in_pod(head, "ray-head", ["du", "-ab", folder])
    return read(parse_du(done.stdout))
