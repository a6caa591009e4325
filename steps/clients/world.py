"""What checks ask of the outside. Each question is a function here; the answer is asked for once and shared."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from .cloud import Cloud, call
from .compute import compute
from .errors import CloudError, translate
from .gke import container
from .lustre import lustre
from .project import billing_account, fetch_project, projects, service_usage
from .wire import JSON, document

_QUESTIONS: dict[str, Callable[..., Any]] = {}


def _question(function: Callable[..., Any]) -> Callable[..., Any]:
    _QUESTIONS[function.__name__] = function
    return function


class LiveWorld:
    """Implements step.World over the real clients. Two checks that ask the same thing at once share one request."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.mode = cloud, cloud.mode
        self._answers: dict[Any, Future[Any]] = {}
        self._lock = threading.Lock()

    def ask(self, question: str, **about: Any) -> Any:
        key = (question, tuple(sorted(about.items())))
        with self._lock:
            mine = key not in self._answers
            future = self._answers.setdefault(key, Future())
        if mine:
            try:
                future.set_result(_QUESTIONS[question](self.cloud, **about))
            except Exception as error:
                future.set_exception(translate(question, error))
        return future.result()


def _absent_is_none(function: Callable[..., Any], service: str, request: JSON) -> JSON | None:
    try:
        return document(call(service, function, request=request))
    except CloudError as error:
        if error.kind == "not_found":
            return None
        raise


@_question
def identity(cloud: Cloud) -> str:
    return cloud.identity


@_question
def project(cloud: Cloud, project: str) -> JSON | None:
    """{number, state}."""
    seen = fetch_project(cloud, project)
    return {"number": str(seen["name"]).rpartition("/")[2], "state": seen.get("state", "")} if seen else None


@_question
def billing(cloud: Cloud, project: str) -> bool:
    return bool(billing_account(cloud, project))


@_question
def enabled_apis(cloud: Cloud, project: str) -> list[str]:
    listed = call(
        "serviceusage",
        service_usage(cloud).list_services,
        request={"parent": f"projects/{project}", "filter": "state:ENABLED", "page_size": 200},
    )
    return [service.config.name or service.name.rpartition("/")[2] for service in listed]


@_question
def permissions(cloud: Cloud, project: str, wanted: tuple[str, ...]) -> list[str]:
    request = {"resource": f"projects/{project}", "permissions": list(wanted)}
    return list(
        call("cloudresourcemanager", projects(cloud).test_iam_permissions, request=request).permissions
    )


@_question
def machine_type(cloud: Cloud, project: str, zone: str, name: str) -> JSON | None:
    return _absent_is_none(
        compute(cloud, "MachineTypesClient").get,
        "compute",
        {"project": project, "zone": zone, "machine_type": name},
    )


@_question
def network_profile(cloud: Cloud, project: str, name: str) -> JSON | None:
    return _absent_is_none(
        compute(cloud, "NetworkProfilesClient").get, "compute", {"project": project, "network_profile": name}
    )


@_question
def reservation(cloud: Cloud, project: str, zone: str, name: str) -> JSON | None:
    return _absent_is_none(
        compute(cloud, "ReservationsClient").get,
        "compute",
        {"project": project, "zone": zone, "reservation": name},
    )


@_question
def reservations(cloud: Cloud, project: str, zone: str) -> list[JSON]:
    """All of a zone, to choose from."""
    return [
        document(r)
        for r in call(
            "compute", compute(cloud, "ReservationsClient").list, request={"project": project, "zone": zone}
        )
    ]


@_question
def reservation_zones(cloud: Cloud, project: str, name: str) -> list[str]:
    pages = call(
        "compute", compute(cloud, "ReservationsClient").aggregated_list, request={"project": project}
    )
    return sorted(
        scope.rpartition("/")[2]
        for scope, listed in pages
        if any(r.name == name for r in listed.reservations)
    )


@_question
def networks(cloud: Cloud, project: str) -> list[str]:
    return [
        network.name
        for network in call("compute", compute(cloud, "NetworksClient").list, request={"project": project})
    ]


@_question
def subnets(cloud: Cloud, project: str, region: str) -> list[JSON]:
    return [
        document(s)
        for s in call(
            "compute",
            compute(cloud, "SubnetworksClient").list,
            request={"project": project, "region": region},
        )
    ]


@_question
def region_quota(cloud: Cloud, project: str, region: str, metric: str) -> JSON | None:
    """{limit, usage}; None when the region does not name that metric."""
    seen = document(
        call("compute", compute(cloud, "RegionsClient").get, request={"project": project, "region": region})
    )
    return _quota(seen, metric)


@_question
def project_quota(cloud: Cloud, project: str, metric: str) -> float | None:
    found = _quota(
        document(call("compute", compute(cloud, "ProjectsClient").get, request={"project": project})), metric
    )
    return found["limit"] if found else None


def _quota(body: JSON, metric: str) -> JSON | None:
    row = next((q for q in body.get("quotas", []) if q.get("metric") == metric), None)
    return {"limit": float(row.get("limit", 0)), "usage": float(row.get("usage", 0))} if row else None


@_question
def gpu_quota(cloud: Cloud, project: str, region: str, family: str) -> int | None:
    """GPUs of a family in a region by Cloud Quotas; compute's own list does not know B200 and H200 (google-cloud.md §3.6)."""
    client = cloud.rest("cloudquotas", "google.cloud.cloudquotas_v1", "CloudQuotasClient")
    name = f"projects/{project}/locations/global/services/compute.googleapis.com/quotaInfos/GPUS-PER-GPU-FAMILY-per-project-region"
    info = document(call("cloudquotas", client.get_quota_info, request={"name": name}))
    for row in info.get("dimensionsInfos", []):
        at = row.get("dimensions", {})
        if at.get("gpu_family") == family and (
            region in row.get("applicableLocations", []) or at.get("region") == region
        ):
            return int(row.get("details", {}).get("value", 0))
    return None


@_question
def gke_versions(cloud: Cloud, project: str, location: str) -> JSON:
    """{default, valid} of the master versions served."""
    seen = call(
        "container",
        container(cloud).get_server_config,
        request={"name": f"projects/{project}/locations/{location}"},
    )
    return {"default": seen.default_cluster_version, "valid": list(seen.valid_master_versions)}


@_question
def lustre_zones(cloud: Cloud, project: str) -> list[str]:
    """Zones that offer Managed Lustre; empty when the service does not list them."""
    from google.cloud.location import locations_pb2

    listed = lustre(cloud).list_locations(
        locations_pb2.ListLocationsRequest(name=f"projects/{project}"), retry=None, timeout=60
    )
    return [location.location_id for location in listed.locations]


@_question
def hugging_face(cloud: Cloud, model: str) -> JSON:
    """Whether the token is known and the model open to it. A service that cannot be reached only warns."""
    from .tokens import hugging_face as ask

    return ask(cloud, model)


@_question
def wandb(cloud: Cloud) -> JSON:
    from .tokens import weights_and_biases as ask

    return ask(cloud)
