"""VPC networks (custom, auto mode, RoCE by profile), their users and their peerings.

What a RoCE profile forbids is documented (https://docs.cloud.google.com/vpc/docs/rdma-network-profiles,
2026-11); those error texts are inferred. "already being used by" and "already exists" are from public
reports.
"""

from __future__ import annotations

import copy
from typing import Any

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)
from grpo_wizard.steps.emulator.google.compute import quotas
from grpo_wizard.steps.emulator.google.compute.collections import (
    create_record,
    get_resource,
    list_in_project,
    new_key,
    project_of,
    require_ready,
    require_unused,
    start_delete,
)
from grpo_wizard.steps.emulator.google.compute.operations import start_operation
from grpo_wizard.steps.emulator.google.shared.fixtures import load_fixtures, regions
from grpo_wizard.steps.emulator.google.shared.ids import generate_resource_id, pacific_timestamp
from grpo_wizard.steps.emulator.google.shared.lists import compute_list
from grpo_wizard.steps.emulator.google.shared.operation_records import handles_idempotent
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    CONTAINER,
    NETWORKING,
    basename,
    invalid_field,
    key_from_body,
    not_found_error,
    relative_name,
    self_link,
    with_request_host,
)

_TENANT = "projects/sn-rehearsal-tp/global/networks/servicenetworking"


def network_key(project: str, name: str) -> str:
    """Return the key of a network."""
    return f"projects/{project}/global/networks/{name}"


def network_from_body(store: ResourceStore, body: JSON, project: str) -> Record:
    """Return the network that a body's `network` links to. Raises 404 if unknown, 400 while it is being created.

    The text about another project's network: hashicorp/terraform-provider-google, "Error creating Firewall".
    """
    key = with_project_id(store, key_from_body(body, "network", project, "networks"))
    if key.split("/")[1] != project:
        raise invalid_field(
            "resource.network", body["network"], "Cross project referencing is not allowed for this resource."
        )
    return require_ready(get_resource(store, key))


def with_project_id(store: ResourceStore, key: str) -> str:
    """Return a key with the project's id in place of its number."""
    _, project, rest = key.split("/", 2)
    return f"projects/{store.project_id(project)}/{rest}"


def is_roce(network: Record) -> bool:
    """Return whether a network has a RoCE profile."""
    return bool(network.body.get("networkProfile"))


def list_in_network(store: ResourceStore, network: Record, kind: str) -> list[Record]:
    """List Compute's resources of a kind in this network."""
    link = self_link(network.key)
    return [
        record
        for record in store.all(COMPUTE, kind, project=network.project)
        if record.body.get("network") == link
    ]


def peerings_of(store: ResourceStore, network: Record) -> list[Record]:
    """Return a network's servicenetworking connections, which name it by the project's number."""
    return [
        record
        for record in store.all(NETWORKING, "peering", project=network.project)
        if basename(str(record.body.get("network", ""))) == network.name
    ]


def _view(store: ResourceStore, record: Record) -> JSON:
    body = copy.deepcopy(record.body)
    subnets = [self_link(subnet.key) for subnet in list_in_network(store, record, "subnet")]
    if subnets:
        body["subnetworks"] = subnets
    peerings = [
        _peering(one) for one in peerings_of(store, record) if one.state not in ("creating", "absent")
    ]
    if peerings:
        body["peerings"] = peerings
    return body


def _peering(connection: Record) -> JSON:
    name = str(connection.body.get("peering") or "servicenetworking-googleapis-com")
    return {
        "name": name,
        "network": self_link(_TENANT),
        "state": "ACTIVE",
        "stateDetails": f"[{connection.extra.get('since', '')}]: Connected.",
        "autoCreateRoutes": True,
        "exchangeSubnetRoutes": True,
        "exportCustomRoutes": False,
        "importCustomRoutes": False,
        "exportSubnetRoutesWithPublicIp": False,
        "importSubnetRoutesWithPublicIp": False,
        "stackType": "IPV4_ONLY",
    }


def _key(call: ApiCall, name: str) -> str:
    return network_key(project_of(call), name)


def _found(call: ApiCall) -> Record:
    return get_resource(call.store, _key(call, str(call.params["network"])))


@handles("compute.networks.get")
def get(call: ApiCall) -> JSON:
    """Return one network with its subnets and peerings."""
    return with_request_host(call, _view(call.store, _found(call)))


@handles("compute.networks.list")
def list_(call: ApiCall) -> JSON:
    """List a project's networks."""
    return compute_list(
        call, "networkList", [_view(call.store, record) for record in list_in_project(call, "network")]
    )


@handles_idempotent("compute.networks.insert")
def insert(call: ApiCall) -> JSON:
    """Create a network; an auto mode network gets one subnet per region when it is done."""
    key, project = new_key(call, _key), project_of(call)
    quotas.require_quota(call.store, project, "NETWORKS")
    record = create_record(call, "network", "global", key, _new_body(call, project, key))
    return start_operation(call, "network.insert", record, "network.made")


