"""How long a plan takes: the longest chain of what is still to be created, as numbers and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from grpo_wizard.steps.core.durations import format_duration_range
from grpo_wizard.steps.engine.graph import topological_order
from grpo_wizard.steps.engine.plan import Decision


def estimated_range(decisions: Sequence[Decision]) -> tuple[float, float]:
    """Seconds, shortest and longest, of the longest chain of what is still to be created."""
    return _critical_path_seconds(decisions, "low"), _critical_path_seconds(decisions, "high")


def estimated_phases(decisions: Sequence[Decision]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The same in two parts: until everything is ready, and the training after it (0 to 0 if none is started)."""
    setup = estimated_range([d for d in decisions if d.resource.kind != "job"])
    jobs = [d.resource.expected_duration for d in decisions if d.resource.kind == "job" and _pending(d)]
    training = max(((job.low, job.high) for job in jobs), default=(0.0, 0.0))
    return setup, training


def format_estimate(decisions: Sequence[Decision]) -> str:
    """`46–119 m, then 2 h 40 m–3 h 04 m of training`: one format wherever a plan's duration is shown."""
    training = estimated_phases(decisions)[1]
    return format_setup_estimate(decisions) + (
        f", then {format_duration_range(training)} of training" if training[1] else ""
    )


def format_setup_estimate(decisions: Sequence[Decision]) -> str:
    """The first part alone: until everything is ready."""
    if all(d.action == "keep" and not _pending(d) for d in decisions):
        return "nothing to do"
    setup = estimated_phases(decisions)[0]
    return format_duration_range(setup) if setup[1] else "moments"


def _pending(decision: Decision) -> bool:
    return decision.action in ("create", "replace") or decision.observed.state == "creating"


def estimated_seconds(decisions: Sequence[Decision]) -> float:
    """Seconds, at the upper end of the range."""
    return _critical_path_seconds(decisions, "high")


def _critical_path_seconds(decisions: Sequence[Decision], end: Literal["low", "high"]) -> float:
    finish: dict[str, float] = {}
    by_id = {d.resource.id: d for d in decisions if d.action != "delete"}
    for resource in topological_order([d.resource for d in by_id.values()]):
        start = max((finish[need] for need in resource.depends_on), default=0.0)
        duration = getattr(resource.expected_duration, end) if _pending(by_id[resource.id]) else 0.0
        finish[resource.id] = start + duration
    return max(finish.values(), default=0.0)
