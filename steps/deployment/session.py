"""An opened deployment: its state, answers, resources, prices, and the clients of its cloud."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.clients.registry import KINDS
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.core.workflow import Workflow
from grpo_wizard.steps.pricing.book import BUILT_IN_PRICES, PriceBook, with_prices
from grpo_wizard.steps.pricing.budget import record_final_cost
from grpo_wizard.steps.pricing.refresh import load_price_book

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers
    from grpo_wizard.steps.clients.context import CloudContext


@dataclass
class Session:
    """What the engine works on. Whoever writes through it must hold the deployment's lock."""

    store: StateStore
    deployment: Deployment
    cloud: CloudContext
    answers: Answers
    workflow: Workflow
    price_book: PriceBook = field(default=BUILT_IN_PRICES)
    """Cached prices, until pricing/refresh.py asks for today's."""

    def __post_init__(self) -> None:
        """Open the price book with the deployment, for every front end. Never asks the network."""
        if self.price_book is BUILT_IN_PRICES:
            self.price_book = load_price_book(Path(self.store.home.root), self.deployment.mode)

    @classmethod
    def from_deployment(
        cls, store: StateStore, deployment: Deployment, cloud: CloudContext, workflow: Workflow
    ) -> Session:
        """Open a saved deployment; raises ValidationErrors when its answers are incomplete."""
        return cls(store, deployment, cloud, workflow.validate(deployment.answers), workflow)

    @property
    def owner_label(self) -> str:
        """The deployment id to label resources with; empty when the user turned labels off."""
        return self.deployment.lineage if self.answers.project.ownership_marks else ""

    def resources(self) -> list[Resource]:
        """The configured resources, in the wizard's order, with prices."""
        return with_prices(self.workflow.resources(self.answers), self.answers, self.price_book)

    def orphans(self) -> list[Resource]:
        """Resources created under answers that have changed since, rebuilt from their records."""
        configured = {resource.id for resource in self.resources()}
        return [
            resource_from_record(record)
            for id, record in self.deployment.resources.items()
            if id not in configured and record.origin != "adopted"
        ]

    def save(self) -> None:
        self.store.save(self.deployment)

    def record(self, resource: Resource) -> ResourceRecord:
        """The record of a resource; a new one holds what a later delete needs."""
        found = self.deployment.resources.get(resource.id)
        if found is None:
            found = ResourceRecord(
                kind=resource.kind,
                name=resource.name,
                step=resource.step,
                facts={
                    "where": json.dumps(dict(resource.parent)),
                    "needs": json.dumps(resource.depends_on),
                    "spec": json.dumps(_deletion_spec(resource)),
                    "kept": "yes" if resource.retain_on_destroy else "",
                },
            )
            self.deployment.resources[resource.id] = found
        return found

    def remove_record(self, id: str) -> None:
        """Forget a deleted resource; its final cost stays in the deployment's total."""
        record_final_cost(self.deployment, self.resources(), id, time.time())
        self.deployment.resources.pop(id, None)


def _deletion_spec(resource: Resource) -> dict[str, object]:
    """The part of a spec that deleting needs. Never a secret, never a large script."""
    spec, info = resource.spec, KINDS[resource.kind]
    if info.object_kind:
        meta = {key: spec["metadata"][key] for key in ("name", "namespace") if key in spec["metadata"]}
        return {"apiVersion": spec["apiVersion"], "kind": spec["kind"], "metadata": meta}
    return {key: spec[key] for key in info.recorded_keys if key in spec}


def resource_from_record(record: ResourceRecord) -> Resource:
    """Rebuild a resource that the answers no longer name, as far as reading and deleting it need it."""
    facts = record.facts
    return Resource(
        step=record.step,
        kind=record.kind,
        name=record.name,
        spec=json.loads(facts.get("spec", "{}")),
        parent=json.loads(facts.get("where", "{}")),
        depends_on=tuple(json.loads(facts.get("needs", "[]"))),
        retain_on_destroy=bool(facts.get("kept")),
        note="no longer configured",
    )
