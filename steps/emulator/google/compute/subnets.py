"""Subnetworks: ranges that may not overlap, RoCE networks bound to their zone's region, and users.

"Must be a CIDR address range." and the conflict with another subnet are Compute's words, from reports; those about RoCE
regions and reserved ranges are inferred.
"""

from __future__ import annotations

import ipaddress

from grpo_wizard.steps.emulator.google.compute import quotas
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
from grpo_wizard.steps.emulator.google.compute.networks import find_network, is_roce, of_network
from grpo_wizard.steps.emulator.google.compute.operations import start
from grpo_wizard.steps.emulator.google.shared.fixtures import regions, zones
from grpo_wizard.steps.emulator.google.shared.ids import number, pacific
from grpo_wizard.steps.emulator.google.shared.lists import aggregated, listed
from grpo_wizard.steps.emulator.google.shared.operation_records import writes
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    CONTAINER,
    body_link,
    invalid,
    last,
    missing,
    sent,
    stored,
)
from grpo_wizard.steps.emulator.server.context import JSON, Call, Record, World, happens, serves

Net = ipaddress.IPv4Network
# https://docs.cloud.google.com/vpc/docs/subnets, "Prohibited IPv4 subnet ranges", 2026-11; all else may be used, also
# outside of RFC 1918. The sentences of both refusals are inferred.
_FORBIDDEN = tuple(
    map(
        Net,
        (
            *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32"),
            *("199.36.153.4/30", "199.36.153.8/30"),
        ),
    )
)
AUTO = Net("10.128.0.0/9")  # "Auto mode IPv4 subnet ranges"


def _key(call: Call, name: str) -> str:
    return f"projects/{call.params['project']}/regions/{call.params['region']}/subnetworks/{name}"


def _found(call: Call) -> Record:
    return found(call.world, _key(call, str(call.params["subnetwork"])))


@serves("compute.subnetworks.get")
def get(call: Call) -> JSON:
    """One subnet."""
    return sent(call, _view(call.world, _found(call)))


def _view(world: World, subnet: Record) -> JSON:
    """A subnet with the ranges that clusters on it gave themselves for their pods."""
    pods = [
        {
            "rangeName": cluster.body["ipAllocationPolicy"]["clusterSecondaryRangeName"],
            "ipCidrRange": cluster.body["clusterIpv4Cidr"],
        }
        for cluster in world.all(CONTAINER, "cluster", project=subnet.project)
        if cluster.extra.get("subnetwork") == subnet.key
    ]
    return {**subnet.body, "secondaryIpRanges": pods} if pods else subnet.body


@serves("compute.subnetworks.list")
def list_(call: Call) -> JSON:
    """A region's subnets."""
    records = of_project(call, "subnet", _check_region(call))
    return listed(call, "subnetworkList", [_view(call.world, record) for record in records])


@serves("compute.subnetworks.aggregatedList")
def aggregated_list(call: Call) -> JSON:
    """Every region's subnets."""
    items = [
        (f"regions/{record.location}", _view(call.world, record)) for record in of_project(call, "subnet")
    ]
    return aggregated(
        call, "subnetworkAggregatedList", "subnetworks", items, [f"regions/{name}" for name in regions()]
    )


def _check_region(call: Call) -> str:
    name = str(call.params["region"])
    if name not in regions():
        raise missing(f"projects/{call.params['project']}/regions/{name}")
    return name


@writes("compute.subnetworks.insert")
def insert(call: Call) -> JSON:
    """Makes a subnet."""
    region, project = _check_region(call), project_of(call)
    key = new_key(call, _key)
    network = find_network(call.world, call.body, project)
    _check_roce(network, region)
    cidr = check_range(call.world, network, call.body.get("ipCidrRange"))
    quotas.spend(call.world, project, "SUBNETWORKS")
    record = begin(call, "subnet", region, key, _made_body(call, key, region, network, cidr))
    return start(call, "subnet.insert", record, "compute.made")


