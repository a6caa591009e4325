"""What checks ask of the outside. Each question is a function here; the answer is asked for once and shared."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from grpo_wizard.steps.clients.context import Cloud, absent_is_none, call
from grpo_wizard.steps.clients.errors import CloudError, in_project, translate
from grpo_wizard.steps.clients.google.compute import compute
from grpo_wizard.steps.clients.google.gke import container
from grpo_wizard.steps.clients.google.lustre import lustre
from grpo_wizard.steps.clients.google.resource_manager import (
    billing_account,
    fetch_project,
    projects,
    service_usage,
)
from grpo_wizard.steps.clients.queries import capacity, inventory  # noqa: F401  they register theirs
from grpo_wizard.steps.clients.queries.registry import QUESTIONS, question
from grpo_wizard.steps.clients.serialization import JSON


class LiveWorld:
    """Implements step.World over the real clients. Two checks that ask the same thing at once share one request."""

    def __init__(self, cloud: Cloud, lineage: str = "") -> None:
        self.cloud, self.mode, self.lineage = cloud, cloud.mode, lineage
        self._answers: dict[Any, Future[Any]] = {}
        self._lock = threading.Lock()

    def ask(self, question: str, **about: Any) -> Any:
        if question == "lineage":
            return self.lineage
        key = (question, tuple(sorted(about.items())))
        with self._lock:
            mine = key not in self._answers
            future = self._answers.setdefault(key, Future())
        if mine:
            try:
                future.set_result(QUESTIONS[question](self.cloud, **about))
            except Exception as error:
                problem = translate(question, error)
                if isinstance(problem, CloudError) and about.get("project"):
                    in_project(problem, about["project"])
                future.set_exception(problem)
        return future.result()


@question
def identity(cloud: Cloud) -> str:
    return cloud.identity


@question
def who(cloud: Cloud) -> JSON:
    """{account, kind, title, quota_project, gcloud_account}; of a rehearsal its account only."""
    return cloud.who.document() if cloud.who else {"account": cloud.identity, "kind": cloud.mode}


@question
def project(cloud: Cloud, project: str) -> JSON | None:
    """{number, state}."""
    seen = fetch_project(cloud, project)
    return {"number": str(seen["name"]).rpartition("/")[2], "state": seen.get("state", "")} if seen else None


@question
def billing(cloud: Cloud, project: str) -> bool:
    return bool(billing_account(cloud, project))


@question
def enabled_apis(cloud: Cloud, project: str) -> list[str]:
    listed = call(
        "serviceusage",
        service_usage(cloud).list_services,
        request={"parent": f"projects/{project}", "filter": "state:ENABLED", "page_size": 200},
    )
    return [service.config.name or service.name.rpartition("/")[2] for service in listed]


@question
def permissions(cloud: Cloud, project: str, wanted: tuple[str, ...]) -> list[str]:
    request = {"resource": f"projects/{project}", "permissions": list(wanted)}
    return list(
        call("cloudresourcemanager", projects(cloud).test_iam_permissions, request=request).permissions
    )


@question
def network_profile(cloud: Cloud, project: str, name: str) -> JSON | None:
    return absent_is_none(
        compute(cloud, "NetworkProfilesClient").get, "compute", {"project": project, "network_profile": name}
    )


@question
def networks(cloud: Cloud, project: str) -> list[str]:
    return [
        network.name
        for network in call("compute", compute(cloud, "NetworksClient").list, request={"project": project})
    ]


@question
def gke_versions(cloud: Cloud, project: str, location: str) -> JSON:
    """{default, valid} of the master versions served."""
    seen = call(
        "container",
        container(cloud).get_server_config,
        request={"name": f"projects/{project}/locations/{location}"},
    )
    return {"default": seen.default_cluster_version, "valid": list(seen.valid_master_versions)}


@question
def lustre_zones(cloud: Cloud, project: str) -> list[str]:
    """Zones that offer Managed Lustre; empty when the service does not list them."""
    from google.cloud.location import locations_pb2

    request = locations_pb2.ListLocationsRequest(name=f"projects/{project}")
    listed = call("lustre", lustre(cloud).list_locations, request=request)
    return [location.location_id for location in listed.locations]


@question
def hugging_face(cloud: Cloud, model: str) -> JSON:
    """Whether the token is known and the model open to it. A service that cannot be reached only warns."""
    from grpo_wizard.steps.clients.queries.tokens import hugging_face as ask

    return ask(cloud, model)


@question
def wandb(cloud: Cloud) -> JSON:
    from grpo_wizard.steps.clients.queries.tokens import weights_and_biases as ask

    return ask(cloud)
