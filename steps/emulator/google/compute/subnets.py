"""Subnetworks: ranges that must not overlap, RoCE networks limited to their zone's region, and users.

"Must be a CIDR address range." and the conflict with another subnet are Compute's texts, from public reports;
those about RoCE regions and reserved ranges are inferred.
"""

from __future__ import annotations

import ipaddress

from grpo_wizard.steps.emulator.context import JSON, ApiCall, Record, ResourceStore, handles, on_event
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
from grpo_wizard.steps.emulator.google.compute.networks import is_roce, list_in_network, network_from_body
from grpo_wizard.steps.emulator.google.compute.operations import start_operation
from grpo_wizard.steps.emulator.google.shared.fixtures import regions, zones
from grpo_wizard.steps.emulator.google.shared.ids import generate_resource_id, pacific_timestamp
from grpo_wizard.steps.emulator.google.shared.lists import aggregated_response, compute_list
from grpo_wizard.steps.emulator.google.shared.operation_records import handles_idempotent
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    CONTAINER,
    basename,
    invalid_field,
    key_from_body,
    not_found_error,
    self_link,
    with_request_host,
)

Network = ipaddress.IPv4Network
# https://docs.cloud.google.com/vpc/docs/subnets, "Prohibited IPv4 subnet ranges", 2026-11; all others are allowed, also
# outside of RFC 1918. Both error texts are inferred.
_FORBIDDEN_RANGES = tuple(
    map(
        Network,
        (
            *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32"),
            *("199.36.153.4/30", "199.36.153.8/30"),
        ),
    )
)
AUTO_MODE_RANGE = Network("10.128.0.0/9")  # "Auto mode IPv4 subnet ranges"


def _key(call: ApiCall, name: str) -> str:
    return f"projects/{call.params['project']}/regions/{call.params['region']}/subnetworks/{name}"


def _found(call: ApiCall) -> Record:
    return get_resource(call.store, _key(call, str(call.params["subnetwork"])))


@handles("compute.subnetworks.get")
def get(call: ApiCall) -> JSON:
    """Return one subnet."""
    return with_request_host(call, _view(call.store, _found(call)))


def _view(store: ResourceStore, subnet: Record) -> JSON:
    """Return a subnet with the secondary ranges that clusters created for their pods."""
    pods = [
        {
            "rangeName": cluster.body["ipAllocationPolicy"]["clusterSecondaryRangeName"],
            "ipCidrRange": cluster.body["clusterIpv4Cidr"],
        }
        for cluster in store.all(CONTAINER, "cluster", project=subnet.project)
        if cluster.extra.get("subnetwork") == subnet.key
    ]
    return {**subnet.body, "secondaryIpRanges": pods} if pods else subnet.body


@handles("compute.subnetworks.list")
def list_(call: ApiCall) -> JSON:
    """List a region's subnets."""
    records = list_in_project(call, "subnet", _check_region(call))
    return compute_list(call, "subnetworkList", [_view(call.store, record) for record in records])


@handles("compute.subnetworks.aggregatedList")
def aggregated_list(call: ApiCall) -> JSON:
    """List every region's subnets."""
    items = [
        (f"regions/{record.location}", _view(call.store, record))
        for record in list_in_project(call, "subnet")
    ]
    return aggregated_response(
        call, "subnetworkAggregatedList", "subnetworks", items, [f"regions/{name}" for name in regions()]
    )


def _check_region(call: ApiCall) -> str:
    name = str(call.params["region"])
    if name not in regions():
        raise not_found_error(f"projects/{call.params['project']}/regions/{name}")
    return name


@handles_idempotent("compute.subnetworks.insert")
def insert(call: ApiCall) -> JSON:
    """Create a subnet."""
    region, project = _check_region(call), project_of(call)
    key = new_key(call, _key)
    network = network_from_body(call.store, call.body, project)
    _check_roce(network, region)
    cidr = parse_range(call.store, network, call.body.get("ipCidrRange"))
    quotas.require_quota(call.store, project, "SUBNETWORKS")
    record = create_record(call, "subnet", region, key, _new_body(call, key, region, network, cidr))
    return start_operation(call, "subnet.insert", record, "compute.made")


