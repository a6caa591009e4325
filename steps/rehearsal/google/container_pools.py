"""GKE node pools: create, read, delete, resize; their reservation and their machines."""

from __future__ import annotations

import copy
import re

from ..contract import JSON, ApiError, Call, Record, World, happens, serves
from . import kubeground, quotas
from .catalogue import accelerator_types, machine_types, zones
from .compute_networks import resolve as find_network
from .compute_reservations import have, parse, refuse_short, reservation_of
from .compute_subnets import resolve as find_subnet
from .container_defaults import pool_body
from .container_operations import cluster_of, effect, refuse_busy, start
from .links import CONTAINER, last

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def pools_of(world: World, cluster_key: str) -> list[Record]:
    """A cluster's pools, by name."""
    project = cluster_key.split("/")[1]
    pools = [
        pool
        for pool in world.all(CONTAINER, "node_pool", project=project)
        if cluster_of(pool.key) == cluster_key
    ]
    return sorted(pools, key=lambda pool: pool.name)


def _bad(message: str) -> ApiError:
    return ApiError(400, message, "INVALID_ARGUMENT", "badRequest")


def check_pool(world: World, cluster: Record, asked: JSON) -> None:
    """Refuses a pool whose name, zones, machine, accelerators, networks or reservation cannot be."""
    name, config = str(asked.get("name", "")), asked.get("config", {})
    if not _NAME.fullmatch(name):
        raise _bad(
            f'Invalid value for field "node_pool.name": "{name}". Must be a match of regex '
            f'"(?:[a-z](?:[-a-z0-9]{{0,38}}[a-z0-9])?)".'
        )
    region = zones().get(cluster.location, cluster.location)
    places = asked.get("locations") or cluster.body["locations"]
    for zone in places:
        if zones().get(zone) != region:
            raise _bad(f'Location "{zone}" does not belong to region "{region}".')
        _check_machine(config, zone)
    _check_networks(world, cluster, asked, region)
    _check_scaling(asked.get("autoscaling", {}))
    for zone in places:
        check_reservation(world, cluster.project, asked, zone, int(asked.get("initialNodeCount", 0)))


def _check_machine(config: JSON, zone: str) -> None:
    machine = config.get("machineType", "e2-medium")
    if machine not in machine_types(zone):
        raise _bad(f'Machine type with name "{machine}" does not exist in zone "{zone}".')
    fixed = {
        one["guestAcceleratorType"]: one["guestAcceleratorCount"]
        for one in machine_types(zone).get(machine, {}).get("accelerators", [])
    }
    for card in config.get("accelerators", []):
        kind, count = card.get("acceleratorType"), int(card.get("acceleratorCount", 0))
        if kind not in accelerator_types(zone):
            raise _bad(f'Accelerator type "{kind}" does not exist in zone {zone}.')
        if fixed.get(kind) != count:
            raise _bad(
                "Number of accelerator cards attached to an instance must be one of "
                f'{sorted(fixed.values())} for accelerator type "{kind}" '
                f'and machine type "{machine}".'
            )


def _check_networks(world: World, cluster: Record, asked: JSON, region: str) -> None:
    extra = asked.get("networkConfig", {}).get("additionalNodeNetworkConfigs", [])
    if extra and not cluster.body.get("networkConfig", {}).get("enableMultiNetworking"):
        raise _bad("Additional node networks require a cluster with multi-networking enabled.")
    for one in extra:
        if find_network(world, cluster.project, one.get("network", "")) is None:
            raise _bad(f'Network "{one.get("network", "")}" does not exist.')
        if find_subnet(world, cluster.project, region, str(one.get("subnetwork", ""))) is None:
            raise _bad(f'Subnetwork "{one.get("subnetwork", "")}" does not exist in region "{region}".')


def _check_scaling(scaling: JSON) -> None:
    for low, high in (("minNodeCount", "maxNodeCount"), ("totalMinNodeCount", "totalMaxNodeCount")):
        if scaling.get(high) is not None and int(scaling.get(low, 0)) > int(scaling[high]):
            raise _bad(f"{low} ({scaling.get(low)}) must not exceed {high} ({scaling[high]}).")


def check_reservation(world: World, project: str, pool: JSON, zone: str, needed: int) -> None:
    """GKE looks at a reservation only when it needs machines: a pool from 0 is made with any name."""
    asked = reservation_of(pool)
    if asked is None or needed <= 0:
        return
    machine = pool.get("config", {}).get("machineType", "e2-medium")
    record, left = have(world, project, zone, asked, machine)
    if left < needed:
        raise refuse_short(record, asked, str(pool["name"]), zone, machine, needed, left)


def make_pool(world: World, cluster: Record, asked: JSON) -> Record:
    """Puts a new pool, its nodes counted, into the world."""
    key = f"{cluster.key}/nodePools/{asked['name']}"
    body = pool_body(world, cluster, asked, key, str(cluster.body["currentMasterVersion"]))
    region = zones().get(cluster.location, cluster.location)
    found = [
        find_subnet(world, cluster.project, region, str(one["subnetwork"]))
        for one in body["networkConfig"].get("additionalNodeNetworkConfigs", [])
    ]
    extra = {
        "sizes": dict.fromkeys(body["locations"], int(body["initialNodeCount"])),
        "subnetworks": [one.key for one in found if one],
        "reservations": _reservations(cluster.project, body),
    }
    return world.put(
        Record(
            CONTAINER,
            "node_pool",
            str(asked["name"]),
            cluster.project,
            cluster.location,
            key,
            body,
            "creating",
            extra=extra,
        )
    )


