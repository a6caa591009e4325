"""GKE node pools: create, read, delete, resize. node_pool_validation.py validates them."""

from __future__ import annotations

import copy

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
from grpo_wizard.steps.emulator.google.compute.reservations import parse_reservation, reservation_of
from grpo_wizard.steps.emulator.google.compute.subnets import resolve_subnet as find_subnet
from grpo_wizard.steps.emulator.google.container import kubernetes_backend
from grpo_wizard.steps.emulator.google.container.defaults import pool_body
from grpo_wizard.steps.emulator.google.container.node_pool_validation import (
    check_count,
    check_pool,
    check_reservation,
)
from grpo_wizard.steps.emulator.google.container.operations import (
    cluster_of,
    on_complete,
    require_idle,
    start_operation,
)
from grpo_wizard.steps.emulator.google.container.versions import resolve_node_version
from grpo_wizard.steps.emulator.google.shared.fixtures import machine_types, zones
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER, basename


def list_pools(store: ResourceStore, cluster_key: str) -> list[Record]:
    """List a cluster's pools, by name."""
    project = cluster_key.split("/")[1]
    pools = [
        pool
        for pool in store.all(CONTAINER, "node_pool", project=project)
        if cluster_of(pool.key) == cluster_key
    ]
    return sorted(pools, key=lambda pool: pool.name)


def create_pool_record(store: ResourceStore, cluster: Record, asked: JSON) -> Record:
    """Store a new pool with its node counts."""
    key = f"{cluster.key}/nodePools/{asked['name']}"
    version = resolve_node_version(asked.get("version"), str(cluster.body["currentMasterVersion"]))
    body = pool_body(store, cluster, asked, key, version)
    region = zones().get(cluster.location, cluster.location)
    found = [
        find_subnet(store, cluster.project, region, str(one["subnetwork"]))
        for one in body["networkConfig"].get("additionalNodeNetworkConfigs", [])
    ]
    extra = {
        "sizes": dict.fromkeys(body["locations"], int(body["initialNodeCount"])),
        "subnetworks": [one.key for one in found if one],
        "reservations": _reservations(cluster.project, body),
    }
    return store.put(
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
    return {zone: parse_reservation(project, zone, value)[0] for zone in body["locations"]} if value else {}


def _cluster(call: ApiCall, key: str) -> Record:
    record = call.store.get(CONTAINER, key)
    if record is None:
        raise ApiError(404, f"Not found: {key}.", "NOT_FOUND", "notFound")
    return record


def get_pool(call: ApiCall) -> Record:
    """Return the pool that a call names. Raises GKE's 404."""
    key = str(call.params["name"])
    _cluster(call, cluster_of(key))
    record = call.store.get(CONTAINER, key)
    if record is None:
        raise ApiError(404, f'Not found: node pool "{basename(key)}" not found.', "NOT_FOUND", "notFound")
    return record


@handles("container.projects.locations.clusters.nodePools.get")
def get(call: ApiCall) -> JSON:
    """Return one pool."""
    return copy.deepcopy(get_pool(call).body)


@handles("container.projects.locations.clusters.nodePools.list")
def list_(call: ApiCall) -> JSON:
    """List a cluster's pools."""
    cluster = _cluster(call, str(call.params["parent"]))
    return {"nodePools": [copy.deepcopy(pool.body) for pool in list_pools(call.store, cluster.key)]}


@handles("container.projects.locations.clusters.nodePools.create")
def create(call: ApiCall) -> JSON:
    """Create a pool; nodes take additional minutes."""
    cluster, asked = _cluster(call, str(call.params["parent"])), dict(call.body.get("nodePool", {}))
    key = f"{cluster.key}/nodePools/{asked.get('name', '')}"
    require_idle(call.store, cluster, key)
    if call.store.get(CONTAINER, key):
        raise ApiError(409, f"Already exists: {key}.", "ALREADY_EXISTS", "alreadyExists")
    check_pool(call.store, cluster, asked)
    count = int(asked.get("initialNodeCount", 0))
    _check_cpus(call.store, cluster, asked, count)
    record = create_pool_record(call.store, cluster, asked)
    return start_operation(
        call, "CREATE_NODE_POOL", "pool.create_nodes" if count else "pool.create", record, "pool.up"
    )


def _check_cpus(store: ResourceStore, cluster: Record, asked: JSON, more: int) -> None:
    places = asked.get("locations") or cluster.body["locations"]
    machine = asked.get("config", {}).get("machineType", "e2-medium")
    cpus = machine_types(places[0]).get(machine, {}).get("guestCpus", 2)
    quotas.check_cpus(
        store,
        cluster.project,
        zones().get(cluster.location, cluster.location),
        machine,
        cpus * len(places) * more,
    )


@on_complete("pool.up")
def _on_created(store: ResourceStore, target: Record, operation: str) -> bool:
    target.body["status"], target.state = "RUNNING", "ready"
    target.body.pop("statusMessage", None)
    target.body.pop("conditions", None)
    store.put(target)
    kubernetes_backend.notify_pools_changed(target.key)
    return True


@on_event("container.heal")
def _recover(store: ResourceStore, pool: str) -> None:
    """Recover a pool in ERROR whose nodes were created after all (NVIDIA/aicr issue 2065)."""
    record = store.get(CONTAINER, pool)
    if record is not None and record.body["status"] == "ERROR":
        record.extra["sizes"] = dict.fromkeys(record.body["locations"], int(record.body["initialNodeCount"]))
        _on_created(store, record, "")


@handles("container.projects.locations.clusters.nodePools.delete")
def delete(call: ApiCall) -> JSON:
    """Delete a pool with its nodes."""
    record = get_pool(call)
    require_idle(call.store, _cluster(call, cluster_of(record.key)), record.key)
    record.state, record.body["status"] = "deleting", "STOPPING"
    call.store.put(record)
    return start_operation(call, "DELETE_NODE_POOL", "pool.delete", record, "pool.gone")


@on_complete("pool.gone")
def _on_deleted(store: ResourceStore, target: Record, operation: str) -> bool:
    store.remove(target)
    kubernetes_backend.notify_pools_changed(target.key)
    return True


@handles("container.projects.locations.clusters.nodePools.setSize")
def set_size(call: ApiCall) -> JSON:
    """Set the number of nodes per zone of a pool."""
    record, count = get_pool(call), int(call.body.get("nodeCount", 0))
    cluster = _cluster(call, cluster_of(record.key))
    check_count(count)
    require_idle(call.store, cluster, record.key)
    for zone in record.body["locations"]:
        check_reservation(
            call.store, record.project, record.body, zone, count - record.extra["sizes"].get(zone, 0)
        )
    _check_cpus(call.store, cluster, record.body, count - min(record.extra["sizes"].values(), default=0))
    record.body["status"] = "RECONCILING"
    call.store.put(record)
    return start_operation(call, "SET_NODE_POOL_SIZE", "pool.resize", record, "pool.sized", count=count)


@on_complete("pool.sized")
def _on_resized(store: ResourceStore, target: Record, operation: str, count: int) -> bool:
    target.extra["sizes"] = dict.fromkeys(target.body["locations"], count)
    target.body["initialNodeCount"] = count
    return _on_created(store, target, operation)