def _new_body(call: ApiCall, key: str, region: str, network: Record, cidr: Network) -> JSON:
    return {
        "kind": "compute#subnetwork",
        "id": generate_resource_id(),
        "creationTimestamp": pacific_timestamp(call.store),
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "fingerprint": "AAAAAAAAAAA=",
        **call.body,
        "network": self_link(network.key),
        "ipCidrRange": str(cidr),
        "gatewayAddress": str(cidr[1]),
        "region": self_link(f"projects/{call.params['project']}/regions/{region}"),
        "selfLink": self_link(key),
    }


def _check_roce(network: Record, region: str) -> None:
    if is_roce(network):
        profile = basename(str(network.body["networkProfile"]))
        home = zones()[profile.removesuffix("-vpc-roce")]
        if home != region:
            raise invalid_field(
                "resource.region",
                region,
                f"Network profile '{profile}' allows subnetworks in region '{home}' only.",
            )


def parse_range(store: ResourceStore, network: Record, text: object) -> Network:
    """Return the IPv4 range of a new subnet.

    Rejects an invalid or too small range, and one that overlaps another of the network.
    """
    try:
        cidr = ipaddress.IPv4Network(str(text))
    except ValueError:
        why = "Must be a CIDR address range."
        raise invalid_field("resource.ipCidrRange", "" if text is None else text, why) from None
    if not 4 <= cidr.prefixlen <= 29:
        raise invalid_field("resource.ipCidrRange", cidr, "IP CIDR range length must be between 4 and 29.")
    if any(cidr.overlaps(forbidden) for forbidden in _FORBIDDEN_RANGES):
        raise invalid_field(
            "resource.ipCidrRange", cidr, "The range overlaps with a range that subnets may not have."
        )
    if network.body["autoCreateSubnetworks"] and cidr.overlaps(AUTO_MODE_RANGE):
        raise invalid_field(
            "resource.ipCidrRange",
            cidr,
            f"The range {AUTO_MODE_RANGE} is kept for an auto mode network's subnets.",
        )
    for subnet in list_in_network(store, network, "subnet"):
        if cidr.overlaps(Network(subnet.body["ipCidrRange"])):
            raise invalid_field(
                "resource.ipCidrRange",
                cidr,
                f"Invalid IPCidrRange: {cidr} conflicts with existing subnetwork "
                f"'{subnet.name}' in region '{subnet.location}'.",
            )
    for address in list_in_network(store, network, "address"):
        if cidr.overlaps(Network(f"{address.body['address']}/{address.body['prefixLength']}")):
            raise invalid_field(
                "resource.ipCidrRange",
                cidr,
                f"Invalid IPCidrRange: {cidr} conflicts with reserved address range '{address.name}'.",
            )
    return cidr


def user_of(store: ResourceStore, subnet: Record) -> str | None:
    """Return the key of a cluster or node pool that uses a subnet."""
    for record in store.all(CONTAINER, project=subnet.project):
        if record.kind == "cluster" and record.extra.get("subnetwork") == subnet.key:
            return record.key
        if record.kind == "node_pool" and subnet.key in record.extra.get("subnetworks", []):
            return record.key
    return None


@handles_idempotent("compute.subnetworks.delete")
def delete(call: ApiCall) -> JSON:
    """Delete an unused subnet. An automatic one is deleted with its network only."""
    record = require_ready(_found(call))
    if record.derived:
        raise invalid_field(
            "subnetwork", record.name, "Cannot delete auto subnetwork from an auto subnet mode network."
        )
    require_unused("subnetwork", record, user_of(call.store, record))
    return start_delete(call, record, "subnet.gone")


@on_event("subnet.gone")
def _on_deleted(store: ResourceStore, target: Record) -> None:
    require_unused("subnetwork", target, user_of(store, target))
    store.remove(target)


@handles_idempotent("compute.subnetworks.patch")
def patch(call: ApiCall) -> JSON:
    """Update a subnet's private access or description."""
    return start_operation(call, "subnet.insert", _found(call), "network.patched", change=dict(call.body))


def resolve_subnet(store: ResourceStore, project: str, region: str, named: str) -> Record | None:
    """Return a subnet by name or link."""
    name = named if "/" not in named else basename(key_from_body({"s": named}, "s", project, "subnetworks"))
    return store.get(COMPUTE, f"projects/{project}/regions/{region}/subnetworks/{name}")
