"""What a deployment has cost so far, as far as prices are known, and the limit that the user may set on it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.steps.core.model import ObservedState, Resource

WARNING_FRACTION = 0.8  # of the limit: from here on it is warned


@dataclass(frozen=True)
class CostToDate:
    """USD since `since` (a UTC time, empty when nothing billable was made). `unknown` are things without a price."""

    known_usd: float
    since: str
    unpriced: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON documents show it."""
        return {"known": round(self.known_usd, 2), "since": self.since or None}


def parse_time(text: str) -> float:
    """Seconds since the epoch of a time as documents write it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def cost_to_date(deployment: Deployment, resources: Sequence[Resource], now: float) -> CostToDate:
    """Of what this deployment made: each thing from when it stood, and what is gone already."""
    total, begins, unknown = deployment.spent_usd, [], []
    ray = next((r for r in deployment.resources.values() if r.kind == "raycluster"), None)
    for resource in resources:
        record = deployment.resources.get(resource.id)
        if record is None or record.origin != "created" or resource.usd_per_hour == 0:
            continue
        begin, end = _billing_period(resource, record, ray, now)
        if not begin:
            continue
        begins.append(begin)
        if resource.usd_per_hour is None:
            unknown.append(resource.id)
        else:
            total += resource.usd_per_hour * max(0.0, end - parse_time(begin)) / 3600
    return CostToDate(total, min(begins, default=""), tuple(unknown))


def _billing_period(
    resource: Resource, record: ResourceRecord, ray: ResourceRecord | None, now: float
) -> tuple[str, float]:
    """From when to when. A GPU pool has no machine before the RayCluster's workers ask for them, nor after their release."""
    if resource.kind != "node_pool":
        return record.done_at, now
    if ray is None:
        return "", now
    ended = ray.facts.get("released", "").partition(" ")[0]
    return ray.intended_at, min(now, parse_time(ended)) if ended else now


def record_release(deployment: Deployment, seen: Mapping[str, ObservedState]) -> None:
    """Writes down what the RayCluster's annotation says (a time and a reason): its GPU nodes cost nothing after it."""
    for id, record in deployment.resources.items():
        if record.kind == "raycluster" and id in seen and seen[id].state != "absent":
            record.facts["released"] = seen[id].outputs.get("released", "")


def record_final_cost(deployment: Deployment, resources: Sequence[Resource], id: str, now: float) -> None:
    """Before a record is dropped its cost goes into the sum of what is gone. With the RayCluster go its GPU nodes' hours."""
    record = deployment.resources.get(id)
    if record is None:
        return
    gone = [r for r in resources if r.id == id or (record.kind == "raycluster" and r.kind == "node_pool")]
    deployment.spent_usd = round(cost_to_date(deployment, gone, now).known_usd, 4)


@dataclass(frozen=True)
class BudgetGuard:
    """Spending against a limit in USD; None: no limit."""

    deployment: Deployment
    resources: Sequence[Resource]
    limit: float | None

    def spent_usd(self) -> float:
        return cost_to_date(self.deployment, self.resources, time.time()).known_usd

    def warning(self) -> str:
        """Said from 80 % of the limit on; empty below."""
        if self.limit is None or self.spent_usd() < WARNING_FRACTION * self.limit:
            return ""
        return f"{self.spent_usd():.2f} of at most {self.limit:.2f} USD are spent"

    def limit_error(self) -> dict[str, str] | None:
        """Why nothing more is started; None while the limit is not reached."""
        if self.limit is None or self.spent_usd() < self.limit:
            return None
        return {
            "id": "price",
            "title": f"{self.spent_usd():.2f} USD are spent, the limit is {self.limit:.2f}: nothing more is started",
            "detail": "what is there already stays, and goes on costing",
            "fix": "raise project.max_usd or --max-usd, or take it down with grpo-wizard destroy",
        }


def spending_limit(answers: Any, given: float | None) -> float | None:
    """The limit in force: the one given on the command line, else project.max_usd; 0 there is no limit."""
    return given if given is not None else (float(answers["project"].get("max_usd") or 0) or None)
