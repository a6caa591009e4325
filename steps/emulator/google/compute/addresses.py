"""Global internal address ranges for private services access (purpose VPC_PEERING)."""

from __future__ import annotations

import ipaddress
import random

from grpo_wizard.steps.emulator.google.compute.collections import (
    begin,
    found,
    new_key,
    of_project,
    project_of,
    ready,
    refuse_used,
    take_down,
)
from grpo_wizard.steps.emulator.google.compute.networks import find_network, is_roce, of_network, peerings_of
from grpo_wizard.steps.emulator.google.compute.operations import start
from grpo_wizard.steps.emulator.google.compute.subnets import AUTO
from grpo_wizard.steps.emulator.google.shared.ids import fingerprint, number, pacific
from grpo_wizard.steps.emulator.google.shared.lists import aggregated, listed
from grpo_wizard.steps.emulator.google.shared.operation_records import writes
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    CONTAINER,
    invalid,
    last,
    sent,
    stored,
    tail,
)
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Record, World, happens, serves

Net = ipaddress.IPv4Network


def _key(call: Call, name: str) -> str:
    return f"projects/{call.params['project']}/global/addresses/{name}"


def _found(call: Call, param: str = "address") -> Record:
    return found(call.world, _key(call, str(call.params[param])))


@serves("compute.globalAddresses.get")
def get(call: Call) -> JSON:
    """One range."""
    return sent(call, _found(call).body)


@serves("compute.globalAddresses.list")
def list_(call: Call) -> JSON:
    """A project's global addresses."""
    return listed(call, "addressList", [record.body for record in of_project(call, "address")])


@serves("compute.addresses.aggregatedList")
def aggregated_list(call: Call) -> JSON:
    """All addresses (the rehearsal has global ones only)."""
    return aggregated(
        call,
        "addressAggregatedList",
        "addresses",
        [("global", record.body) for record in of_project(call, "address")],
        ["global"],
    )


@writes("compute.globalAddresses.insert")
def insert(call: Call) -> JSON:
    """Reserves a range: the one asked for, or a free one of the asked length."""
    key = new_key(call, _key)
    if call.body.get("purpose") != "VPC_PEERING":
        raise ApiError(
            501,
            "The rehearsal has global addresses of purpose VPC_PEERING only.",
            "UNIMPLEMENTED",
            "notImplemented",
        )
    network = find_network(call.world, call.body, project_of(call))
    if is_roce(network):
        raise invalid(
            "resource.purpose",
            "VPC_PEERING",
            f"Not allowed by network profile '{last(str(network.body['networkProfile']))}'.",
        )
    block = _range(call.world, network, call.body)
    body = {
        "kind": "compute#address",
        "id": number(),
        "creationTimestamp": pacific(call.world),
        "description": "",
        "addressType": "INTERNAL",
        **call.body,
        "labelFingerprint": fingerprint(call.body.get("labels")),
        "address": str(block.network_address),
        "prefixLength": block.prefixlen,
        "network": stored(network.key),
        "networkTier": "PREMIUM",
        "status": "RESERVED",
        "selfLink": stored(key),
    }
    body.pop("ipVersion", None)  # as at Google, not given back for IPv4
    return start(call, "address.insert", begin(call, "address", "global", key, body), "compute.made")


def _range(world: World, network: Record, body: JSON) -> Net:
    length = int(body.get("prefixLength") or 0)
    if not 8 <= length <= 30:
        raise invalid("resource.prefixLength", length, "Must be between 8 and 30 for purpose VPC_PEERING.")
    taken = taken_ranges(world, network)
    if body.get("address"):
        try:
            asked = Net(f"{body['address']}/{length}")
        except ValueError:
            raise invalid(
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


def taken_ranges(world: World, network: Record) -> list[Net]:
    """Ranges of a network's subnets, reserved addresses and clusters' pods.

    The block of automatic subnets is always among them.
    """
    subnets = [Net(record.body["ipCidrRange"]) for record in of_network(world, network, "subnet")]
    reserved = [
        Net(f"{record.body['address']}/{record.body['prefixLength']}")
        for record in of_network(world, network, "address")
    ]
    pods = [
        Net(cidr)
        for cluster in world.all(CONTAINER, "cluster", project=network.project)
        if cluster.extra.get("network") == network.key
        for cidr in cluster.extra.get("ranges", [])
    ]
    return [*subnets, *reserved, *pods, AUTO]


def free_range(taken: list[Net], length: int, seed: str) -> Net:
    """A free range in 10.0.0.0/8, chosen by seed, as Google chooses one that looks random."""
    whole, size = Net("10.0.0.0/8"), 2 ** (32 - length)
    first = int(whole.network_address) + random.Random(seed).randrange(2 ** (length - 8)) * size
    for _ in range(2 * len(taken) + 2):  # each turn goes past one taken range, or back to the beginning
        if first > int(whole.broadcast_address):
            first = int(whole.network_address)
        block = Net((first, length))
        hit = next((other for other in taken if block.overlaps(other)), None)
        if hit is None:
            return block
        first = -(-(max(int(hit.broadcast_address), int(block.broadcast_address)) + 1) // size) * size
    raise ApiError(400, "Couldn't find a free range of the requested length.", "INVALID_ARGUMENT", "invalid")


@serves("compute.globalAddresses.setLabels")
def set_labels(call: Call) -> JSON:
    """Replaces a range's labels, if the fingerprint is that of the ones that were read."""
    record = _found(call, "resource")
    if call.body.get("labelFingerprint") != record.body["labelFingerprint"]:
        text = "Labels fingerprint either invalid or resource labels have changed"
        raise ApiError(412, text, "FAILED_PRECONDITION", "conditionNotMet")
    labels = dict(call.body.get("labels", {}))
    change = {"labels": labels, "labelFingerprint": fingerprint(labels)}
    return start(call, "address.insert", record, "network.patched", change=change)


def user_of(world: World, address: Record) -> str | None:
    """Key of the connection that uses a range."""
    network = world.get(COMPUTE, tail(str(address.body["network"])) or "")
    for peering in peerings_of(world, network) if network else []:
        if address.name in peering.body.get("reservedPeeringRanges", []):
            return peering.key
    return None


@writes("compute.globalAddresses.delete")
def delete(call: Call) -> JSON:
    """Releases a range that no connection uses."""
    record = ready(_found(call))
    refuse_used("global_address", record, user_of(call.world, record))
    return take_down(call, record, "address.gone")


@happens("address.gone")
def _gone(world: World, target: Record) -> None:
    refuse_used("global_address", target, user_of(world, target))
    world.remove(target)
