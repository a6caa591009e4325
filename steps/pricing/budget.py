"""The cost of a deployment so far, as far as prices are known, and the limits that a user sets on it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.steps.core.model import ObservedState, Resource

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

WARNING_FRACTION = 0.8  # of the limit: a warning is shown from here on


@dataclass(frozen=True)
class CostToDate:
    """USD since `since` (a UTC time, empty before anything billable exists). `unpriced` resources are not in the sum."""

    known_usd: float
    since: str
    unpriced: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the value of `spent_usd` in JSON documents."""
        return {"known": round(self.known_usd, 2), "since": self.since or None}


def parse_time(text: str) -> float:
    """Parse a UTC time such as 2026-01-31T09:30:00Z into seconds since the epoch."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def cost_to_date(deployment: Deployment, resources: Sequence[Resource], now: float) -> CostToDate:
    """Sum the cost of what this deployment created: each resource since it became ready, and what is already deleted."""
    total, starts, unpriced = deployment.spent_usd, [], []
    ray = next((r for r in deployment.resources.values() if r.kind == "raycluster"), None)
    for resource in resources:
        record = deployment.resources.get(resource.id)
        if record is None or record.origin != "created" or resource.usd_per_hour == 0:
            continue
        start, end = _billing_period(resource, record, ray, now)
        if not start:
            continue
        starts.append(start)
        if resource.usd_per_hour is None:
            unpriced.append(resource.id)
        else:
            total += resource.usd_per_hour * max(0.0, end - parse_time(start)) / 3600
    return CostToDate(total, min(starts, default=""), tuple(unpriced))


def _billing_period(
    resource: Resource, record: ResourceRecord, ray: ResourceRecord | None, now: float
) -> tuple[str, float]:
    """Return start (empty: not yet) and end. A GPU pool has nodes only while the RayCluster's workers request them."""
    if resource.kind != "node_pool":
        return record.done_at, now
    if ray is None:
        return "", now
    ended = ray.facts.get("released", "").partition(" ")[0]
    return ray.intended_at, min(now, parse_time(ended)) if ended else now


def record_release(deployment: Deployment, observed: Mapping[str, ObservedState]) -> None:
    """Record when the RayCluster released its workers (a time and a reason): its GPU nodes are not billed after that."""
    for id, record in deployment.resources.items():
        if record.kind == "raycluster" and id in observed and observed[id].state != "absent":
            record.facts["released"] = observed[id].outputs.get("released", "")


def record_final_cost(deployment: Deployment, resources: Sequence[Resource], id: str, now: float) -> None:
    """Add a resource's cost to `spent_usd` before its record is removed; a RayCluster's with its GPU nodes' hours."""
    record = deployment.resources.get(id)
    if record is None:
        return
    gone = [r for r in resources if r.id == id or (record.kind == "raycluster" and r.kind == "node_pool")]
    deployment.spent_usd = round(cost_to_date(deployment, gone, now).known_usd, 4)


@dataclass(frozen=True)
class SpendingLimits:
    """USD in all and USD per hour; None: no limit."""

    total_usd: float | None = None
    usd_per_hour: float | None = None

    @property
    def any_set(self) -> bool:
        """Whether the user set a limit at all."""
        return self.total_usd is not None or self.usd_per_hour is not None


@dataclass(frozen=True)
class BudgetGuard:
    """Cost so far against a limit in USD; None: no limit."""

    deployment: Deployment
    resources: Sequence[Resource]
    limit: float | None

    def spent_usd(self) -> float:
        """USD until now, of resources with a known price."""
        return cost_to_date(self.deployment, self.resources, time.time()).known_usd

    def warning(self) -> str:
        """Return a sentence from 80 % of the limit on; empty below."""
        if self.limit is None or self.spent_usd() < WARNING_FRACTION * self.limit:
            return ""
        return f"{self.spent_usd():.2f} USD of the {self.limit:.2f} USD limit has been spent"

    def limit_error(self) -> dict[str, str] | None:
        """Explain why nothing more is created; None while the limit is not reached."""
        if self.limit is None or self.spent_usd() < self.limit:
            return None
        return {
            "id": "price",
            "title": f"Spending limit reached: {self.spent_usd():.2f} of {self.limit:.2f} USD has been spent",
            "detail": "No more resources will be created. Existing resources are still billed.",
            "fix": "Raise project.max_usd or --max-usd, or delete the resources with grpo-wizard destroy.",
        }


def spending_limit(answers: Answers, given: float | None) -> float | None:
    """Return the limit in force: --max-usd where given, else project.max_usd (0: no limit)."""
    return given if given is not None else (float(answers.project.max_usd) or None)
