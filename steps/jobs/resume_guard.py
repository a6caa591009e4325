"""Looking into a run's folder before it is submitted: a full one would end at once, and look like success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.ray.head import open_head
from grpo_wizard.steps.clients.ray.job_driver import (
    NO_STEPS_LEFT_REMEDY,
    no_steps_left_reason,
    read_checkpoint_folder,
)
from grpo_wizard.steps.core.model import ABSENT, ObservedState
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.plan import Decision


async def guard_no_steps_left(
    session: Session, decision: Decision, seen: Mapping[str, ObservedState]
) -> Decision:
    """The decision as it is, or a conflict where a job would have no step to make. Asks only where a head is there to ask."""
    resource = decision.resource
    if resource.kind != "job" or decision.action != "create":
        return decision
    if any(seen.get(need, ABSENT).state != "ready" for need in resource.depends_on):
        return decision
    try:
        async with open_head(session.cloud, resource.parent) as head:
            listing = await read_checkpoint_folder(head, str(resource.spec["checkpoint_dir"]))
    except CloudError:
        return decision  # the job's own driver looks again before it submits
    why = no_steps_left_reason(listing, resource.spec)
    return replace(decision, action="conflict", note=f"{why}; {NO_STEPS_LEFT_REMEDY}") if why else decision
