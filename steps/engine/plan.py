"""Deciding: what apply would do with each resource, from what shall be, what was seen, and what is remembered. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.steps.clients.registry import driver
from grpo_wizard.steps.core.durations import span
from grpo_wizard.steps.core.model import ABSENT, Drift, Origin, Resource, Sight
from grpo_wizard.steps.grpo.duration import as_left

Action = Literal["create", "keep", "adopt", "change", "replace", "conflict", "delete"]

STARTS = ("create", "change", "replace")  # actions that bring something about

# Data lives in these, or everything hangs on them: replaced only when --replace names them.
_GUARDED = {"lustre", "cluster", "pv", "pvc", "network", "subnet", "address", "peering", "project"}


@dataclass(frozen=True)
class Decision:
    """One line of the plan."""

    resource: Resource
    action: Action
    sight: Sight
    origin: Origin
    note: str = ""


def origin_of(sight: Sight, record: ResourceRecord | None, lineage: str) -> Origin:
    """Whose is it? Our mark, or our own create that was seen to succeed; the user's word for adopted things; else nobody's we know."""
    if sight.state == "absent":
        return "none"
    if sight.mark == lineage:
        return "created"
    same = record is not None and (
        not record.identity or not sight.identity or record.identity == sight.identity
    )
    if record is not None and record.origin == "created" and same:
        return "created"
    return "adopted" if record is not None and record.origin == "adopted" else "none"


def foreign_drift(resource: Resource, sight: Sight) -> list[Drift]:
    """Where somebody else's thing does not fit: only what matters is compared."""
    if resource.watch is None:
        return list(sight.drift)
    heads = tuple(resource.watch)
    return [d for d in sight.drift if any(d.path == head or d.path.startswith(head + ".") for head in heads)]


def decide(
    resource: Resource,
    sight: Sight,
    record: ResourceRecord | None,
    lineage: str,
    replace: Collection[str] = (),
) -> Decision:
    origin = origin_of(sight, record, lineage)
    if resource.existing:
        return _named(resource, sight, origin)
    if sight.state == "absent" or (sight.state == "deleting" and origin != "none"):
        return Decision(resource, "create", sight, origin, resource.note)
    if resource.kept and sight.state == "ready":
        return Decision(
            resource, "keep", sight, origin, "there already" if origin == "none" else resource.note
        )
    if origin == "created":
        return _ours(resource, sight, replace)
    drift = foreign_drift(resource, sight)
    who = f"made by another deployment ({sight.mark})" if sight.mark else "not made by this deployment"
    if sight.state in ("failed", "deleting"):
        return Decision(
            resource,
            "conflict",
            sight,
            origin,
            f"is there, {who}, and {sight.state}: {sight.detail}".rstrip(": "),
        )
    if drift:
        return Decision(
            resource,
            "conflict",
            sight,
            origin,
            f"is there, {who}, and does not fit: " + "; ".join(map(str, drift[:3])),
        )
    return Decision(
        resource,
        "keep" if origin == "adopted" else "adopt",
        sight,
        origin,
        "adopted" if origin == "adopted" else f"is there, {who}, and fits",
    )


def _named(resource: Resource, sight: Sight, origin: Origin) -> Decision:
    """What the user named as being there already is used as it is, or is in the way of everything."""
    drift = foreign_drift(resource, sight)
    if sight.state == "ready" and not drift:
        return Decision(
            resource, "keep", sight, origin, "named by you: used, never changed and never deleted"
        )
    wrong = "; ".join(map(str, drift[:3]))
    trouble = (
        "it was named as an existing one and is not there"
        if sight.state == "absent"
        else f"it was named as an existing one and does not fit: {wrong}"
        if sight.state == "ready"
        else f"it was named as an existing one and is {sight.state}: {sight.detail}".rstrip(": ")
    )
    return Decision(resource, "conflict", sight, origin, trouble)


def _ours(resource: Resource, sight: Sight, replace: Collection[str]) -> Decision:
    def decision(action: Action, note: str) -> Decision:
        return Decision(resource, action, sight, "created", note)

    if sight.state == "failed" and driver(resource.kind).repeatable:
        return decision("create", sight.detail)
    if sight.state == "failed":
        what = f"is in an error: {sight.detail}" if sight.detail else "is in an error"
        return _replacement(resource, sight, replace, what)
    if sight.state == "creating" or not sight.drift:
        return decision("keep", "still being made" if sight.state == "creating" else resource.note)
    if resource.kind == "job":
        return decision("conflict", f"{sight.drift[0]}; wait for it, or grpo-wizard stop")
    stuck = [d for d in sight.drift if not driver(resource.kind).can_change(d.path)]
    if not stuck:
        return decision("change", "; ".join(map(str, sight.drift[:3])))
    return _replacement(
        resource, sight, replace, "cannot be changed in place: " + "; ".join(map(str, stuck[:3]))
    )


def _replacement(resource: Resource, sight: Sight, replace: Collection[str], why: str) -> Decision:
    if resource.kind in _GUARDED and resource.id not in replace:
        return Decision(
            resource,
            "conflict",
            sight,
            "created",
            f"{why}; `apply --replace {resource.id}` deletes it and makes it again",
        )
    return Decision(resource, "replace", sight, "created", why)


