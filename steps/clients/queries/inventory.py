"""Questions about what is there already: projects, policies, networks and their ranges, clusters, Lustre."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from grpo_wizard.steps.clients.context import CloudContext, call
from grpo_wizard.steps.clients.errors import from_response, translate
from grpo_wizard.steps.clients.google.compute import compute_client
from grpo_wizard.steps.clients.google.gke import container_client
from grpo_wizard.steps.clients.google.lustre import lustre_client
from grpo_wizard.steps.clients.google.resource_manager import projects_client as project_client
from grpo_wizard.steps.clients.queries.registry import list_compute, query
from grpo_wizard.steps.clients.serialization import JSON, to_json

_POLICIES = "https://orgpolicy.googleapis.com"


@query
def projects(cloud: CloudContext) -> list[JSON]:
    """{id, name, state} of every project that may be seen."""
    listed = call("cloudresourcemanager", project_client(cloud).search_projects, request={})
    return [
        {"id": one.project_id, "name": one.display_name, "state": one.state.name}
        for one in listed
        if one.state.name == "ACTIVE"
    ]


@query
def org_policy(cloud: CloudContext, project: str, constraint: str) -> list[JSON]:
    """The rules of the policy in force on a project, after all that it inherits. A plain request: the SDK is no dependency."""
    url = f"{cloud.endpoint('orgpolicy') or _POLICIES}/v2/projects/{quote(project, safe=':')}/policies/{constraint}"
    try:
        answer = _session(cloud).get(f"{url}:getEffectivePolicy", timeout=60)
    except Exception as error:
        raise translate("orgpolicy.googleapis.com", error) from error
    if answer.status_code != 200:
        raise from_response("orgpolicy.googleapis.com", answer.status_code, answer.content)
    return list(answer.json().get("spec", {}).get("rules", []))


def _session(cloud: CloudContext) -> Any:
    """Whatever the thread: requests' sessions are safe for reads; a rehearsal asks no proxy."""

    def build() -> Any:
        from google.auth.transport.requests import AuthorizedSession

        session = AuthorizedSession(cloud.credentials)
        session.trust_env = cloud.mode == "real"
        return session

    return cloud.singleton("orgpolicy", build)


@query
def network_bodies(cloud: CloudContext, project: str) -> list[JSON]:
    return list_compute(cloud, "NetworksClient", project=project)


@query
def subnets(cloud: CloudContext, project: str, region: str) -> list[JSON]:
    return list_compute(cloud, "SubnetworksClient", project=project, region=region)


@query
def all_subnets(cloud: CloudContext, project: str) -> list[JSON]:
    """Of every region: a VPC is one space of addresses."""
    pages = call(
        "compute", compute_client(cloud, "SubnetworksClient").aggregated_list, request={"project": project}
    )
    return [to_json(subnet) for _, listed in pages for subnet in listed.subnetworks]


@query
def routes(cloud: CloudContext, project: str) -> list[JSON]:
    return list_compute(cloud, "RoutesClient", project=project)


@query
def global_addresses(cloud: CloudContext, project: str) -> list[JSON]:
    return list_compute(cloud, "GlobalAddressesClient", project=project)


@query
def clusters(cloud: CloudContext, project: str, location: str) -> list[JSON]:
    """With their node pools."""
    request = {"parent": f"projects/{project}/locations/{location}"}
    listed = to_json(call("container", container_client(cloud).list_clusters, request=request))
    return list(listed.get("clusters", []))


@query
def lustre_instances(cloud: CloudContext, project: str, location: str) -> list[JSON]:
    request = {"parent": f"projects/{project}/locations/{location}"}
    return [
        to_json(one) | {"name": one.name}
        for one in call("lustre", lustre_client(cloud).list_instances, request=request)
    ]
