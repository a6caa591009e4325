"""Deciding: what apply would do with each resource, from what shall be, what was seen, and what is remembered. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.steps.clients.registry import driver_for
from grpo_wizard.steps.core.durations import format_duration_range
from grpo_wizard.steps.core.model import ABSENT, Drift, ObservedState, Ownership, Resource
from grpo_wizard.steps.grpo.duration import with_remaining_time

Action = Literal["create", "keep", "adopt", "change", "replace", "conflict", "delete"]

MUTATING = ("create", "change", "replace")  # actions that bring something about

# Data lives in these, or everything hangs on them: replaced only when --replace names them.
_PROTECTED_KINDS = {"lustre", "cluster", "pv", "pvc", "network", "subnet", "address", "peering", "project"}


@dataclass(frozen=True)
class Decision:
    """One line of the plan."""

    resource: Resource
    action: Action
    observed: ObservedState
    ownership: Ownership
    note: str = ""


def ownership_of(observed: ObservedState, record: ResourceRecord | None, deployment_id: str) -> Ownership:
    """Whose is it? Our mark, or our own create that was seen to succeed; the user's word for adopted things; else nobody's we know."""
    if observed.state == "absent":
        return "none"
    if observed.owner_label == deployment_id:
        return "created"
    same = record is not None and (
        not record.identity or not observed.identity or record.identity == observed.identity
    )
    if record is not None and record.origin == "created" and same:
        return "created"
    return "adopted" if record is not None and record.origin == "adopted" else "none"


def foreign_drift(resource: Resource, observed: ObservedState) -> list[Drift]:
    """Where somebody else's thing does not fit: only what matters is compared."""
    if resource.adopt_paths is None:
        return list(observed.drift)
    heads = tuple(resource.adopt_paths)
    return [
        d for d in observed.drift if any(d.path == head or d.path.startswith(head + ".") for head in heads)
    ]


def decide(
    resource: Resource,
    observed: ObservedState,
    record: ResourceRecord | None,
    deployment_id: str,
    replace: Collection[str] = (),
) -> Decision:
    origin = ownership_of(observed, record, deployment_id)
    if resource.data_source:
        return _decide_data_source(resource, observed, origin)
    if observed.state == "absent" or (observed.state == "deleting" and origin != "none"):
        return Decision(resource, "create", observed, origin, resource.note)
    if resource.retain_on_destroy and observed.state == "ready":
        return Decision(
            resource, "keep", observed, origin, "there already" if origin == "none" else resource.note
        )
    if origin == "created":
        return _decide_managed(resource, observed, replace)
    drift = foreign_drift(resource, observed)
    who = (
        f"made by another deployment ({observed.owner_label})"
        if observed.owner_label
        else "not made by this deployment"
    )
    if observed.state in ("failed", "deleting"):
        return Decision(
            resource,
            "conflict",
            observed,
            origin,
            f"is there, {who}, and {observed.state}: {observed.detail}".rstrip(": "),
        )
    if drift:
        return Decision(
            resource,
            "conflict",
            observed,
            origin,
            f"is there, {who}, and does not fit: " + "; ".join(map(str, drift[:3])),
        )
    return Decision(
        resource,
        "keep" if origin == "adopted" else "adopt",
        observed,
        origin,
        "adopted" if origin == "adopted" else f"is there, {who}, and fits",
    )


def _decide_data_source(resource: Resource, observed: ObservedState, origin: Ownership) -> Decision:
    """What the user named as being there already is used as it is, or is in the way of everything."""
    drift = foreign_drift(resource, observed)
    if observed.state == "ready" and not drift:
        return Decision(
            resource, "keep", observed, origin, "named by you: used, never changed and never deleted"
        )
    wrong = "; ".join(map(str, drift[:3]))
    trouble = (
        "it was named as an existing one and is not there"
        if observed.state == "absent"
        else f"it was named as an existing one and does not fit: {wrong}"
        if observed.state == "ready"
        else f"it was named as an existing one and is {observed.state}: {observed.detail}".rstrip(": ")
    )
    return Decision(resource, "conflict", observed, origin, trouble)


