"""GKE clusters: create, read, delete. Error texts without a source are inferred."""

from __future__ import annotations

import copy
import ipaddress
import re

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
from grpo_wizard.steps.emulator.google.compute.addresses import free_range, used_ranges
from grpo_wizard.steps.emulator.google.compute.networks import resolve_network as find_network
from grpo_wizard.steps.emulator.google.compute.subnets import resolve_subnet as find_subnet
from grpo_wizard.steps.emulator.google.container import kubernetes_backend
from grpo_wizard.steps.emulator.google.container.defaults import cluster_body, gke_firewall_rules
from grpo_wizard.steps.emulator.google.container.node_pool_validation import check_max_pods, check_pool
from grpo_wizard.steps.emulator.google.container.node_pools import create_pool_record, list_pools
from grpo_wizard.steps.emulator.google.container.operations import (
    finish_operation,
    on_complete,
    require_idle,
    start_operation,
)
from grpo_wizard.steps.emulator.google.container.upgrades import oldest_node_version
from grpo_wizard.steps.emulator.google.container.versions import check_location, resolve_version
from grpo_wizard.steps.emulator.google.shared.fixtures import machine_types, zones
from grpo_wizard.steps.emulator.google.shared.self_links import COMPUTE, CONTAINER, parse_parent

_AUTO = ipaddress.IPv4Network("10.128.0.0/9")  # never chosen automatically; a range in it may be requested
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def invalid_argument(message: str) -> ApiError:
    """Return GKE's 400."""
    return ApiError(400, message, "INVALID_ARGUMENT", "badRequest")


def get_cluster(call: ApiCall, key: str) -> Record:
    """Return the cluster with a key. Raises GKE's 404."""
    record = call.store.get(CONTAINER, key)
    if record is None or record.kind != "cluster":
        raise ApiError(404, f"Not found: {key}.", "NOT_FOUND", "notFound")
    return record


def view(store: ResourceStore, record: Record) -> JSON:
    """Return a cluster with its pools."""
    body = copy.deepcopy(record.body)
    pools = list_pools(store, record.key)
    body["nodePools"] = [copy.deepcopy(pool.body) for pool in pools]
    body["currentNodeVersion"] = oldest_node_version(str(body["currentMasterVersion"]), pools)
    body["instanceGroupUrls"] = [url for pool in pools for url in pool.body["instanceGroupUrls"]]
    body["currentNodeCount"] = sum(sum(pool.extra["sizes"].values()) for pool in pools)
    body["ipAllocationPolicy"]["defaultPodIpv4RangeUtilization"] = _utilization(body)
    return body


def _utilization(cluster: JSON) -> float:
    """Return the used share of the pods' range, rounded as by GKE: 3 of 1,024 nodes are 0.0029."""
    whole = ipaddress.IPv4Network(cluster["clusterIpv4Cidr"])
    return round(cluster["currentNodeCount"] * 2**8 / whole.num_addresses, 4)


@handles("container.projects.locations.clusters.get")
def get(call: ApiCall) -> JSON:
    """Return one cluster."""
    return view(call.store, get_cluster(call, str(call.params["name"])))


@handles("container.projects.locations.clusters.list")
def list_(call: ApiCall) -> JSON:
    """List the clusters of one location, or of all (`-`)."""
    project, where = parse_parent(str(call.params["parent"]))
    check_location(where)
    records = call.store.all(CONTAINER, "cluster", project=project, location=where)
    return {"clusters": [view(call.store, record) for record in records]} if records else {}


@handles("container.projects.locations.clusters.create")
def create(call: ApiCall) -> JSON:
    """Create a cluster with its first pools. Takes minutes, after which its Kubernetes starts."""
    parent, asked = str(call.params["parent"]), dict(call.body.get("cluster", {}))
    project, where = parse_parent(parent)
    check_location(where)
    key = f"{parent}/clusters/{_name(asked)}"
    if call.store.get(CONTAINER, key):
        raise ApiError(409, f"Already exists: {key}.", "ALREADY_EXISTS", "alreadyExists")
    record = _create_record(call, project, key, asked)
    pools = _initial_pools(asked)
    for pool in pools:
        check_pool(call.store, record, pool)
    _check_cpus(call.store, record, pools)
    call.store.put(record)
    for pool in pools:
        create_pool_record(call.store, record, pool)
    return start_operation(call, "CREATE_CLUSTER", "cluster.create", record, "cluster.up")


