"""What checks ask of the outside. Each question is a function here; the answer is asked for once and shared."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from grpo_wizard.steps.clients.context import CloudContext, call, get_or_none
from grpo_wizard.steps.clients.errors import CloudError, set_project_id, translate
from grpo_wizard.steps.clients.google.compute import compute_client
from grpo_wizard.steps.clients.google.gke import container_client
from grpo_wizard.steps.clients.google.lustre import lustre_client
from grpo_wizard.steps.clients.google.resource_manager import (
    billing_account,
    fetch_project,
    projects_client,
    service_usage_client,
)
from grpo_wizard.steps.clients.queries import capacity, inventory  # noqa: F401  they register theirs
from grpo_wizard.steps.clients.queries.registry import QUERIES, query
from grpo_wizard.steps.clients.serialization import JSON


class CachedCloudReader:
    """Implements step.World over the real clients. Two checks that ask the same thing at once share one request."""

    def __init__(self, cloud: CloudContext, deployment_id: str = "") -> None:
        self.cloud, self.mode, self.deployment_id = cloud, cloud.mode, deployment_id
        self._results: dict[Any, Future[Any]] = {}
        self._lock = threading.Lock()

    def ask(self, question: str, **about: Any) -> Any:
        if question == "lineage":
            return self.deployment_id
        key = (question, tuple(sorted(about.items())))
        with self._lock:
            mine = key not in self._results
            future = self._results.setdefault(key, Future())
        if mine:
            try:
                future.set_result(QUERIES[question](self.cloud, **about))
            except Exception as error:
                problem = translate(question, error)
                if isinstance(problem, CloudError) and about.get("project"):
                    set_project_id(problem, about["project"])
                future.set_exception(problem)
        return future.result()


@query
def identity(cloud: CloudContext) -> str:
    return cloud.account


@query
def who(cloud: CloudContext) -> JSON:
    """{account, kind, title, quota_project, gcloud_account}; of a rehearsal its account only."""
    return (
        cloud.credentials_info.to_json()
        if cloud.credentials_info
        else {"account": cloud.account, "kind": cloud.mode}
    )


@query
def project(cloud: CloudContext, project: str) -> JSON | None:
    """{number, state}."""
    seen = fetch_project(cloud, project)
    return {"number": str(seen["name"]).rpartition("/")[2], "state": seen.get("state", "")} if seen else None


@query
def billing(cloud: CloudContext, project: str) -> bool:
    return bool(billing_account(cloud, project))


@query
def enabled_apis(cloud: CloudContext, project: str) -> list[str]:
    listed = call(
        "serviceusage",
        service_usage_client(cloud).list_services,
        request={"parent": f"projects/{project}", "filter": "state:ENABLED", "page_size": 200},
    )
    return [service.config.name or service.name.rpartition("/")[2] for service in listed]


@query
def permissions(cloud: CloudContext, project: str, wanted: tuple[str, ...]) -> list[str]:
    request = {"resource": f"projects/{project}", "permissions": list(wanted)}
    return list(
        call("cloudresourcemanager", projects_client(cloud).test_iam_permissions, request=request).permissions
    )


@query
def network_profile(cloud: CloudContext, project: str, name: str) -> JSON | None:
    return get_or_none(
        compute_client(cloud, "NetworkProfilesClient").get,
        "compute",
        {"project": project, "network_profile": name},
    )


@query
def networks(cloud: CloudContext, project: str) -> list[str]:
    return [
        network.name
        for network in call(
            "compute", compute_client(cloud, "NetworksClient").list, request={"project": project}
        )
    ]


@query
def gke_versions(cloud: CloudContext, project: str, location: str) -> JSON:
    """{default, valid} of the master versions served."""
    seen = call(
        "container",
        container_client(cloud).get_server_config,
        request={"name": f"projects/{project}/locations/{location}"},
    )
    return {"default": seen.default_cluster_version, "valid": list(seen.valid_master_versions)}


@query
def lustre_zones(cloud: CloudContext, project: str) -> list[str]:
    """Zones that offer Managed Lustre; empty when the service does not list them."""
    from google.cloud.location import locations_pb2

    request = locations_pb2.ListLocationsRequest(name=f"projects/{project}")
    listed = call("lustre", lustre_client(cloud).list_locations, request=request)
    return [location.location_id for location in listed.locations]


@query
def hugging_face(cloud: CloudContext, model: str) -> JSON:
    """Whether the token is known and the model open to it. A service that cannot be reached only warns."""
    from grpo_wizard.steps.clients.queries.tokens import check_hugging_face_token as ask

    return ask(cloud, model)


@query
def wandb(cloud: CloudContext) -> JSON:
    from grpo_wizard.steps.clients.queries.tokens import check_wandb_key as ask

    return ask(cloud)