def _made_body(call: Call, key: str, region: str, network: Record, cidr: Net) -> JSON:
    return {
        "kind": "compute#subnetwork",
        "id": number(),
        "creationTimestamp": pacific(call.world),
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "fingerprint": "AAAAAAAAAAA=",
        **call.body,
        "network": stored(network.key),
        "ipCidrRange": str(cidr),
        "gatewayAddress": str(cidr[1]),
        "region": stored(f"projects/{call.params['project']}/regions/{region}"),
        "selfLink": stored(key),
    }


def _check_roce(network: Record, region: str) -> None:
    if is_roce(network):
        profile = last(str(network.body["networkProfile"]))
        home = zones()[profile.removesuffix("-vpc-roce")]
        if home != region:
            raise invalid(
                "resource.region",
                region,
                f"Network profile '{profile}' allows subnetworks in region '{home}' only.",
            )


def check_range(world: World, network: Record, text: object) -> Net:
    """The IPv4 range of a new subnet.

    Refuses what is no range, too small, or overlaps another of the network.
    """
    try:
        cidr = ipaddress.IPv4Network(str(text))
    except ValueError:
        why = "Must be a CIDR address range."
        raise invalid("resource.ipCidrRange", "" if text is None else text, why) from None
    if not 4 <= cidr.prefixlen <= 29:
        raise invalid("resource.ipCidrRange", cidr, "IP CIDR range length must be between 4 and 29.")
    if any(cidr.overlaps(forbidden) for forbidden in _FORBIDDEN):
        raise invalid(
            "resource.ipCidrRange", cidr, "The range overlaps with a range that subnets may not have."
        )
    if network.body["autoCreateSubnetworks"] and cidr.overlaps(AUTO):
        raise invalid(
            "resource.ipCidrRange", cidr, f"The range {AUTO} is kept for an auto mode network's subnets."
        )
    for subnet in of_network(world, network, "subnet"):
        if cidr.overlaps(Net(subnet.body["ipCidrRange"])):
            raise invalid(
                "resource.ipCidrRange",
                cidr,
                f"Invalid IPCidrRange: {cidr} conflicts with existing subnetwork "
                f"'{subnet.name}' in region '{subnet.location}'.",
            )
    for address in of_network(world, network, "address"):
        if cidr.overlaps(Net(f"{address.body['address']}/{address.body['prefixLength']}")):
            raise invalid(
                "resource.ipCidrRange",
                cidr,
                f"Invalid IPCidrRange: {cidr} conflicts with reserved address range '{address.name}'.",
            )
    return cidr


def user_of(world: World, subnet: Record) -> str | None:
    """Key of a cluster or node pool that uses a subnet."""
    for record in world.all(CONTAINER, project=subnet.project):
        if record.kind == "cluster" and record.extra.get("subnetwork") == subnet.key:
            return record.key
        if record.kind == "node_pool" and subnet.key in record.extra.get("subnetworks", []):
            return record.key
    return None


@writes("compute.subnetworks.delete")
def delete(call: Call) -> JSON:
    """Deletes a subnet that nothing uses. An automatic one goes with its network only."""
    record = ready(_found(call))
    if record.derived:
        raise invalid(
            "subnetwork", record.name, "Cannot delete auto subnetwork from an auto subnet mode network."
        )
    refuse_used("subnetwork", record, user_of(call.world, record))
    return take_down(call, record, "subnet.gone")


@happens("subnet.gone")
def _gone(world: World, target: Record) -> None:
    refuse_used("subnetwork", target, user_of(world, target))
    world.remove(target)


@writes("compute.subnetworks.patch")
def patch(call: Call) -> JSON:
    """Changes a subnet's private access or description."""
    return start(call, "subnet.insert", _found(call), "network.patched", change=dict(call.body))


def resolve(world: World, project: str, region: str, named: str) -> Record | None:
    """A subnet by bare name or link."""
    name = named if "/" not in named else last(body_link({"s": named}, "s", project, "subnetworks"))
    return world.get(COMPUTE, f"projects/{project}/regions/{region}/subnetworks/{name}")
