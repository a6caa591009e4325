"""A cluster's Kubernetes API through the official client: one path for every request, so that each is audited and translated."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.errors import CloudError, set_project_id, translate
from grpo_wizard.steps.clients.google.gke import fetch_cluster
from grpo_wizard.steps.clients.serialization import JSON

_TIMEOUT = (10.0, 60.0)  # connect, read: seconds
_ENDPOINT_TTL_S = 1.0
_PATCHES = {"PATCH": "application/merge-patch+json"}


@dataclass(frozen=True)
class ClusterEndpoint:
    """Address of a cluster's API server, and the CA of its certificate."""

    server: str
    ca_pem: bytes


def cluster_endpoint(cloud: CloudContext, project: str, location: str, name: str) -> ClusterEndpoint | None:
    """Read the endpoint from GKE; None while the cluster does not exist or has no endpoint yet."""
    cluster = fetch_cluster(cloud, project, location, name)
    if (
        cluster is None
        or cluster.get("status") in ("PROVISIONING", "STOPPING", "ERROR")
        or not cluster.get("endpoint")
    ):
        return None
    return ClusterEndpoint(
        f"https://{cluster['endpoint']}", base64.b64decode(cluster["masterAuth"]["clusterCaCertificate"])
    )


def connect_cluster(
    cloud: CloudContext, project: str, location: str, name: str, fresh: bool = False
) -> KubeClient | None:
    """Connect to a cluster, None while it does not exist or is not ready. Raises CloudError if GKE cannot be read.

    The endpoint is read again each time, because a re-created cluster has another address.

    The answer is cached for a second: thirty objects read together share one request (it was a third of all requests).
    """
    try:
        found = cloud.cached(
            f"cluster {project}/{location}/{name}",
            lambda: cluster_endpoint(cloud, project, location, name),
            0 if fresh else _ENDPOINT_TTL_S,
        )
    except CloudError as error:
        # A denied read is unknown, not absent: `destroy` would count the cluster's objects as deleted.
        set_project_id(error, project)
        raise
    return cloud.singleton(f"kube {found}", lambda: KubeClient(cloud, found)) if found else None


class KubeClient:
    """GET, POST, PATCH and DELETE of plain dicts."""

    def __init__(self, cloud: CloudContext, endpoint: ClusterEndpoint) -> None:
        from kubernetes import client

        self._cloud, self.endpoint = cloud, endpoint
        configuration = client.Configuration(host=endpoint.server)
        configuration.retries = False  # the engine reads the object before it retries
        self._api = client.ApiClient(configuration)
        # Configuration.ssl_ca_cert takes a file only, and a killed process would leave that file behind.
        pools = self._api.rest_client.pool_manager
        pools.connection_pool_kw["ssl_context"] = ssl.create_default_context(
            cadata=endpoint.ca_pem.decode("ascii")
        )

    def get(self, path: str, query: Mapping[str, str] | None = None) -> JSON | None:
        """Read an object or a list; None for 404."""
        try:
            return self.send("GET", path, query=query)
        except CloudError as error:
            if error.kind == "not_found":
                return None
            raise

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> JSON:
        """Send one request. Raises CloudError."""
        url = f"{self.endpoint.server}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {
            "Accept": "application/json",
            "Authorization": f"Bearer {self._cloud.token()}",
            "Content-Type": _PATCHES.get(method, "application/json"),
        }
        try:
            with self._cloud.audit_request(method, url) as sent:
                answer = self._api.call_api(method, url, headers, body=body, _request_timeout=_TIMEOUT)
                sent.status = answer.status
                content = answer.read()
        except Exception as error:
            raise translate("kubernetes", error) from error
        if not 200 <= answer.status < 300:
            raise _error_from_response(answer.status, content)
        document: JSON = json.loads(content)
        return document


def _error_from_response(status: int, content: bytes) -> CloudError:
    from grpo_wizard.steps.clients.errors import from_response

    return from_response("kubernetes", status, content)
