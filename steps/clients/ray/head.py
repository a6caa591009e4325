"""Connect to the Ray head of a RayCluster: port-forwards to its dashboard and its agent, and Ray's token if it has one."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.access import KubeAccess
from grpo_wizard.steps.clients.kubernetes.api import KubeClient, connect_cluster
from grpo_wizard.steps.clients.kubernetes.port_forward import PortForward, head_pod_selector
from grpo_wizard.steps.clients.ray.jobs_api import RayJobsClient

DASHBOARD_PORT, AGENT_PORT = 8265, 52365


@dataclass(frozen=True)
class RayHeadConnection:
    """An open connection. `agent_url` serves the log folder and supports range requests."""

    jobs: RayJobsClient
    dashboard_url: str
    agent_url: str
    access: KubeAccess
    namespace: str
    raycluster: str


def kube_access(cloud: CloudContext, kube: KubeClient) -> KubeAccess:
    return KubeAccess(kube.endpoint.server, kube.endpoint.ca_pem.decode(), cloud.token)


def ray_token(kube: KubeClient, namespace: str, raycluster: str) -> str | None:
    """Ray's token from the Secret with the RayCluster's name, where KubeRay keeps it; None without one (Ray before 2.52)."""
    found = kube.get(f"/api/v1/namespaces/{namespace}/secrets/{raycluster}")
    value = (found or {}).get("data", {}).get("auth_token")
    return base64.b64decode(value).decode() if value else None


@asynccontextmanager
async def open_head(
    cloud: CloudContext, parent: Mapping[str, str], local_port: int = 0
) -> AsyncIterator[RayHeadConnection]:
    """Open a connection. `parent` as in the job's resource: project, location, cluster, namespace, raycluster.

    Raises CloudError while the cluster does not exist or is not ready.
    """
    import asyncio

    kube = await asyncio.to_thread(
        connect_cluster, cloud, parent["project"], parent["location"], parent["cluster"]
    )
    if kube is None:
        raise CloudError("busy", f"Cluster {parent['cluster']} is not ready", transient=True)
    token = await asyncio.to_thread(ray_token, kube, parent["namespace"], parent["raycluster"])
    access = kube_access(cloud, kube)
    choose = head_pod_selector(access, parent["namespace"], parent["raycluster"])
    async with (
        PortForward(access, parent["namespace"], choose, DASHBOARD_PORT, local_port=local_port) as dashboard,
        PortForward(access, parent["namespace"], choose, AGENT_PORT) as agent,
        RayJobsClient(dashboard.url, token, audit=cloud.audit_request) as jobs,
    ):
        yield RayHeadConnection(
            jobs, dashboard.url, agent.url, access, parent["namespace"], parent["raycluster"]
        )