def _decide_managed(resource: Resource, observed: ObservedState, replace: Collection[str]) -> Decision:
    def decision(action: Action, note: str) -> Decision:
        return Decision(resource, action, observed, "created", note)

    if observed.state == "failed" and driver_for(resource.kind).recreate_on_failure:
        return decision("create", observed.detail)
    if observed.state == "failed":
        what = f"is in an error: {observed.detail}" if observed.detail else "is in an error"
        return _replacement(resource, observed, replace, what)
    if observed.state == "creating" or not observed.drift:
        return decision("keep", "still being made" if observed.state == "creating" else resource.note)
    if resource.kind == "job":
        return decision("conflict", f"{observed.drift[0]}; wait for it, or grpo-wizard stop")
    stuck = [d for d in observed.drift if not driver_for(resource.kind).can_update(d.path)]
    if not stuck:
        return decision("change", "; ".join(map(str, observed.drift[:3])))
    return _replacement(
        resource, observed, replace, "cannot be changed in place: " + "; ".join(map(str, stuck[:3]))
    )


def _replacement(resource: Resource, observed: ObservedState, replace: Collection[str], why: str) -> Decision:
    if resource.kind in _PROTECTED_KINDS and resource.id not in replace:
        return Decision(
            resource,
            "conflict",
            observed,
            "created",
            f"{why}; `apply --replace {resource.id}` deletes it and makes it again",
        )
    return Decision(resource, "replace", observed, "created", why)


def make_plan(
    resources: Sequence[Resource],
    orphans: Sequence[Resource],
    observed: Mapping[str, ObservedState],
    deployment: Deployment,
    replace: Collection[str] = (),
) -> list[Decision]:
    """The whole plan, in the wizard's order; things that are no longer wanted come last."""
    records = deployment.resources
    looked = [(r, observed.get(r.id, ABSENT)) for r in resources]
    decisions = [
        decide(with_remaining_time(r, sight), sight, records.get(r.id), deployment.lineage, replace)
        for r, sight in looked
    ]
    for orphan in orphans:
        sight = observed.get(orphan.id, ABSENT)
        if (
            ownership_of(sight, records.get(orphan.id), deployment.lineage) == "created"
            and not orphan.retain_on_destroy
        ):
            decisions.append(Decision(orphan, "delete", sight, "created", orphan.note))
    return _skip_unneeded_apis(decisions)


def _skip_unneeded_apis(decisions: list[Decision]) -> list[Decision]:
    """APIs are switched on for what is to be made with them: where all else stands, those that are off stay off.

    One that was needed to see something would have left that something absent, and so to be made.
    """
    others = [d for d in decisions if d.resource.kind != "api"]
    if not others or any(d.action in MUTATING for d in others):
        return decisions
    return [
        dataclasses.replace(d, action="keep", note="off; all else stands without it")
        if d.action == "create" and d.resource.kind == "api"
        else d
        for d in decisions
    ]


def topological_order(resources: Sequence[Resource]) -> list[Resource]:
    """So that everything stands behind what it needs. Raises ValueError for a circle or for a need that is nowhere."""
    by_id = {resource.id: resource for resource in resources}
    placed: dict[str, Resource] = {}

    def place(resource: Resource, above: tuple[str, ...]) -> None:
        if resource.id in above:
            raise ValueError(" -> ".join((*above, resource.id)))
        if resource.id not in placed:
            for need in resource.depends_on:
                if need not in by_id:
                    raise ValueError(f"{resource.id} needs {need}, which is no resource")
                place(by_id[need], (*above, resource.id))
            placed[resource.id] = resource

    for resource in resources:
        place(resource, ())
    return list(placed.values())


def retained_ids(resources: Sequence[Resource], steps: Collection[str]) -> set[str]:
    """What `destroy --keep STEP` leaves: the Google resources of these steps, and all that they need."""
    by_id = {resource.id: resource for resource in resources}
    waiting = [r.id for r in resources if r.step in steps and "cluster" not in r.parent]
    found: set[str] = set()
    while waiting:
        id = waiting.pop()
        if id in by_id and id not in found:
            found.add(id)
            waiting += by_id[id].depends_on
    return found


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


def hourly_cost(resources: Sequence[Resource]) -> tuple[float, list[str]]:
    """USD an hour of what has a known price, and the ids of what has none."""
    known = round(sum(r.usd_per_hour for r in resources if r.usd_per_hour), 4)
    return known, [r.id for r in resources if r.usd_per_hour is None]