def _reservations(project: str, body: JSON) -> dict[str, str]:
    value = reservation_of(body)
    return {zone: parse(project, zone, value)[0] for zone in body["locations"]} if value else {}


def _cluster(call: Call, key: str) -> Record:
    record = call.world.get(CONTAINER, key)
    if record is None:
        raise ApiError(404, f"Not found: {key}.", "NOT_FOUND", "notFound")
    return record


def found_pool(call: Call) -> Record:
    """The pool that a call names, or GKE's 404."""
    key = str(call.params["name"])
    _cluster(call, cluster_of(key))
    record = call.world.get(CONTAINER, key)
    if record is None:
        raise ApiError(404, f'Not found: node pool "{last(key)}" not found.', "NOT_FOUND", "notFound")
    return record


@serves("container.projects.locations.clusters.nodePools.get")
def get(call: Call) -> JSON:
    """One pool."""
    return copy.deepcopy(found_pool(call).body)


@serves("container.projects.locations.clusters.nodePools.list")
def list_(call: Call) -> JSON:
    """A cluster's pools."""
    cluster = _cluster(call, str(call.params["parent"]))
    return {"nodePools": [copy.deepcopy(pool.body) for pool in pools_of(call.world, cluster.key)]}


@serves("container.projects.locations.clusters.nodePools.create")
def create(call: Call) -> JSON:
    """Makes a pool; with nodes it takes minutes more."""
    cluster, asked = _cluster(call, str(call.params["parent"])), dict(call.body.get("nodePool", {}))
    key = f"{cluster.key}/nodePools/{asked.get('name', '')}"
    refuse_busy(call.world, cluster)
    if call.world.get(CONTAINER, key):
        raise ApiError(409, f"Already exists: {key}.", "ALREADY_EXISTS", "alreadyExists")
    check_pool(call.world, cluster, asked)
    count = int(asked.get("initialNodeCount", 0))
    _check_cpus(call.world, cluster, asked, count)
    record = make_pool(call.world, cluster, asked)
    return start(call, "CREATE_NODE_POOL", "pool.create_nodes" if count else "pool.create", record, "pool.up")


def _check_cpus(world: World, cluster: Record, asked: JSON, more: int) -> None:
    places = asked.get("locations") or cluster.body["locations"]
    machine = asked.get("config", {}).get("machineType", "e2-medium")
    cpus = machine_types(places[0]).get(machine, {}).get("guestCpus", 2)
    quotas.check_cpus(
        world,
        cluster.project,
        zones().get(cluster.location, cluster.location),
        machine,
        cpus * len(places) * more,
    )


@effect("pool.up")
def _up(world: World, target: Record, operation: str) -> bool:
    target.body["status"], target.state = "RUNNING", "ready"
    world.put(target)
    kubeground.pools_changed(target.key)
    return True


@happens("container.heal")
def _heal(world: World, pool: str) -> None:
    """A pool in ERROR whose machines came after all (NVIDIA/aicr issue 2065)."""
    record = world.get(CONTAINER, pool)
    if record is not None and record.body["status"] == "ERROR":
        record.extra["sizes"] = dict.fromkeys(record.body["locations"], int(record.body["initialNodeCount"]))
        record.body.pop("statusMessage", None)
        record.body.pop("conditions", None)
        _up(world, record, "")


@serves("container.projects.locations.clusters.nodePools.delete")
def delete(call: Call) -> JSON:
    """Deletes a pool with its nodes."""
    record = found_pool(call)
    refuse_busy(call.world, _cluster(call, cluster_of(record.key)))
    record.state, record.body["status"] = "deleting", "STOPPING"
    call.world.put(record)
    return start(call, "DELETE_NODE_POOL", "pool.delete", record, "pool.gone")


@effect("pool.gone")
def _gone(world: World, target: Record, operation: str) -> bool:
    world.remove(target)
    kubeground.pools_changed(target.key)
    return True


@serves("container.projects.locations.clusters.nodePools.setSize")
def set_size(call: Call) -> JSON:
    """Sets the number of nodes in every zone of a pool."""
    record, count = found_pool(call), int(call.body.get("nodeCount", 0))
    cluster = _cluster(call, cluster_of(record.key))
    refuse_busy(call.world, cluster)
    for zone in record.body["locations"]:
        check_reservation(
            call.world, record.project, record.body, zone, count - record.extra["sizes"].get(zone, 0)
        )
    _check_cpus(call.world, cluster, record.body, count - min(record.extra["sizes"].values(), default=0))
    record.body["status"] = "RECONCILING"
    call.world.put(record)
    return start(call, "SET_NODE_POOL_SIZE", "pool.resize", record, "pool.sized", count=count)


@effect("pool.sized")
def _sized(world: World, target: Record, operation: str, count: int) -> bool:
    target.extra["sizes"] = dict.fromkeys(target.body["locations"], count)
    target.body["initialNodeCount"] = count
    return _up(world, target, operation)
