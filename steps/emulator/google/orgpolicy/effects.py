"""What organisation policies forbid, in the words of the services that heed them.

Machines: learn-terraform-provision-gke-cluster issue 8, googlecodelabs/feedback issue 695; peering:
terraform-google-secure-cicd issue 70. That GKE and Lustre refuse a location at once, and how, is inferred.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.google.orgpolicy import policies
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call

MAKES_NODES = (
    "container.projects.locations.clusters.nodePools.create",
    "container.projects.locations.clusters.nodePools.setSize",
)
_MAKES_CLUSTER = "container.projects.locations.clusters.create"
_CONNECTS = ("servicenetworking.services.connections.create", "servicenetworking.services.connections.patch")
_IN_PLACE = {
    _MAKES_CLUSTER: "clusters",
    "lustre.projects.locations.instances.create": "instances",
    "compute.reservations.insert": "reservations",
    "compute.subnetworks.insert": "subnetworks",
}
_DOCUMENTS = "https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints"
_BEFORE = (
    "Not all instances running in IGM after 32.252902304s. Expected 1, running 0, transitioning 1. Current errors: "
    "[CONDITION_NOT_MET]: Instance creation failed: "
)


def refuse(call: Call) -> None:
    """Raises 412 (other services than Compute: 400) for a thing in a place that gcp.resourceLocations keeps out."""
    if call.method_id not in _IN_PLACE:
        return
    parts = str(call.params.get("parent") or "").split("/")
    project = str(call.params.get("project") or parts[1])
    location = str(call.params.get("region") or call.params.get("zone") or parts[-1])
    if not policies.forbids_location(call.world, project, location):
        return
    name = call.body.get("name") or call.body.get("cluster", {}).get("name") or call.params.get("instanceId")
    scope = next(
        (f"{kind}s/{location}" for kind in ("region", "zone") if kind in call.params), f"locations/{location}"
    )
    thing = f"projects/{project}/{scope}/{_IN_PLACE[call.method_id]}/{name}"
    text = f"'{location}' violates constraint 'constraints/gcp.resourceLocations' on the resource '{thing}'."
    code = 412 if call.service == "compute.googleapis.com" else 400
    raise ApiError(code, text, "FAILED_PRECONDITION", "conditionNotMet")


def failure(call: Call) -> JSON | None:
    """What the operation that a call starts ends with; None where no policy stands against it."""
    if call.method_id in _CONNECTS:
        return _peering(call)
    if call.method_id in (*MAKES_NODES, _MAKES_CLUSTER):
        return _machines(call)
    return None


def _peering(call: Call) -> JSON | None:
    parts = str(call.body.get("network", "")).split("/")
    named = dict(zip(parts[::2], parts[1::2], strict=False))
    project = call.world.project_id(named.get("projects", ""))
    if not policies.forbids(call.world, project, policies.PEERING):
        return None
    return _failed(
        f"Constraint constraints/compute.restrictVpcPeering violated for project {call.world.project_number(project)}. "
        "Peering the network projects/servicenetworking/global/networks/servicenetworking is not allowed."
    )


def _machines(call: Call) -> JSON | None:
    asked = call.body.get("nodePool") or call.body.get("cluster") or {}
    zone, project = place(call, asked)
    if policies.forbids(call.world, project, policies.SHIELDED) and not _secure(asked):
        return _failed(
            f"{_BEFORE}Constraint constraints/compute.requireShieldedVm violated for project projects/{project}. "
            "Secure Boot is not enabled in the 'shielded_instance_config' field. See "
            f"{_DOCUMENTS} for more information."
        )
    if policies.forbids(call.world, project, policies.EXTERNAL) and not _private(asked):
        number = call.world.project_number(project)
        instance = f"projects/{project}/zones/{zone}/instances/gke-{asked.get('name', 'node')}"
        return _failed(
            f"{_BEFORE}Constraint constraints/compute.vmExternalIpAccess violated for project {number}. Add instance "
            f"{instance} to the constraint to use external IP with it."
        )
    return None


def _failed(text: str) -> JSON:
    return {"code": 9, "message": text}


def _secure(asked: JSON) -> bool:
    """Whether every pool that is made has Secure Boot."""
    configs = [pool.get("config", {}) for pool in asked.get("nodePools", [])] or [
        asked.get("config") or asked.get("nodeConfig") or {}
    ]
    return all(config.get("shieldedInstanceConfig", {}).get("enableSecureBoot") for config in configs)


def _private(asked: JSON) -> bool:
    network = asked.get("networkConfig", {})
    return bool(
        network.get("enablePrivateNodes")
        or network.get("defaultEnablePrivateNodes")
        or asked.get("privateClusterConfig", {}).get("enablePrivateNodes")
    )


def place(call: Call, asked: JSON) -> tuple[str, str]:
    """(zone, project) of a pool that is made or resized: its own, else its cluster's first."""
    path = str(call.params.get("name") or call.params.get("parent") or "")
    parts = path.split("/")
    project, location = parts[1], parts[3]
    found = [call.world.get(CONTAINER, key) for key in (path, path.split("/nodePools/")[0])]
    known = [zone for record in found if record for zone in record.body.get("locations", [])]
    return str([*(asked.get("locations") or []), *known, location][0]), project