def _new_body(call: ApiCall, project: str, key: str) -> JSON:
    asked = call.body
    body = {
        "kind": "compute#network",
        "id": generate_resource_id(),
        "creationTimestamp": pacific_timestamp(call.store),
        "selfLink": self_link(key),
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        **asked,
    }
    body["selfLinkWithId"] = self_link(network_key(project, body["id"]))
    body["autoCreateSubnetworks"] = asked.get("autoCreateSubnetworks", "IPv4Range" not in asked)
    body["routingConfig"] = {
        "routingMode": "REGIONAL",
        "bgpBestPathSelectionMode": "LEGACY",
        **asked.get("routingConfig", {}),
    }
    body.setdefault("mtu", 1460)
    if asked.get("networkProfile"):
        body.update(_apply_profile(asked, project, body["autoCreateSubnetworks"]))
    if not 1300 <= body["mtu"] <= 8896:
        raise invalid_field("resource.mtu", body["mtu"], "Must be a value between 1300 and 8896 (inclusive).")
    return body


def _apply_profile(asked: JSON, project: str, automatic: bool) -> JSON:
    key = key_from_body(asked, "networkProfile", project, "networkProfiles")
    if "projects/" not in str(asked["networkProfile"]):  # GoogleCloudPlatform/cloud-image-tests PR 537
        raise invalid_field("resource.networkProfile", asked["networkProfile"], "The URL is malformed.")
    zone = basename(key).removesuffix("-vpc-roce")
    if zone == basename(key) or zone not in load_fixtures()["roce_zones"]:
        raise not_found_error(key)
    if automatic:
        raise invalid_field(
            "resource.autoCreateSubnetworks",
            "true",
            f"Auto mode subnet creation is blocked by network profile '{basename(key)}'.",
        )
    return {"networkProfile": self_link(key), "mtu": asked.get("mtu", 8896)}


@on_event("network.made")
def _on_created(store: ResourceStore, target: Record) -> None:
    target.state = "ready"
    store.put(target)
    if target.body["autoCreateSubnetworks"]:
        for region in regions():
            store.put(_auto_subnet(store, target, region))


def _auto_subnet(store: ResourceStore, network: Record, region: str) -> Record:
    cidr = str(load_fixtures()["regions"][region]["auto_subnet"])
    key = f"projects/{network.project}/regions/{region}/subnetworks/{network.name}"
    body: JSON = {
        "kind": "compute#subnetwork",
        "id": generate_resource_id(),
        "creationTimestamp": pacific_timestamp(store),
        "name": network.name,
        "network": self_link(network.key),
        "ipCidrRange": cidr,
        "gatewayAddress": cidr.replace(".0/20", ".1"),
        "region": self_link(f"projects/{network.project}/regions/{region}"),
        "selfLink": self_link(key),
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "fingerprint": "AAAAAAAAAAA=",
    }
    return Record(COMPUTE, "subnet", network.name, network.project, region, key, body, derived=True)


@handles_idempotent("compute.networks.patch")
def patch(call: ApiCall) -> JSON:
    """Update a network's MTU or routing."""
    record = _found(call)
    return start_operation(call, "network.patch", record, "network.patched", change=dict(call.body))


@on_event("network.patched")
def _patched(store: ResourceStore, target: Record, change: JSON) -> None:
    target.body.update(change)
    store.put(target)


def user_of(store: ResourceStore, network: Record) -> str | None:
    """Return the key of a resource that prevents a network's deletion.

    Automatic subnets are deleted with it; GKE's leftovers do not prevent it.
    """
    for kind in ("firewall", "subnet", "address"):
        for record in list_in_network(store, network, kind):
            if kind != "subnet" or not (record.derived and network.body["autoCreateSubnetworks"]):
                return record.key
    for cluster in store.all(CONTAINER, "cluster", project=network.project):
        if cluster.extra.get("network") == network.key:
            return cluster.key
    for peering in peerings_of(store, network):
        return f"{network.key}/peerings/{peering.body.get('peering') or 'servicenetworking-googleapis-com'}"
    return None


@handles_idempotent("compute.networks.delete")
def delete(call: ApiCall) -> JSON:
    """Delete an unused network."""
    record = require_ready(_found(call))
    require_unused("network", record, user_of(call.store, record))
    return start_delete(call, record, "network.gone")


@on_event("network.gone")
def _gone(store: ResourceStore, target: Record) -> None:
    require_unused("network", target, user_of(store, target))
    for subnet in list_in_network(store, target, "subnet"):
        store.remove(subnet)
    store.remove(target)


@handles_idempotent("compute.networks.removePeering")
def remove_peering(call: ApiCall) -> JSON:
    """Remove a peering from the consumer's side, even while its producer uses it."""
    record, name = _found(call), str(call.body.get("name", ""))
    for peering in peerings_of(call.store, record):
        if (peering.body.get("peering") or "servicenetworking-googleapis-com") == name:
            return start_operation(call, "network.patch", record, "network.unpeered", peering=peering.key)
    raise ApiError(
        400,
        f"Invalid value for field 'peeringName': '{name}'. There is no peering with this name in network "
        f"'{record.name}'.",
        "INVALID_ARGUMENT",
        "invalid",
    )


@on_event("network.unpeered")
def _unpeered(store: ResourceStore, target: Record, peering: str) -> None:
    connection = store.get(NETWORKING, peering)
    if connection:
        store.remove(connection)


def resolve_network(store: ResourceStore, project: str, named: Any) -> Record | None:
    """Return a network by name, partial or full link (container and lustre accept all three).

    The project may be a number.
    """
    text = str(named)
    return store.get(
        COMPUTE, with_project_id(store, relative_name(text, project) or network_key(project, text))
    )
