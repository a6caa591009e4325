"""What apply does with each resource: decided from its configuration, its observed state and its record alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.steps.clients.registry import PROTECTED_KINDS, driver_for
from grpo_wizard.steps.core.model import ABSENT, Drift, ObservedState, Ownership, Resource

Action = Literal["create", "keep", "adopt", "change", "replace", "conflict", "delete"]

MUTATING = ("create", "change", "replace")
_STATE_WORDS = {"creating": "being created", "failed": "in an error state", "deleting": "being deleted"}


@dataclass(frozen=True)
class Decision:
    """One line of the plan."""

    resource: Resource
    action: Action
    observed: ObservedState
    ownership: Ownership
    note: str = ""


def ownership_of(observed: ObservedState, record: ResourceRecord | None, deployment_id: str) -> Ownership:
    """Whose an existing resource is.

    "created": it has our label, or our create succeeded and it is still the same one. "adopted": the user chose
    to use it. "none": it is not ours as far as we know.
    """
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
    """Where a resource of another owner does not match; only `adopt_paths` are compared."""
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
    """Decide about one resource. `replace` names protected resources that may be deleted and re-created."""
    ownership = ownership_of(observed, record, deployment_id)

    def decision(action: Action, note: str) -> Decision:
        return Decision(resource, action, observed, ownership, note)

    if resource.data_source:
        return decision(*_decide_data_source(resource, observed))
    if observed.state == "absent" or (observed.state == "deleting" and ownership != "none"):
        return decision("create", resource.note)
    if resource.retain_on_destroy and observed.state == "ready":
        return decision("keep", "already exists" if ownership == "none" else resource.note)
    if ownership == "created":
        return decision(*_decide_managed(resource, observed, replace))
    return decision(*_decide_foreign(resource, observed, adopted=ownership == "adopted"))


def _decide_data_source(resource: Resource, observed: ObservedState) -> tuple[Action, str]:
    """A resource that the user named as existing is used as it is; otherwise the plan cannot be carried out."""
    drift = foreign_drift(resource, observed)
    if observed.state == "ready" and not drift:
        return "keep", "configured as existing: used but never changed or deleted"
    if observed.state == "absent":
        return "conflict", "is configured as existing, but was not found"
    if observed.state == "ready":
        return "conflict", f"is configured as existing, but does not match the configuration: {_join(drift)}"
    return (
        "conflict",
        f"is configured as existing, but is {_STATE_WORDS[observed.state]}: {observed.detail}".rstrip(": "),
    )


def _decide_foreign(resource: Resource, observed: ObservedState, *, adopted: bool) -> tuple[Action, str]:
    owner = (
        f"was created by another deployment ({observed.owner_label})"
        if observed.owner_label
        else "was not created by this deployment"
    )
    if observed.state in ("failed", "deleting"):
        return (
            "conflict",
            f"exists, {owner}, and is {_STATE_WORDS[observed.state]}: {observed.detail}".rstrip(": "),
        )
    if drift := foreign_drift(resource, observed):
        return "conflict", f"exists, {owner}, and does not match the configuration: {_join(drift)}"
    return ("keep", "adopted") if adopted else ("adopt", f"exists, {owner}, and matches the configuration")


def _decide_managed(
    resource: Resource, observed: ObservedState, replace: Collection[str]
) -> tuple[Action, str]:
    driver = driver_for(resource.kind)
    if observed.state == "failed":
        if driver.recreate_on_failure:
            return "create", observed.detail
        return _replacement(resource, replace, f"is in an error state: {observed.detail}".rstrip(": "))
    if observed.state == "creating" or not observed.drift:
        return "keep", "still being created" if observed.state == "creating" else resource.note
    if resource.kind == "job":
        return (
            "conflict",
            f"its parameters differ from {observed.drift[0].actual}; wait for that job to end, or stop it with grpo-wizard stop",
        )
    fixed = [d for d in observed.drift if not driver.can_update(d.path)]
    if not fixed:
        return "change", _join(observed.drift)
    return _replacement(resource, replace, f"cannot be updated in place: {_join(fixed)}")


def _replacement(resource: Resource, replace: Collection[str], reason: str) -> tuple[Action, str]:
    if resource.kind in PROTECTED_KINDS and resource.id not in replace:
        return "conflict", f"{reason}; `apply --replace {resource.id}` would delete and re-create it"
    return "replace", reason


def _join(drift: Sequence[Drift], most: int = 3) -> str:
    return "; ".join(map(str, drift[:most]))


def make_plan(
    resources: Sequence[Resource],
    orphans: Sequence[Resource],
    observed: Mapping[str, ObservedState],
    deployment: Deployment,
    replace: Collection[str] = (),
) -> list[Decision]:
    """The whole plan in the wizard's order; resources that are no longer configured come last, to be deleted."""
    records, deployment_id = deployment.resources, deployment.lineage
    states = [(r, observed.get(r.id, ABSENT)) for r in resources]
    decisions = [
        decide(_with_remaining_time(r, state), state, records.get(r.id), deployment_id, replace)
        for r, state in states
    ]
    for orphan in orphans:
        state = observed.get(orphan.id, ABSENT)
        ours = ownership_of(state, records.get(orphan.id), deployment_id) == "created"
        if ours and not orphan.retain_on_destroy:
            decisions.append(Decision(orphan, "delete", state, "created", orphan.note))
    return _skip_unneeded_apis(decisions)


def _skip_unneeded_apis(decisions: list[Decision]) -> list[Decision]:
    """Leave disabled APIs disabled when everything else exists: they are enabled only for what they create.

    A resource behind an API that is needed to read it would have counted as absent, and would be created.
    """
    others = [d for d in decisions if d.resource.kind != "api"]
    if not others or any(d.action in MUTATING for d in others):
        return decisions
    return [
        dataclasses.replace(d, action="keep", note="not enabled because nothing in this plan needs it")
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
