"""A lost state file: what bears one other deployment's mark, and nothing else, can be taken up again under that mark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grpo_wizard.steps.engine.plan import Decision


@dataclass(frozen=True)
class RecoveryCandidate:
    """The lineage that everything of our names bears, and how many things do."""

    deployment_id: str
    count: int


def foreign_owners(decisions: Iterable[Decision]) -> dict[str, int]:
    """The marks on things of our names that are not ours, with how many bear each; "" counts those without one."""
    found: dict[str, int] = {}
    for decision in decisions:
        seen = decision.observed
        if seen.state != "absent" and not _is_retained(decision) and decision.ownership == "none":
            found[seen.owner_label] = found.get(seen.owner_label, 0) + 1
    return found


def _is_retained(decision: Decision) -> bool:
    """What is no sign of a deployment: switched on for all, or named by the user as being there already."""
    return decision.resource.retain_on_destroy or decision.resource.data_source


def recovery_candidate(decisions: Iterable[Decision]) -> RecoveryCandidate | None:
    """None where nothing is there, where marks differ, where some bear none, or where some are this deployment's own."""
    listed = list(decisions)
    if any(d.ownership != "none" for d in listed if not _is_retained(d)):
        return None
    found = foreign_owners(listed)
    return RecoveryCandidate(*next(iter(found.items()))) if len(found) == 1 and "" not in found else None


def recovery_hint(decisions: Iterable[Decision]) -> str:
    """One sentence for whoever looks at the plan; empty where there is nothing to take over."""
    found = recovery_candidate(decisions)
    return (
        (
            f"everything that is there bears the mark {found.deployment_id}: if it is yours and its state was lost, "
            "init --take-over goes on with it"
        )
        if found
        else ""
    )
