"""VPC networks: custom, automatic, and RoCE by profile; what uses them; their peerings.

What a RoCE profile forbids is documented (https://docs.cloud.google.com/vpc/docs/rdma-network-profiles, 2026-11); how
Compute words its refusals is inferred. The words of "already being used by" and "already exists" are from reports.
"""

from __future__ import annotations

import copy
from typing import Any

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
from grpo_wizard.steps.emulator.google.compute.operations import start
from grpo_wizard.steps.emulator.google.shared.fixtures import ground, regions
from grpo_wizard.steps.emulator.google.shared.ids import number, pacific
from grpo_wizard.steps.emulator.google.shared.lists import listed
from grpo_wizard.steps.emulator.google.shared.operation_records import writes
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    CONTAINER,
    NETWORKING,
    body_link,
    invalid,
    last,
    missing,
    sent,
    stored,
    tail,
)
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Record, World, happens, serves

_TENANT = "projects/sn-rehearsal-tp/global/networks/servicenetworking"


def network_key(project: str, name: str) -> str:
    """Key of a network."""
    return f"projects/{project}/global/networks/{name}"


def find_network(world: World, body: JSON, project: str) -> Record:
    """The network that a body's `network` links to; 404 where there is none, 400 while it is being made.

    The words about another project's: hashicorp/terraform-provider-google, "Error creating Firewall".
    """
    key = by_id(world, body_link(body, "network", project, "networks"))
    if key.split("/")[1] != project:
        raise invalid(
            "resource.network", body["network"], "Cross project referencing is not allowed for this resource."
        )
    return ready(found(world, key))


def by_id(world: World, key: str) -> str:
    """A key whose project is given by number, with the project's id."""
    _, project, rest = key.split("/", 2)
    return f"projects/{world.project_id(project)}/{rest}"


def is_roce(network: Record) -> bool:
    """Whether a network is made with a RoCE profile."""
    return bool(network.body.get("networkProfile"))


def of_network(world: World, network: Record, kind: str) -> list[Record]:
    """Compute's things of a kind whose `network` is this one."""
    link = stored(network.key)
    return [
        record
        for record in world.all(COMPUTE, kind, project=network.project)
        if record.body.get("network") == link
    ]


def peerings_of(world: World, network: Record) -> list[Record]:
    """The servicenetworking connections of a network (they name it by the project's number)."""
    return [
        record
        for record in world.all(NETWORKING, "peering", project=network.project)
        if last(str(record.body.get("network", ""))) == network.name
    ]


def _view(world: World, record: Record) -> JSON:
    body = copy.deepcopy(record.body)
    subnets = [stored(subnet.key) for subnet in of_network(world, record, "subnet")]
    if subnets:
        body["subnetworks"] = subnets
    peerings = [
        _peering(one) for one in peerings_of(world, record) if one.state not in ("creating", "absent")
    ]
    if peerings:
        body["peerings"] = peerings
    return body


