"""What a deployment has cost so far, as far as prices are known, and the limit that the user may set on it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.steps.core.model import Resource, Sight

NEAR = 0.8  # of the limit: from here on it is warned


@dataclass(frozen=True)
class Spent:
    """USD since `since` (a UTC time, empty when nothing billable was made). `unknown` are things without a price."""

    known: float
    since: str
    unknown: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON documents show it."""
        return {"known": round(self.known, 2), "since": self.since or None}


def moment(text: str) -> float:
    """Seconds since the epoch of a time as documents write it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def spent(deployment: Deployment, resources: Sequence[Resource], now: float) -> Spent:
    """Of what this deployment made: each thing from when it stood, and what is gone already."""
    total, begins, unknown = deployment.spent_usd, [], []
    ray = next((r for r in deployment.resources.values() if r.kind == "raycluster"), None)
    for resource in resources:
        record = deployment.resources.get(resource.id)
        if record is None or record.origin != "created" or resource.usd_per_hour == 0:
            continue
        begin, end = _billed(resource, record, ray, now)
        if not begin:
            continue
        begins.append(begin)
        if resource.usd_per_hour is None:
            unknown.append(resource.id)
        else:
            total += resource.usd_per_hour * max(0.0, end - moment(begin)) / 3600
    return Spent(total, min(begins, default=""), tuple(unknown))


def _billed(
    resource: Resource, record: ResourceRecord, ray: ResourceRecord | None, now: float
) -> tuple[str, float]:
    """From when to when. A GPU pool has no machine before the RayCluster's workers ask for them, nor after their release."""
    if resource.kind != "node_pool":
        return record.done_at, now
    if ray is None:
        return "", now
    ended = ray.facts.get("released", "").partition(" ")[0]
    return ray.intended_at, min(now, moment(ended)) if ended else now


def note_release(deployment: Deployment, seen: Mapping[str, Sight]) -> None:
    """Writes down what the RayCluster's annotation says (a time and a reason): its GPU nodes cost nothing after it."""
    for id, record in deployment.resources.items():
        if record.kind == "raycluster" and id in seen and seen[id].state != "absent":
            record.facts["released"] = seen[id].facts.get("released", "")


def settle(deployment: Deployment, resources: Sequence[Resource], id: str, now: float) -> None:
    """Before a record is dropped its cost goes into the sum of what is gone. With the RayCluster go its GPU nodes' hours."""
    record = deployment.resources.get(id)
    if record is None:
        return
    gone = [r for r in resources if r.id == id or (record.kind == "raycluster" and r.kind == "node_pool")]
    deployment.spent_usd = round(spent(deployment, gone, now).known, 4)


@dataclass(frozen=True)
class Meter:
    """Spending against a limit in USD; None: no limit."""

    deployment: Deployment
    resources: Sequence[Resource]
    limit: float | None

    def spent(self) -> float:
        return spent(self.deployment, self.resources, time.time()).known

    def warning(self) -> str:
        """Said from 80 % of the limit on; empty below."""
        if self.limit is None or self.spent() < NEAR * self.limit:
            return ""
        return f"{self.spent():.2f} of at most {self.limit:.2f} USD are spent"

    def refusal(self) -> dict[str, str] | None:
        """Why nothing more is started; None while the limit is not reached."""
        if self.limit is None or self.spent() < self.limit:
            return None
        return {
            "id": "price",
            "title": f"{self.spent():.2f} USD are spent, the limit is {self.limit:.2f}: nothing more is started",
            "detail": "what is there already stays, and goes on costing",
            "fix": "raise project.max_usd or --max-usd, or take it down with grpo-wizard destroy",
        }


def limit_of(answers: Any, given: float | None) -> float | None:
    """The limit in force: the one given on the command line, else project.max_usd; 0 there is no limit."""
    return given if given is not None else (float(answers["project"].get("max_usd") or 0) or None)
