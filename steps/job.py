"""What is said of the job in `status`: Ray's word and the step that its log has come to."""

from __future__ import annotations

from typing import Any

from .session import Session
from .step import Sight


def describe(session: Session, sight: Sight) -> dict[str, Any] | None:
    """{"id", "status", "step", "total_steps", …}; LOST when a job was submitted that the head does not know any more."""
    record = next((r for r in session.deployment.resources.values() if r.kind == "job"), None)
    if "status" not in sight.facts:
        lost = record is not None and record.origin == "created"
        return {"id": f"grpo-{record.request_id}", "status": "LOST", "step": None, "total_steps": None} if lost and record else None
    return {"id": sight.facts["job_id"], "status": sight.facts["status"], "step": None,
            "total_steps": session.answers["grpo"]["max_num_steps"], "message": sight.facts.get("message", "")}
