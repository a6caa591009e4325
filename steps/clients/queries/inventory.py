"""Questions about what is there already: projects, policies, networks and their ranges, clusters, Lustre."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from grpo_wizard.steps.clients.context import Cloud, call
from grpo_wizard.steps.clients.errors import from_answer, translate
from grpo_wizard.steps.clients.google.compute import compute
from grpo_wizard.steps.clients.google.gke import container
from grpo_wizard.steps.clients.google.lustre import lustre
from grpo_wizard.steps.clients.google.resource_manager import projects as project_client
from grpo_wizard.steps.clients.queries.registry import compute_all, question
from grpo_wizard.steps.clients.serialization import JSON, document

_POLICIES = "https://orgpolicy.googleapis.com"


@question
def projects(cloud: Cloud) -> list[JSON]:
    """{id, name, state} of every project that may be seen."""
    listed = call("cloudresourcemanager", project_client(cloud).search_projects, request={})
    return [
        {"id": one.project_id, "name": one.display_name, "state": one.state.name}
        for one in listed
        if one.state.name == "ACTIVE"
    ]


@question
def org_policy(cloud: Cloud, project: str, constraint: str) -> list[JSON]:
    """The rules of the policy in force on a project, after all that it inherits. A plain request: the SDK is no dependency."""
    url = f"{cloud.endpoint('orgpolicy') or _POLICIES}/v2/projects/{quote(project, safe=':')}/policies/{constraint}"
    try:
        answer = _session(cloud).get(f"{url}:getEffectivePolicy", timeout=60)
    except Exception as error:
        raise translate("orgpolicy.googleapis.com", error) from error
    if answer.status_code != 200:
        raise from_answer("orgpolicy.googleapis.com", answer.status_code, answer.content)
    return list(answer.json().get("spec", {}).get("rules", []))


def _session(cloud: Cloud) -> Any:
    """Whatever the thread: requests' sessions are safe for reads; a rehearsal asks no proxy."""

    def build() -> Any:
        from google.auth.transport.requests import AuthorizedSession

        session = AuthorizedSession(cloud.credentials)
        session.trust_env = cloud.mode == "real"
        return session

    return cloud.once("orgpolicy", build)


@question
def network_bodies(cloud: Cloud, project: str) -> list[JSON]:
    return compute_all(cloud, "NetworksClient", project=project)


@question
def subnets(cloud: Cloud, project: str, region: str) -> list[JSON]:
    return compute_all(cloud, "SubnetworksClient", project=project, region=region)


@question
def all_subnets(cloud: Cloud, project: str) -> list[JSON]:
    """Of every region: a VPC is one space of addresses."""
    pages = call("compute", compute(cloud, "SubnetworksClient").aggregated_list, request={"project": project})
    return [document(subnet) for _, listed in pages for subnet in listed.subnetworks]


@question
def routes(cloud: Cloud, project: str) -> list[JSON]:
    return compute_all(cloud, "RoutesClient", project=project)


@question
def global_addresses(cloud: Cloud, project: str) -> list[JSON]:
    return compute_all(cloud, "GlobalAddressesClient", project=project)


@question
def clusters(cloud: Cloud, project: str, location: str) -> list[JSON]:
    """With their node pools."""
    request = {"parent": f"projects/{project}/locations/{location}"}
    listed = document(call("container", container(cloud).list_clusters, request=request))
    return list(listed.get("clusters", []))


@question
def lustre_instances(cloud: Cloud, project: str, location: str) -> list[JSON]:
    request = {"parent": f"projects/{project}/locations/{location}"}
    return [
        document(one) | {"name": one.name}
        for one in call("lustre", lustre(cloud).list_instances, request=request)
    ]