def _name(asked: JSON) -> str:
    name = str(asked.get("name", ""))
    if not _NAME.fullmatch(name):
        raise invalid_argument(
            f'Invalid value for field "cluster.name": "{name}". Must be a match of regex '
            f'"(?:[a-z](?:[-a-z0-9]{{0,38}}[a-z0-9])?)".'
        )
    return name


def _create_record(call: ApiCall, project: str, key: str, asked: JSON) -> Record:
    store, where = call.store, key.split("/")[3]
    region = zones().get(where, where)
    check_locations(asked.get("locations", []), where)
    network = find_network(store, project, asked.get("network") or "default")
    if network is None or network.state != "ready":
        raise ApiError(
            404,
            f'Not found: project "{project}" does not have an auto-mode subnetwork for network '
            f'"{asked.get("network") or "default"}" in region "{region}".',
            "NOT_FOUND",
            "notFound",
        )
    subnet = find_subnet(store, project, region, asked.get("subnetwork") or network.name)
    if subnet is None:
        raise ApiError(
            404,
            f'Not found: project "{project}" does not have an auto-mode subnetwork for network '
            f'"{network.name}" in region '
            f'"{region}".',
            "NOT_FOUND",
            "notFound",
        )
    _check_networking(asked)
    version = resolve_version(
        asked.get("initialClusterVersion"), asked.get("releaseChannel", {}).get("channel", "REGULAR")
    )
    check_max_pods(asked.get("defaultMaxPodsConstraint", {}).get("maxPodsPerNode"))
    pods = _pod_range(store, network, asked, key)
    body = cluster_body(store, asked, key, version, network, subnet, pods, "34.118.224.0/20")
    extra = {"network": network.key, "subnetwork": subnet.key, "ranges": [pods]}
    return Record(CONTAINER, "cluster", asked["name"], project, where, key, body, "creating", extra=extra)


def _pod_range(store: ResourceStore, network: Record, asked: JSON, key: str) -> str:
    """Return the range of a cluster's pods: the requested one, one of the requested length (`/17`), or a free /14.

    The error texts are inferred.
    """
    given = str(
        asked.get("ipAllocationPolicy", {}).get("clusterIpv4CidrBlock")
        or asked.get("clusterIpv4Cidr")
        or "/14"
    )
    taken = used_ranges(store, network)
    try:
        if given.startswith("/") and 9 <= int(given[1:]) <= 21:
            return str(free_range(taken, int(given[1:]), key))
        block = ipaddress.IPv4Network(given)
    except ValueError:
        raise invalid_argument(f'Invalid value for field "cluster.clusterIpv4Cidr": "{given}".') from None
    if any(block.overlaps(other) for other in taken if other != _AUTO):
        raise invalid_argument(
            f"Requested CIDR {block} for pods conflicts with an existing range of the network."
        )
    return str(block)


def check_locations(places: list[str], where: str) -> None:
    """Reject zones outside a cluster's region."""
    region = zones().get(where, where)
    for zone in places:
        if zones().get(zone) != region:
            raise invalid_argument(f'Location "{zone}" does not belong to region "{region}".')


def _check_networking(asked: JSON) -> None:
    config = asked.get("networkConfig", {})
    if config.get("enableMultiNetworking") and config.get("datapathProvider") != "ADVANCED_DATAPATH":
        raise invalid_argument(
            "Multi-networking requires Dataplane V2 (networkConfig.datapathProvider ADVANCED_DATAPATH)."
        )
    pool = asked.get("workloadIdentityConfig", {}).get("workloadPool", "")
    if pool and not pool.endswith(".svc.id.goog"):
        raise invalid_argument(f'Invalid workload pool "{pool}": must be PROJECT_ID.svc.id.goog.')


def _initial_pools(asked: JSON) -> list[JSON]:
    if asked.get("nodePools"):
        names = [str(pool.get("name", "")) for pool in asked["nodePools"]]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise invalid_argument(f'Node pool name "{twice}" is not unique.')  # text inferred
        return [dict(pool) for pool in asked["nodePools"]]
    if int(asked.get("initialNodeCount", 0)) < 1:  # as quoted in reports of Rancher's and Terraform's users
        raise invalid_argument("Cluster.initial_node_count must be greater than zero.")
    return [
        {
            "name": "default-pool",
            "initialNodeCount": asked["initialNodeCount"],
            "config": asked.get("nodeConfig", {}),
        }
    ]


