"""What the tables of decisions share: a deployment with its label, resources, records, and observed states."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from grpo_wizard.state.home import Home
from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.core.model import Drift, ObservedState, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.registry import WORKFLOW

OURS, THEIRS = "gours12345", "gtheirs9999"  # owner labels: this deployment's, and another's
ID, LATER_ID = (
    "1001",
    "2002",
)  # identities: of the resource that was recorded, and of one created later under its name

Record = Literal["intended", "created", "adopted"]


def a_resource(kind: str = "subnet", name: str = "nemo", step: str = "networks", **changed: Any) -> Resource:
    """A resource of this deployment's configuration."""
    return Resource(step=step, kind=kind, name=name, spec=changed.pop("spec", {}), **changed)


def a_record(origin: Record, resource: Resource | None = None, **changed: Any) -> ResourceRecord:
    """What the state file says of it."""
    of = resource or a_resource()
    return ResourceRecord(kind=of.kind, name=of.name, step=of.step, origin=origin, **changed)


def observed(
    state: Any = "ready", label: str = "", identity: str = ID, drift: tuple[str, ...] = (), detail: str = ""
) -> ObservedState:
    """What the cloud answers. `drift` lists the paths that differ from the configuration."""
    return ObservedState(
        state, label, identity, tuple(Drift(path, "wanted", "found") for path in drift), detail
    )


def a_deployment(**records: ResourceRecord) -> Deployment:
    """A state file whose owner label is OURS."""
    by_id = {f"{record.step}.{record.kind}.{record.name}": record for record in records.values()}
    return Deployment(lineage=OURS, mode="rehearsal", name="nemo", resources=by_id)


def a_session(
    home: Path,
    answers: Answers,
    url: str = "http://127.0.0.1:9",
    *records: ResourceRecord,
) -> Session:
    """An opened deployment whose cloud is the HTTP server at `url`; the default refuses every connection."""
    from google.auth.credentials import AnonymousCredentials

    store = StateStore(Home(home))
    deployment = store.create("nemo", "rehearsal", answers.to_values(), OURS)
    deployment.resources = {f"{record.step}.{record.kind}.{record.name}": record for record in records}
    cloud = CloudContext("rehearsal", AnonymousCredentials(), "me@example.com", url, "token", float("inf"))  # type: ignore[no-untyped-call]
    return Session(store, deployment, cloud, answers, WORKFLOW)
