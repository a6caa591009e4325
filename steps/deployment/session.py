"""A deployment that has been opened: its state, its answers, its resources, and the outside it lives in."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.state.store import Store
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.pricing.book import CATALOGUE, Book
from grpo_wizard.steps.pricing.budget import settle
from grpo_wizard.steps.registry import all_resources, complete

if TYPE_CHECKING:
    from grpo_wizard.steps.clients.context import Cloud


@dataclass
class Session:
    """What the engine works on. The caller holds the deployment's lock while anything here writes."""

    store: Store
    deployment: Deployment
    cloud: Cloud
    answers: dict[str, dict[str, Any]]
    book: Book = field(default=CATALOGUE)  # prices; today's once they were asked for (price_list.py)

    @classmethod
    def of(cls, store: Store, deployment: Deployment, cloud: Cloud) -> Session:
        return cls(store, deployment, cloud, complete(deployment.answers))

    @property
    def mark(self) -> str:
        """The lineage that is written on what we make; empty when the user switched marks off."""
        return self.deployment.lineage if self.answers["project"]["ownership_marks"] else ""

    def resources(self) -> list[Resource]:
        """What shall exist."""
        return all_resources(self.answers, self.book)

    def orphans(self) -> list[Resource]:
        """What we made under answers that have changed since: rebuilt from what was noted when it was made."""
        wanted = {resource.id for resource in self.resources()}
        return [
            _remembered(record)
            for id, record in self.deployment.resources.items()
            if id not in wanted and record.origin != "adopted"
        ]

    def save(self) -> None:
        self.store.save(self.deployment)

    def record(self, resource: Resource) -> ResourceRecord:
        """The record of a resource; made, with what a later undo needs, when there is none."""
        found = self.deployment.resources.get(resource.id)
        if found is None:
            found = ResourceRecord(
                kind=resource.kind,
                name=resource.name,
                step=resource.step,
                facts={
                    "where": json.dumps(dict(resource.where)),
                    "needs": json.dumps(resource.needs),
                    "spec": json.dumps(_skeleton(resource)),
                    "kept": "yes" if resource.kept else "",
                },
            )
            self.deployment.resources[resource.id] = found
        return found

    def forget(self, id: str) -> None:
        settle(self.deployment, self.resources(), id, time.time())
        self.deployment.resources.pop(id, None)


def _skeleton(resource: Resource) -> dict[str, Any]:
    """As much of a spec as deleting needs: which object it is. Never a secret, never a large script."""
    spec = resource.spec
    if "apiVersion" in spec:
        meta = {key: spec["metadata"][key] for key in ("name", "namespace") if key in spec["metadata"]}
        return {"apiVersion": spec["apiVersion"], "kind": spec["kind"], "metadata": meta}
    return {
        key: spec[key]
        for key in ("network", "reservedPeeringRanges", "billingAccount", "role", "member")
        if key in spec
    }


def _remembered(record: ResourceRecord) -> Resource:
    noted = record.facts
    return Resource(
        record.step,
        record.kind,
        record.name,
        json.loads(noted.get("spec", "{}")),
        json.loads(noted.get("where", "{}")),
        tuple(json.loads(noted.get("needs", "[]"))),
        kept=bool(noted.get("kept")),
        note="no longer among the answers",
    )
