"""Deciding: what apply would do with each resource, from what shall be, what was seen, and what is remembered. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.steps.clients.registry import PROTECTED_KINDS, driver_for
from grpo_wizard.steps.core.model import ABSENT, Drift, ObservedState, Ownership, Resource

Action = Literal["create", "keep", "adopt", "change", "replace", "conflict", "delete"]

MUTATING = ("create", "change", "replace")  # actions that bring something about


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
    if resource.kind in PROTECTED_KINDS and resource.id not in replace:
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
        decide(_with_remaining_time(r, sight), sight, records.get(r.id), deployment.lineage, replace)
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


def _with_remaining_time(resource: Resource, observed: ObservedState) -> Resource:
    """Count only the steps that are left when a new job resumes from a checkpoint."""
    if observed.resume_step is None:
        return resource
    left = resource.expected_duration.remaining_after(observed.resume_step)
    return dataclasses.replace(resource, expected_duration=left)
