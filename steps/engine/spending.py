"""Spending limits of a plan: whether it keeps within them, and whether they can be enforced at all."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_wizard.steps.clients.registry import FREE_KINDS
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.engine.plan import MUTATING, Decision
from grpo_wizard.steps.pricing.book import hourly_cost
from grpo_wizard.steps.pricing.budget import BudgetGuard, SpendingLimits

_FIX = "Set the limit to 0 (no limit), or proceed with --skip-checks; the limit will then count only known prices."


def planned_resources(decisions: Sequence[Decision], priced: Sequence[Resource]) -> list[Resource]:
    """Return what exists once the plan is applied, with the prices that `priced` has now."""
    current = {resource.id: resource for resource in priced}
    return [current.get(d.resource.id, d.resource) for d in decisions if d.action != "delete"]


def unpriced_resources(decisions: Sequence[Decision], priced: Sequence[Resource]) -> list[Resource]:
    """Return what this deployment will be billed for at an unknown price.

    Adopted resources are somebody else's bill: no limit counts them.
    """
    own = [
        d
        for d in decisions
        if d.action != "adopt" and d.ownership != "adopted" and not d.resource.data_source
    ]
    return [r for r in planned_resources(own, priced) if r.usd_per_hour is None]


def describe_unpriced(resources: Sequence[Resource]) -> str:
    """Name resources in a sentence: `node pool gpu-pool, lustre nemo-lustre`."""
    return ", ".join(f"{r.kind.replace('_', ' ')} {r.name}" for r in resources)


def spending_errors(
    decisions: Sequence[Decision],
    budget: BudgetGuard,
    limits: SpendingLimits,
    *,
    allow_unpriced: bool = False,
) -> list[dict[str, str]]:
    """Explain why the limits forbid to carry out the plan; empty when they do not.

    A limit that cannot be enforced, because a billed resource has no known price, is an error too: it would promise
    what it cannot keep. Not in a rehearsal, where nothing is billed, and not where `allow_unpriced` accepts it.
    """
    found = []
    known, _ = hourly_cost(planned_resources(decisions, budget.resources))
    if limits.usd_per_hour is not None and known > limits.usd_per_hour:
        found.append(
            {
                "id": "price",
                "title": f"The cost of {known:.2f} USD/h exceeds the limit of {limits.usd_per_hour:.2f} USD/h",
                "detail": "",
                "fix": "Raise --max-usd-per-hour.",
            }
        )
    if not any(d.action in MUTATING for d in decisions):
        return found
    if error := budget.limit_error():
        found.append(error)
    unpriced = unpriced_resources(decisions, budget.resources) if limits.any_set else []
    if unpriced and not allow_unpriced and budget.deployment.mode == "real":
        found.append(
            {
                "id": "price",
                "title": "The spending limit cannot be enforced because no price is known for "
                + describe_unpriced(unpriced),
                "detail": "Neither the Cloud Billing Catalog nor the built-in price list includes a price.",
                "fix": _FIX,
            }
        )
    return found


def spending_notices(
    decisions: Sequence[Decision],
    budget: BudgetGuard,
    limits: SpendingLimits,
    *,
    allow_unpriced: bool = False,
) -> list[str]:
    """Return what a user should know of limits that do not stop the plan."""
    found = [text] if (text := budget.warning()) else []
    unpriced = unpriced_resources(decisions, budget.resources) if limits.any_set else []
    if unpriced and (allow_unpriced or budget.deployment.mode == "rehearsal"):
        found.append(
            f"The spending limit counts only known prices, but no price is known for {describe_unpriced(unpriced)}."
        )
    return found


def creates_free_resources(decisions: Sequence[Decision]) -> bool:
    """Whether the project or an API is still to be created: the price catalog may be readable only after that."""
    return any(d.resource.kind in FREE_KINDS and d.action in MUTATING for d in decisions)
