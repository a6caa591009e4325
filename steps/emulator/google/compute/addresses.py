"""Global internal address ranges for private services access (purpose VPC_PEERING)."""

from __future__ import annotations

import ipaddress
import random

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)
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
from grpo_wizard.steps.emulator.google.compute.networks import (
    is_roce,
    list_in_network,
    network_from_body,
    peerings_of,
)
from grpo_wizard.steps.emulator.google.compute.operations import start_operation
from grpo_wizard.steps.emulator.google.compute.subnets import AUTO_MODE_RANGE
from grpo_wizard.steps.emulator.google.shared.ids import fingerprint, generate_resource_id, pacific_timestamp
from grpo_wizard.steps.emulator.google.shared.lists import aggregated_response, compute_list
from grpo_wizard.steps.emulator.google.shared.operation_records import handles_idempotent
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    CONTAINER,
    basename,
    invalid_field,
    relative_name,
    self_link,
    with_request_host,
)

Net = ipaddress.IPv4Network


def _key(call: ApiCall, name: str) -> str:
    return f"projects/{call.params['project']}/global/addresses/{name}"


def _found(call: ApiCall, param: str = "address") -> Record:
    return get_resource(call.store, _key(call, str(call.params[param])))


@handles("compute.globalAddresses.get")
def get(call: ApiCall) -> JSON:
    """Return one range."""
    return with_request_host(call, _found(call).body)


@handles("compute.globalAddresses.list")
def list_(call: ApiCall) -> JSON:
    """List a project's global addresses."""
    return compute_list(call, "addressList", [record.body for record in list_in_project(call, "address")])


@handles("compute.addresses.aggregatedList")
def aggregated_list(call: ApiCall) -> JSON:
    """List all addresses (only global ones are emulated)."""
    return aggregated_response(
        call,
        "addressAggregatedList",
        "addresses",
        [("global", record.body) for record in list_in_project(call, "address")],
        ["global"],
    )


@handles_idempotent("compute.globalAddresses.insert")
def insert(call: ApiCall) -> JSON:
    """Reserve a range: the requested one, or a free one of the requested length."""
    key = new_key(call, _key)
    if call.body.get("purpose") != "VPC_PEERING":
        raise ApiError(
            501,
            "The emulator has global addresses of purpose VPC_PEERING only.",
            "UNIMPLEMENTED",
            "notImplemented",
        )
    network = network_from_body(call.store, call.body, project_of(call))
    if is_roce(network):
        raise invalid_field(
            "resource.purpose",
            "VPC_PEERING",
            f"Not allowed by network profile '{basename(str(network.body['networkProfile']))}'.",
        )
    block = _range(call.store, network, call.body)
    body = {
        "kind": "compute#address",
        "id": generate_resource_id(),
        "creationTimestamp": pacific_timestamp(call.store),
        "description": "",
        "addressType": "INTERNAL",
        **call.body,
        "labelFingerprint": fingerprint(call.body.get("labels")),
        "address": str(block.network_address),
        "prefixLength": block.prefixlen,
        "network": self_link(network.key),
        "networkTier": "PREMIUM",
        "status": "RESERVED",
        "selfLink": self_link(key),
    }
    body.pop("ipVersion", None)  # as at Google, not returned for IPv4
    return start_operation(
        call, "address.insert", create_record(call, "address", "global", key, body), "compute.made"
    )


def _range(store: ResourceStore, network: Record, body: JSON) -> Net:
    length = int(body.get("prefixLength") or 0)
    if not 8 <= length <= 30:
        raise invalid_field(
            "resource.prefixLength", length, "Must be between 8 and 30 for purpose VPC_PEERING."
        )
    taken = used_ranges(store, network)
    if body.get("address"):
        try:
            asked = Net(f"{body['address']}/{length}")
        except ValueError:
            raise invalid_field(
                "resource.address", body["address"], "Must be the first address of a range of that length."
            ) from None
        if any(asked.overlaps(other) for other in taken):
            raise ApiError(
                400,
                "Invalid value for field 'resource.address': Requested range conflicts with other "
                "resources: The provided IP "
                "range overlaps with existing subnetwork or reserved IP range.",
                "INVALID_ARGUMENT",
                "invalid",
            )
        return asked
    return free_range(taken, length, f"{network.key}/{body.get('name')}")


def used_ranges(store: ResourceStore, network: Record) -> list[Net]:
    """Return the ranges of a network's subnets, reserved addresses and clusters' pods.

    The block of automatic subnets is always included.
    """
    subnets = [Net(record.body["ipCidrRange"]) for record in list_in_network(store, network, "subnet")]
    reserved = [
        Net(f"{record.body['address']}/{record.body['prefixLength']}")
        for record in list_in_network(store, network, "address")
    ]
    pods = [
        Net(cidr)
        for cluster in store.all(CONTAINER, "cluster", project=network.project)
        if cluster.extra.get("network") == network.key
        for cidr in cluster.extra.get("ranges", [])
    ]
    return [*subnets, *reserved, *pods, AUTO_MODE_RANGE]


def free_range(taken: list[Net], length: int, seed: str) -> Net:
    """Return a free range in 10.0.0.0/8, chosen by seed: Google's choice looks random."""
    whole, size = Net("10.0.0.0/8"), 2 ** (32 - length)
    first = int(whole.network_address) + random.Random(seed).randrange(2 ** (length - 8)) * size
    for _ in range(2 * len(taken) + 2):  # each iteration skips one used range, or wraps around
        if first > int(whole.broadcast_address):
            first = int(whole.network_address)
        block = Net((first, length))
        hit = next((other for other in taken if block.overlaps(other)), None)
        if hit is None:
            return block
        first = -(-(max(int(hit.broadcast_address), int(block.broadcast_address)) + 1) // size) * size
    raise ApiError(400, "Couldn't find a free range of the requested length.", "INVALID_ARGUMENT", "invalid")


@handles("compute.globalAddresses.setLabels")
def set_labels(call: ApiCall) -> JSON:
    """Replace a range's labels if the fingerprint is current."""
    record = _found(call, "resource")
    if call.body.get("labelFingerprint") != record.body["labelFingerprint"]:
        text = "Labels fingerprint either invalid or resource labels have changed"
        raise ApiError(412, text, "FAILED_PRECONDITION", "conditionNotMet")
    labels = dict(call.body.get("labels", {}))
    change = {"labels": labels, "labelFingerprint": fingerprint(labels)}
    return start_operation(call, "address.insert", record, "network.patched", change=change)


def user_of(store: ResourceStore, address: Record) -> str | None:
    """Return the key of the connection that uses a range."""
    network = store.get(COMPUTE, relative_name(str(address.body["network"])) or "")
    for peering in peerings_of(store, network) if network else []:
        if address.name in peering.body.get("reservedPeeringRanges", []):
            return peering.key
    return None


@handles_idempotent("compute.globalAddresses.delete")
def delete(call: ApiCall) -> JSON:
    """Release a range that no connection uses."""
    record = require_ready(_found(call))
    require_unused("global_address", record, user_of(call.store, record))
    return start_delete(call, record, "address.gone")


@on_event("address.gone")
def _on_deleted(store: ResourceStore, target: Record) -> None:
    require_unused("global_address", target, user_of(store, target))
    store.remove(target)
