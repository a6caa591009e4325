"""A lost state file: what bears one other deployment's mark, and nothing else, can be taken up again under that mark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grpo_wizard.steps.engine.plan import Decision


@dataclass(frozen=True)
class Offer:
    """The lineage that everything of our names bears, and how many things do."""

    lineage: str
    count: int


def marks(decisions: Iterable[Decision]) -> dict[str, int]:
    """The marks on things of our names that are not ours, with how many bear each; "" counts those without one."""
    found: dict[str, int] = {}
    for decision in decisions:
        seen = decision.sight
        if seen.state != "absent" and not _stays(decision) and decision.origin == "none":
            found[seen.mark] = found.get(seen.mark, 0) + 1
    return found


def _stays(decision: Decision) -> bool:
    """What is no sign of a deployment: switched on for all, or named by the user as being there already."""
    return decision.resource.kept or decision.resource.existing


def offer(decisions: Iterable[Decision]) -> Offer | None:
    """None where nothing is there, where marks differ, where some bear none, or where some are this deployment's own."""
    listed = list(decisions)
    if any(d.origin != "none" for d in listed if not _stays(d)):
        return None
    found = marks(listed)
    return Offer(*next(iter(found.items()))) if len(found) == 1 and "" not in found else None


def advice(decisions: Iterable[Decision]) -> str:
    """One sentence for whoever looks at the plan; empty where there is nothing to take over."""
    found = offer(decisions)
    return (
        (
            f"everything that is there bears the mark {found.lineage}: if it is yours and its state was lost, "
            "init --take-over goes on with it"
        )
        if found
        else ""
    )
