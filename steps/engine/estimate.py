"""How long a plan takes: the longest chain of what is still to be created, as numbers and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from grpo_wizard.steps.core.durations import format_duration_range
from grpo_wizard.steps.engine.graph import topological_order
from grpo_wizard.steps.engine.plan import Decision


def estimated_range(decisions: Sequence[Decision]) -> tuple[float, float]:
    """Wall time of the longest chain of what is still to be made: at the lower and at the upper end of what is usual."""
    return _critical_path_seconds(decisions, "low"), _critical_path_seconds(decisions, "high")


def estimated_phases(decisions: Sequence[Decision]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The same in two parts: until everything stands, and the training behind it (0 to 0 where none is to be started)."""
    making = estimated_range([d for d in decisions if d.resource.kind != "job"])
    jobs = [d.resource.expected_duration for d in decisions if d.resource.kind == "job" and _pending(d)]
    training = max(((usual.low, usual.high) for usual in jobs), default=(0.0, 0.0))
    return making, training


def format_estimate(decisions: Sequence[Decision]) -> str:
    """`46–119 m, then the training 2 h 40 m–3 h 04 m`, one wording wherever a plan's time is said."""
    training = estimated_phases(decisions)[1]
    return format_setup_estimate(decisions) + (
        f", then the training {format_duration_range(training)}" if training[1] else ""
    )


def format_setup_estimate(decisions: Sequence[Decision]) -> str:
    """The first part of it: until everything stands."""
    if all(d.action == "keep" and not _pending(d) for d in decisions):
        return "nothing to do"
    making = estimated_phases(decisions)[0]
    return format_duration_range(making) if making[1] else "moments"


def _pending(decision: Decision) -> bool:
    return decision.action in ("create", "replace") or decision.observed.state == "creating"


def estimated_seconds(decisions: Sequence[Decision]) -> float:
    """The upper end of the range."""
    return _critical_path_seconds(decisions, "high")


def _critical_path_seconds(decisions: Sequence[Decision], end: Literal["low", "high"]) -> float:
    finish: dict[str, float] = {}
    by_id = {d.resource.id: d for d in decisions if d.action != "delete"}
    for resource in topological_order([d.resource for d in by_id.values()]):
        start = max((finish[need] for need in resource.depends_on), default=0.0)
        took = getattr(resource.expected_duration, end) if _pending(by_id[resource.id]) else 0.0
        finish[resource.id] = start + took
    return max(finish.values(), default=0.0)
