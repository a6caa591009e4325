"""Recovering a lost state file: resources that all have one other deployment's label can be taken over with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grpo_wizard.steps.engine.plan import Decision


@dataclass(frozen=True)
class RecoveryCandidate:
    """The deployment id on every existing resource of the configured names, and how many there are."""

    deployment_id: str
    count: int


def foreign_owners(decisions: Iterable[Decision]) -> dict[str, int]:
    """Count the owner labels of existing resources that are not ours; "" counts those without a label."""
    found: dict[str, int] = {}
    for decision in decisions:
        label = decision.observed.owner_label
        if decision.observed.state != "absent" and not _is_shared(decision) and decision.ownership == "none":
            found[label] = found.get(label, 0) + 1
    return found


def _is_shared(decision: Decision) -> bool:
    """Whether it says nothing about a deployment: enabled for all, or configured as existing."""
    return decision.resource.retain_on_destroy or decision.resource.data_source


def recovery_candidate(decisions: Iterable[Decision]) -> RecoveryCandidate | None:
    """None when nothing exists, when labels differ or are missing, or when some resources are already ours."""
    listed = list(decisions)
    if any(d.ownership != "none" for d in listed if not _is_shared(d)):
        return None
    found = foreign_owners(listed)
    return RecoveryCandidate(*next(iter(found.items()))) if len(found) == 1 and "" not in found else None


def recovery_hint(decisions: Iterable[Decision]) -> str:
    """One sentence for the plan; empty when there is nothing to recover."""
    found = recovery_candidate(decisions)
    if found is None:
        return ""
    return (
        f"All existing resources are labelled {found.deployment_id}. If the deployment is yours and its state was "
        "lost, recover it with init --take-over."
    )
