"""The steps of the job that began a checkpoint, kept in a small file while the job is watched."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from grpo_wizard.state.home import Home


def read_recorded_steps(home: Home, name: str, job_id: str) -> tuple[int, ...] | None:
    """Return the steps recorded of this job; None when nothing was, or of another job."""
    try:
        document = json.loads(home.checkpoint_steps_file(name).read_text("utf-8"))
        steps = tuple(int(step) for step in document["steps"])
        return steps if document["job_id"] == job_id else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_recorded_steps(home: Home, name: str, job_id: str, steps: Sequence[int]) -> None:
    """Record the steps of this job. A disk that is full must not end the watch: the log is parsed again then."""
    file = home.checkpoint_steps_file(name)
    part = file.with_name(f".{file.name}.part")
    with contextlib.suppress(OSError):
        part.write_text(json.dumps({"job_id": job_id, "steps": list(steps)}), "utf-8")
        part.replace(file)