def _peering(connection: Record) -> JSON:
    name = str(connection.body.get("peering") or "servicenetworking-googleapis-com")
    return {
        "name": name,
        "network": stored(_TENANT),
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


def _key(call: Call, name: str) -> str:
    return network_key(project_of(call), name)


def _found(call: Call) -> Record:
    return found(call.world, _key(call, str(call.params["network"])))


@serves("compute.networks.get")
def get(call: Call) -> JSON:
    """One network with its subnets and peerings."""
    return sent(call, _view(call.world, _found(call)))


@serves("compute.networks.list")
def list_(call: Call) -> JSON:
    """A project's networks."""
    return listed(call, "networkList", [_view(call.world, record) for record in of_project(call, "network")])


@writes("compute.networks.insert")
def insert(call: Call) -> JSON:
    """Makes a network; an automatic one gets one subnet a region when it is done."""
    key, project = new_key(call, _key), project_of(call)
    quotas.spend(call.world, project, "NETWORKS")
    record = begin(call, "network", "global", key, _made_body(call, project, key))
    return start(call, "network.insert", record, "network.made")


def _made_body(call: Call, project: str, key: str) -> JSON:
    asked = call.body
    body = {
        "kind": "compute#network",
        "id": number(),
        "creationTimestamp": pacific(call.world),
        "selfLink": stored(key),
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        **asked,
    }
    body["selfLinkWithId"] = stored(network_key(project, body["id"]))
    body["autoCreateSubnetworks"] = asked.get("autoCreateSubnetworks", "IPv4Range" not in asked)
    body["routingConfig"] = {
        "routingMode": "REGIONAL",
        "bgpBestPathSelectionMode": "LEGACY",
        **asked.get("routingConfig", {}),
    }
    body.setdefault("mtu", 1460)
    if asked.get("networkProfile"):
        body.update(_profiled(asked, project, body["autoCreateSubnetworks"]))
    if not 1300 <= body["mtu"] <= 8896:
        raise invalid("resource.mtu", body["mtu"], "Must be a value between 1300 and 8896 (inclusive).")
    return body


def _profiled(asked: JSON, project: str, automatic: bool) -> JSON:
    key = body_link(asked, "networkProfile", project, "networkProfiles")
    if "projects/" not in str(asked["networkProfile"]):  # GoogleCloudPlatform/cloud-image-tests PR 537
        raise invalid("resource.networkProfile", asked["networkProfile"], "The URL is malformed.")
    zone = last(key).removesuffix("-vpc-roce")
    if zone == last(key) or zone not in ground()["roce_zones"]:
        raise missing(key)
    if automatic:
        raise invalid(
            "resource.autoCreateSubnetworks",
            "true",
            f"Auto mode subnet creation is blocked by network profile '{last(key)}'.",
        )
    return {"networkProfile": stored(key), "mtu": asked.get("mtu", 8896)}


@happens("network.made")
def _made(world: World, target: Record) -> None:
    target.state = "ready"
    world.put(target)
    if target.body["autoCreateSubnetworks"]:
        for region in regions():
            world.put(_auto_subnet(world, target, region))


def _auto_subnet(world: World, network: Record, region: str) -> Record:
    cidr = str(ground()["regions"][region]["auto_subnet"])
    key = f"projects/{network.project}/regions/{region}/subnetworks/{network.name}"
    body: JSON = {
        "kind": "compute#subnetwork",
        "id": number(),
        "creationTimestamp": pacific(world),
        "name": network.name,
        "network": stored(network.key),
        "ipCidrRange": cidr,
        "gatewayAddress": cidr.replace(".0/20", ".1"),
        "region": stored(f"projects/{network.project}/regions/{region}"),
        "selfLink": stored(key),
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "fingerprint": "AAAAAAAAAAA=",
    }
    return Record(COMPUTE, "subnet", network.name, network.project, region, key, body, derived=True)


@writes("compute.networks.patch")
def patch(call: Call) -> JSON:
    """Changes a network's MTU or routing."""
    record = _found(call)
    return start(call, "network.patch", record, "network.patched", change=dict(call.body))


@happens("network.patched")
def _patched(world: World, target: Record, change: JSON) -> None:
    target.body.update(change)
    world.put(target)


def user_of(world: World, network: Record) -> str | None:
    """Key of one thing that keeps a network from being deleted.

    Automatic subnets go with it; leftovers of GKE do not.
    """
    for kind in ("firewall", "subnet", "address"):
        for record in of_network(world, network, kind):
            if kind != "subnet" or not (record.derived and network.body["autoCreateSubnetworks"]):
                return record.key
    for cluster in world.all(CONTAINER, "cluster", project=network.project):
        if cluster.extra.get("network") == network.key:
            return cluster.key
    for peering in peerings_of(world, network):
        return f"{network.key}/peerings/{peering.body.get('peering') or 'servicenetworking-googleapis-com'}"
    return None


@writes("compute.networks.delete")
def delete(call: Call) -> JSON:
    """Deletes a network that nothing uses."""
    record = ready(_found(call))
    refuse_used("network", record, user_of(call.world, record))
    return take_down(call, record, "network.gone")


@happens("network.gone")
def _gone(world: World, target: Record) -> None:
    refuse_used("network", target, user_of(world, target))
    for subnet in of_network(world, target, "subnet"):
        world.remove(subnet)
    world.remove(target)


@writes("compute.networks.removePeering")
def remove_peering(call: Call) -> JSON:
    """Cuts a peering from the consumer's side, also while its producer still uses it."""
    record, name = _found(call), str(call.body.get("name", ""))
    for peering in peerings_of(call.world, record):
        if (peering.body.get("peering") or "servicenetworking-googleapis-com") == name:
            return start(call, "network.patch", record, "network.unpeered", peering=peering.key)
    raise ApiError(
        400,
        f"Invalid value for field 'peeringName': '{name}'. There is no peering with this name in network "
        f"'{record.name}'.",
        "INVALID_ARGUMENT",
        "invalid",
    )


@happens("network.unpeered")
def _unpeered(world: World, target: Record, peering: str) -> None:
    connection = world.get(NETWORKING, peering)
    if connection:
        world.remove(connection)


def resolve(world: World, project: str, named: Any) -> Record | None:
    """A network by bare name, partial or full link (container and lustre take all three).

    The project may be a number.
    """
    text = str(named)
    return world.get(COMPUTE, by_id(world, tail(text, project) or network_key(project, text)))
