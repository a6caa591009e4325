"""Effects of organization policies, in the texts of the services that enforce them.

Instances: learn-terraform-provision-gke-cluster issue 8, googlecodelabs/feedback issue 695; peering:
terraform-google-secure-cicd issue 70. That GKE and Lustre reject a location at once, and the text, is
inferred.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError
from grpo_wizard.steps.emulator.google.orgpolicy import policies
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER

NODE_CREATING_METHODS = (
    "container.projects.locations.clusters.nodePools.create",
    "container.projects.locations.clusters.nodePools.setSize",
)
_CREATE_CLUSTER = "container.projects.locations.clusters.create"
_PEERING_METHODS = (
    "servicenetworking.services.connections.create",
    "servicenetworking.services.connections.patch",
)
_LOCATED_METHODS = {
    _CREATE_CLUSTER: "clusters",
    "lustre.projects.locations.instances.create": "instances",
    "compute.reservations.insert": "reservations",
    "compute.subnetworks.insert": "subnetworks",
}
_DOCS_URL = "https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints"
_IGM_TIMEOUT_PREFIX = (
    "Not all instances running in IGM after 32.252902304s. Expected 1, running 0, transitioning 1. Current errors: "
    "[CONDITION_NOT_MET]: Instance creation failed: "
)


def check_location_policy(call: ApiCall) -> None:
    """Raise 412 (services other than Compute: 400) for a location that gcp.resourceLocations denies."""
    if call.method_id not in _LOCATED_METHODS:
        return
    parts = str(call.params.get("parent") or "").split("/")
    project = str(call.params.get("project") or parts[1])
    location = str(call.params.get("region") or call.params.get("zone") or parts[-1])
    if not policies.is_location_denied(call.store, project, location):
        return
    name = call.body.get("name") or call.body.get("cluster", {}).get("name") or call.params.get("instanceId")
    scope = next(
        (f"{kind}s/{location}" for kind in ("region", "zone") if kind in call.params), f"locations/{location}"
    )
    resource = f"projects/{project}/{scope}/{_LOCATED_METHODS[call.method_id]}/{name}"
    text = (
        f"'{location}' violates constraint 'constraints/gcp.resourceLocations' on the resource '{resource}'."
    )
    code = 412 if call.service == "compute.googleapis.com" else 400
    raise ApiError(code, text, "FAILED_PRECONDITION", "conditionNotMet")


def operation_failure(call: ApiCall) -> JSON | None:
    """Return the error of the operation that a call starts; None if no policy denies it."""
    if call.method_id in _PEERING_METHODS:
        return _peering_failure(call)
    if call.method_id in (*NODE_CREATING_METHODS, _CREATE_CLUSTER):
        return _machine_failure(call)
    return None


def _peering_failure(call: ApiCall) -> JSON | None:
    parts = str(call.body.get("network", "")).split("/")
    named = dict(zip(parts[::2], parts[1::2], strict=False))
    project = call.store.project_id(named.get("projects", ""))
    if not policies.is_denied(call.store, project, policies.RESTRICT_VPC_PEERING):
        return None
    return _precondition_failure(
        f"Constraint constraints/compute.restrictVpcPeering violated for project {call.store.project_number(project)}. "
        "Peering the network projects/servicenetworking/global/networks/servicenetworking is not allowed."
    )


def _machine_failure(call: ApiCall) -> JSON | None:
    asked = call.body.get("nodePool") or call.body.get("cluster") or {}
    zone, project = pool_location(call, asked)
    if policies.is_denied(call.store, project, policies.REQUIRE_SHIELDED_VM) and not _has_secure_boot(asked):
        return _precondition_failure(
            f"{_IGM_TIMEOUT_PREFIX}Constraint constraints/compute.requireShieldedVm violated for project projects/{project}. "
            "Secure Boot is not enabled in the 'shielded_instance_config' field. See "
            f"{_DOCS_URL} for more information."
        )
    if policies.is_denied(call.store, project, policies.VM_EXTERNAL_IP_ACCESS) and not _has_private_nodes(
        asked
    ):
        number = call.store.project_number(project)
        instance = f"projects/{project}/zones/{zone}/instances/gke-{asked.get('name', 'node')}"
        return _precondition_failure(
            f"{_IGM_TIMEOUT_PREFIX}Constraint constraints/compute.vmExternalIpAccess violated for project {number}. Add instance "
            f"{instance} to the constraint to use external IP with it."
        )
    return None


def _precondition_failure(text: str) -> JSON:
    return {"code": 9, "message": text}


def _has_secure_boot(asked: JSON) -> bool:
    """Return whether every new pool has Secure Boot."""
    configs = [pool.get("config", {}) for pool in asked.get("nodePools", [])] or [
        asked.get("config") or asked.get("nodeConfig") or {}
    ]
    return all(config.get("shieldedInstanceConfig", {}).get("enableSecureBoot") for config in configs)


def _has_private_nodes(asked: JSON) -> bool:
    network = asked.get("networkConfig", {})
    return bool(
        network.get("enablePrivateNodes")
        or network.get("defaultEnablePrivateNodes")
        or asked.get("privateClusterConfig", {}).get("enablePrivateNodes")
    )


def pool_location(call: ApiCall, asked: JSON) -> tuple[str, str]:
    """Return (zone, project) of a created or resized pool: its own, otherwise its cluster's first zone."""
    path = str(call.params.get("name") or call.params.get("parent") or "")
    parts = path.split("/")
    project, location = parts[1], parts[3]
    found = [call.store.get(CONTAINER, key) for key in (path, path.split("/nodePools/")[0])]
    known = [zone for record in found if record for zone in record.body.get("locations", [])]
    return str([*(asked.get("locations") or []), *known, location][0]), project