def _check_cpus(store: ResourceStore, cluster: Record, pools: list[JSON]) -> None:
    region = zones().get(cluster.location, cluster.location)
    for pool in pools:
        places = pool.get("locations") or cluster.body["locations"]
        machine = pool.get("config", {}).get("machineType", "e2-medium")
        cpus = machine_types(places[0]).get(machine, {}).get("guestCpus", 2)
        quotas.check_cpus(
            store, cluster.project, region, machine, cpus * len(places) * int(pool.get("initialNodeCount", 0))
        )


@on_complete("cluster.up")
def _on_created(store: ResourceStore, target: Record, operation: str) -> bool:
    network = store.get(COMPUTE, target.extra["network"])
    if network:
        for rule in gke_firewall_rules(target, network, store):
            store.put(rule)
    kubernetes_backend.start_cluster(store, target, operation)
    return False


@on_event("container.running")
def _on_running(store: ResourceStore, cluster: str, operation: str) -> None:
    record = store.get(CONTAINER, cluster)
    if record is not None:
        record.body["status"], record.state = "RUNNING", "ready"
        store.put(record)
        for pool in list_pools(store, cluster):
            if pool.state == "creating":
                pool.body["status"], pool.state = "RUNNING", "ready"
                store.put(pool)
        kubernetes_backend.notify_pools_changed(cluster)
    finish_operation(store, operation)


@on_complete("failed")
def _on_failed(store: ResourceStore, target: Record, kind: str, failure: JSON) -> bool:
    """A failed create leaves the resource in ERROR, as at GKE.

    A failed delete or update leaves it unchanged, a failed resize with its current nodes.
    """
    text = str(failure.get("statusMessage") or failure.get("message", ""))
    if kind in ("CREATE_CLUSTER", "CREATE_NODE_POOL"):
        target.state = "failed"
        target.body.update(status="ERROR", statusMessage=text, conditions=[_condition(failure, text)])
        for pool in list_pools(store, target.key) if kind == "CREATE_CLUSTER" else [target]:
            pool.state, pool.extra["sizes"] = "failed", dict.fromkeys(pool.body["locations"], 0)
            pool.body.update(status="ERROR", statusMessage=text)
            store.put(pool)
        if failure.get("heals_after_s") is not None and kind == "CREATE_NODE_POOL":
            store.schedule(float(failure["heals_after_s"]), "container.heal", pool=target.key)
    elif kind == "SET_NODE_POOL_SIZE":  # terraform-provider-google issue 3304; existing nodes keep running
        target.body.update(
            status="RUNNING_WITH_ERROR", statusMessage=text, conditions=[_condition(failure, text)]
        )
    else:
        target.extra.pop("upgrade", None)
        target.state, target.body["status"] = "ready", "RUNNING"
    store.put(target)
    return True


def _condition(failure: JSON, text: str) -> JSON:
    code = (
        "GCE_STOCKOUT"
        if "STOCKOUT" in text
        else "GCE_QUOTA_EXCEEDED"
        if "QUOTA" in text.upper()
        else "UNKNOWN"
    )
    return {
        "code": code,
        "canonicalCode": "RESOURCE_EXHAUSTED" if code != "UNKNOWN" else "FAILED_PRECONDITION",
        "message": text,
    }


@handles("container.projects.locations.clusters.delete")
def delete(call: ApiCall) -> JSON:
    """Delete a cluster and its pools. Rejected while another operation runs."""
    record = get_cluster(call, str(call.params["name"]))
    require_idle(call.store, record)
    record.state, record.body["status"] = "deleting", "STOPPING"
    call.store.put(record)
    return start_operation(call, "DELETE_CLUSTER", "cluster.delete", record, "cluster.gone")


@on_complete("cluster.gone")
def _on_deleted(store: ResourceStore, target: Record, operation: str) -> bool:
    for pool in list_pools(store, target.key):
        store.remove(pool)
    for rule in store.all(COMPUTE, "firewall", project=target.project):
        if rule.extra.get("cluster") == target.key and rule.name.startswith("gke-"):
            store.remove(rule)
    kubernetes_backend.stop_cluster(target.key)
    store.remove(target)
    return True
