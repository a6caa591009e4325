"""What drills do to calls of Google's APIs, in Google's words and with the caller's own names.

What changes the place itself (quotas, reservations, policies, machines) stands where that is kept, below google/.
"""

from __future__ import annotations

from collections.abc import Callable

from .answers import error_body
from .contract import JSON, ApiError, Call
from .drilled import runs
from .google.links import CONTAINER

_MAKES_NODES = (
    "container.projects.locations.clusters.nodePools.create",
    "container.projects.locations.clusters.nodePools.setSize",
)
_MAKES_CLUSTER = "container.projects.locations.clusters.create"
_CONNECTS = ("servicenetworking.services.connections.create", "servicenetworking.services.connections.patch")
_DOCUMENTS = "https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints"


def meet(call: Call) -> None:
    """Lets the operation that this call starts fail where a drill says so. A fault file's word goes first."""
    for name, failure in _FAILURES.items():
        if runs(name) and call.operation_error is None:
            call.operation_error = failure(call)


def _stock_out(call: Call) -> JSON | None:
    """NVIDIA/aicr issue 2764, akka/akka-core issue 32992."""
    if call.method_id not in _MAKES_NODES:
        return None
    asked = call.body.get("nodePool", {})
    count = int(asked.get("initialNodeCount") or call.body.get("nodeCount") or 0) or 1
    zone, project = _place(call, asked)
    return {
        "code": 8,
        "message": "Google Compute Engine: Not all instances running in IGM after 35m4.033429035s. "
        f"Expected {count}, running 0, transitioning {count}. Current errors: [GCE_STOCKOUT]: Instance creation failed: "
        f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill the request. "
        "'(resource type:compute)'.",
    }


def _policy(call: Call) -> JSON | None:
    """Machines: learn-terraform-provision-gke-cluster issue 8; peering: terraform-google-secure-cicd issue 70."""
    if call.method_id in _CONNECTS:
        number = call.world.project_number(_network_project(call))
        text = (
            f"Constraint constraints/compute.restrictVpcPeering violated for project {number}. Peering the network "
            "projects/servicenetworking/global/networks/servicenetworking is not allowed."
        )
    elif call.method_id in (*_MAKES_NODES, _MAKES_CLUSTER):
        _zone, project = _place(call, call.body.get("nodePool", {}))
        text = (
            "Not all instances running in IGM after 32.252902304s. Expected 1, running 0, transitioning 1. Current errors: "
            "[CONDITION_NOT_MET]: Instance creation failed: Constraint constraints/compute.requireShieldedVm violated for "
            f"project projects/{project}. Secure Boot is not enabled in the 'shielded_instance_config' field. See "
            f"{_DOCUMENTS} for more information."
        )
    else:
        return None
    return {"code": 9, "message": text}


_FAILURES: dict[str, Callable[[Call], JSON | None]] = {"stock-out": _stock_out, "org-policy": _policy}


def _network_project(call: Call) -> str:
    parts = str(call.body.get("network", "")).split("/")
    named = dict(zip(parts[::2], parts[1::2], strict=False))
    return call.world.project_id(named.get("projects", ""))


def _place(call: Call, asked: JSON) -> tuple[str, str]:
    """(zone, project) of a pool that is made or resized: its own, else its cluster's first."""
    path = str(call.params.get("name") or call.params.get("parent") or "")
    parts = path.split("/")
    project, location = parts[1], parts[3]
    found = [call.world.get(CONTAINER, key) for key in (path, path.split("/nodePools/")[0])]
    known = [zone for record in found if record for zone in record.body.get("locations", [])]
    return str([*(asked.get("locations") or []), *known, location][0]), project


def unauthenticated(service: str) -> JSON:
    """`do` of a refused token, as Google and as Kubernetes word it: terraform-provider-google issue 8521."""
    if service == "kubernetes":
        body: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Unauthorized",
            "reason": "Unauthorized",
            "code": 401,
        }
        return {"status": 401, "body": body}
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "ACCESS_TOKEN_EXPIRED",
        "domain": "googleapis.com",
        "metadata": {"service": service},
    }
    text = (
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
        "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project."
    )
    error = ApiError(401, text, "UNAUTHENTICATED", "authError", [info])
    return {"status": 401, "body": error_body(service, error)}