def make_plan(
    resources: Sequence[Resource],
    orphans: Sequence[Resource],
    seen: Mapping[str, Sight],
    deployment: Deployment,
    replace: Collection[str] = (),
) -> list[Decision]:
    """The whole plan, in the wizard's order; things that are no longer wanted come last."""
    records = deployment.resources
    looked = [(r, seen.get(r.id, ABSENT)) for r in resources]
    decisions = [
        decide(as_left(r, sight), sight, records.get(r.id), deployment.lineage, replace)
        for r, sight in looked
    ]
    for orphan in orphans:
        sight = seen.get(orphan.id, ABSENT)
        if origin_of(sight, records.get(orphan.id), deployment.lineage) == "created" and not orphan.kept:
            decisions.append(Decision(orphan, "delete", sight, "created", orphan.note))
    return _without_idle_apis(decisions)


def _without_idle_apis(decisions: list[Decision]) -> list[Decision]:
    """APIs are switched on for what is to be made with them: where all else stands, those that are off stay off.

    One that was needed to see something would have left that something absent, and so to be made.
    """
    others = [d for d in decisions if d.resource.kind != "api"]
    if not others or any(d.action in STARTS for d in others):
        return decisions
    return [
        dataclasses.replace(d, action="keep", note="off; all else stands without it")
        if d.action == "create" and d.resource.kind == "api"
        else d
        for d in decisions
    ]


def order(resources: Sequence[Resource]) -> list[Resource]:
    """So that everything stands behind what it needs. Raises ValueError for a circle or for a need that is nowhere."""
    by_id = {resource.id: resource for resource in resources}
    placed: dict[str, Resource] = {}

    def place(resource: Resource, above: tuple[str, ...]) -> None:
        if resource.id in above:
            raise ValueError(" -> ".join((*above, resource.id)))
        if resource.id not in placed:
            for need in resource.needs:
                if need not in by_id:
                    raise ValueError(f"{resource.id} needs {need}, which is no resource")
                place(by_id[need], (*above, resource.id))
            placed[resource.id] = resource

    for resource in resources:
        place(resource, ())
    return list(placed.values())


def kept_back(resources: Sequence[Resource], steps: Collection[str]) -> set[str]:
    """What `destroy --keep STEP` leaves: the Google resources of these steps, and all that they need."""
    by_id = {resource.id: resource for resource in resources}
    waiting = [r.id for r in resources if r.step in steps and "cluster" not in r.where]
    found: set[str] = set()
    while waiting:
        id = waiting.pop()
        if id in by_id and id not in found:
            found.add(id)
            waiting += by_id[id].needs
    return found


def expected_range(decisions: Sequence[Decision]) -> tuple[float, float]:
    """Wall time of the longest chain of what is still to be made: at the lower and at the upper end of what is usual."""
    return _chain(decisions, "low"), _chain(decisions, "high")


def expected_parts(decisions: Sequence[Decision]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The same in two parts: until everything stands, and the training behind it (0 to 0 where none is to be started)."""
    making = expected_range([d for d in decisions if d.resource.kind != "job"])
    jobs = [d.resource.usual for d in decisions if d.resource.kind == "job" and _pending(d)]
    training = max(((usual.low, usual.high) for usual in jobs), default=(0.0, 0.0))
    return making, training


def expected_words(decisions: Sequence[Decision]) -> str:
    """`46–119 m, then the training 2 h 40 m–3 h 04 m`, one wording wherever a plan's time is said."""
    training = expected_parts(decisions)[1]
    return making_words(decisions) + (f", then the training {span(training)}" if training[1] else "")


def making_words(decisions: Sequence[Decision]) -> str:
    """The first part of it: until everything stands."""
    if all(d.action == "keep" and not _pending(d) for d in decisions):
        return "nothing to do"
    making = expected_parts(decisions)[0]
    return span(making) if making[1] else "moments"


def _pending(decision: Decision) -> bool:
    return decision.action in ("create", "replace") or decision.sight.state == "creating"


def expected_seconds(decisions: Sequence[Decision]) -> float:
    """The upper end of the range."""
    return _chain(decisions, "high")


def _chain(decisions: Sequence[Decision], end: Literal["low", "high"]) -> float:
    finish: dict[str, float] = {}
    by_id = {d.resource.id: d for d in decisions if d.action != "delete"}
    for resource in order([d.resource for d in by_id.values()]):
        start = max((finish[need] for need in resource.needs), default=0.0)
        took = getattr(resource.usual, end) if _pending(by_id[resource.id]) else 0.0
        finish[resource.id] = start + took
    return max(finish.values(), default=0.0)


def price(resources: Sequence[Resource]) -> tuple[float, list[str]]:
    """USD an hour of what has a known price, and the ids of what has none."""
    known = round(sum(r.usd_per_hour for r in resources if r.usd_per_hour), 4)
    return known, [r.id for r in resources if r.usd_per_hour is None]
