"""The Ray head of a RayCluster: a port-forward of our own to its dashboard and its agent, with Ray's token where it has one."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from grpo_wizard.steps.clients.context import Cloud
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.access import KubeAccess
from grpo_wizard.steps.clients.kubernetes.api import Kube, connect
from grpo_wizard.steps.clients.kubernetes.port_forward import Forward, head_pod
from grpo_wizard.steps.clients.ray.jobs_api import RayJobs

DASHBOARD, AGENT = 8265, 52365


@dataclass(frozen=True)
class Head:
    """An open head. `agent_url` serves the log folder by byte ranges."""

    jobs: RayJobs
    dashboard_url: str
    agent_url: str
    access: KubeAccess
    namespace: str
    raycluster: str


def kube_access(cloud: Cloud, kube: Kube) -> KubeAccess:
    return KubeAccess(kube.where.server, kube.where.ca_pem.decode(), cloud.token)


def ray_token(kube: Kube, namespace: str, raycluster: str) -> str | None:
    """From the Secret named as the RayCluster, as KubeRay keeps it; none where Ray has no authentication (before 2.52)."""
    found = kube.get(f"/api/v1/namespaces/{namespace}/secrets/{raycluster}")
    value = (found or {}).get("data", {}).get("auth_token")
    return base64.b64decode(value).decode() if value else None


@asynccontextmanager
async def open_head(cloud: Cloud, where: Mapping[str, str], local_port: int = 0) -> AsyncIterator[Head]:
    """`where` as in the job's resource: project, location, cluster, namespace, raycluster. Raises CloudError while nothing is there."""
    import asyncio

    kube = await asyncio.to_thread(connect, cloud, where["project"], where["location"], where["cluster"])
    if kube is None:
        raise CloudError("busy", f"cluster {where['cluster']} is not up", transient=True)
    token = await asyncio.to_thread(ray_token, kube, where["namespace"], where["raycluster"])
    access = kube_access(cloud, kube)
    choose = head_pod(access, where["namespace"], where["raycluster"])
    async with (
        Forward(access, where["namespace"], choose, DASHBOARD, local_port=local_port) as dashboard,
        Forward(access, where["namespace"], choose, AGENT) as agent,
        RayJobs(dashboard.url, token) as jobs,
    ):
        yield Head(jobs, dashboard.url, agent.url, access, where["namespace"], where["raycluster"])
