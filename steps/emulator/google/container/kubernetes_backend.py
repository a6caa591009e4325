"""Starts, stops and restarts clusters' Kubernetes, and gives them access to the cloud's capacity."""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
import logging
from collections.abc import Coroutine
from pathlib import Path

from grpo_wizard.steps.emulator.context import (
    CLUSTERS,
    JSON,
    ApiError,
    Record,
    ResourceStore,
    ServerContext,
    server_context,
)
from grpo_wizard.steps.emulator.drills.active import is_active
from grpo_wizard.steps.emulator.google.compute import quotas
from grpo_wizard.steps.emulator.google.compute.reservations import (
    available_for,
    reservation_not_found,
    reservation_of,
)
from grpo_wizard.steps.emulator.google.container.operations import cluster_of
from grpo_wizard.steps.emulator.google.container.versions import version_key
from grpo_wizard.steps.emulator.google.shared.fixtures import machine_types, zones
from grpo_wizard.steps.emulator.google.shared.self_links import COMPUTE, CONTAINER, LUSTRE

_log = logging.getLogger(__name__)
_DEFAULT_LUSTRE_PORT_SINCE = (
    1,
    33,
    2,
    4655000,
)  # GKE versions before this one support Lustre's legacy port 6988 only
_TASKS: set[asyncio.Task[None]] = set()


class EmulatedCloudBackend:
    """Implements context.CloudBackend with the store's records."""

    def __init__(self, store: ResourceStore) -> None:
        self._store = store

    def _pool(self, cluster_key: str, pool: str) -> Record | None:
        return self._store.get(CONTAINER, f"{cluster_key}/nodePools/{pool}")

    def pools(self, cluster_key: str) -> list[JSON]:
        """Return the pools whose nodes Kubernetes may show, without those being created or deleted."""
        project = cluster_key.split("/")[1]
        return [
            _pool_for_kubernetes(self._store, record)
            for record in self._store.all(CONTAINER, "node_pool", project=project)
            if cluster_of(record.key) == cluster_key and record.state not in ("creating", "deleting")
        ]

    def node_counts(self, cluster_key: str, pool: str) -> dict[str, int]:
        """Return the node count by zone."""
        record = self._pool(cluster_key, pool)
        return dict(record.extra["sizes"]) if record else {}

    def allocate_node(self, cluster_key: str, pool: str) -> str | None:
        """Add a node in the emptiest zone with room. Returns None when granted, otherwise the reason."""
        record = self._pool(cluster_key, pool)
        if record is None or record.state != "ready":
            return "node pool is not ready"
        sizes: dict[str, int] = record.extra["sizes"]
        refusal = _size_limit_error(record, sizes)
        for zone in sorted(sizes, key=lambda name: sizes[name]):
            refusal = refusal or _capacity_error(self._store, record, zone)
            if refusal is None and sizes[zone] < _zone_limit(record):
                sizes[zone] += 1
                self._store.put(record)
                return None
        return refusal or "max node group size reached"

    def release_node(self, cluster_key: str, pool: str, zone: str = "") -> None:
        """Remove a node from `zone`, or from the fullest zone."""
        record = self._pool(cluster_key, pool)
        if record is not None and record.extra["sizes"]:
            sizes: dict[str, int] = record.extra["sizes"]
            from_zone = zone if zone in sizes else max(sizes, key=lambda name: sizes[name])
            sizes[from_zone] = max(0, sizes[from_zone] - 1)
            self._store.put(record)

    def lustre_instance(self, volume_handle: str) -> JSON | None:
        """Return the instance of a volume handle `project/zone/name` (or `zone/name`); None if it does not exist."""
        parts = volume_handle.split("/")
        if len(parts) != 3:
            return None
        record = self._store.get(LUSTRE, f"projects/{parts[0]}/locations/{parts[1]}/instances/{parts[2]}")
        return copy.deepcopy(record.body) if record else None

    def lustre_port(self, cluster_key: str) -> int:
        """Return the legacy port if the add-on requests it or the version supports no other."""
        record = self._store.get(CONTAINER, cluster_key)
        if record is None:
            return 988
        driver = record.body.get("addonsConfig", {}).get("lustreCsiDriverConfig", {})
        old = version_key(str(record.body["currentMasterVersion"])) < _DEFAULT_LUSTRE_PORT_SINCE
        return 6988 if old or driver.get("enableLegacyLustrePort") else 988


def _pool_for_kubernetes(store: ResourceStore, pool: Record) -> JSON:
    """Return a pool as its Kubernetes needs it: with its subnets' ranges and the progress of a node upgrade."""
    cluster = store.get(CONTAINER, cluster_of(pool.key))
    nodes = store.get(COMPUTE, cluster.extra["subnetwork"]) if cluster else None
    more = [store.get(COMPUTE, key) for key in pool.extra.get("subnetworks", ())]
    ranges = {subnet.name: subnet.body["ipCidrRange"] for subnet in more if subnet}
    ranges |= {"nodes": nodes.body["ipCidrRange"]} if nodes else {}
    body = {**copy.deepcopy(pool.body), "rehearsalRanges": ranges}
    return {**body, "rehearsalUpgrade": dict(pool.extra["upgrade"])} if "upgrade" in pool.extra else body


def _size_limit_error(pool: Record, sizes: dict[str, int]) -> str | None:
    scaling = pool.body.get("autoscaling", {})
    if not scaling.get("enabled"):
        return "node pool has no autoscaling"
    total = scaling.get("totalMaxNodeCount")
    return "max node group size reached" if total and sum(sizes.values()) >= int(total) else None


def _zone_limit(pool: Record) -> int:
    return int(pool.body.get("autoscaling", {}).get("maxNodeCount") or 1000)


def _capacity_error(store: ResourceStore, pool: Record, zone: str) -> str | None:
    machine = str(pool.body["config"]["machineType"])
    if is_active("stock-out"):  # the real event has no more details
        return "scale.up.error.out.of.resources: GCE out of resources"
    value = reservation_of(pool.body)
    record, left = available_for(store, pool.project, zone, value, machine) if value else (None, 1)
    if value and record is None:  # GKE's text when creating a pool; in an event it is inferred
        return f"scale.up.error.out.of.resources: {reservation_not_found(value, pool.name, zone)}"
    if left < 1:
        return (
            f"scale.up.error.out.of.resources: Instance in zone {zone} could not be created: specific "
            f"reservation '{value}' has no machine of type {machine} left"
        )
    try:
        quotas.check_cpus(
            store,
            pool.project,
            zones()[zone],
            machine,
            machine_types(zone).get(machine, {}).get("guestCpus", 2),
        )
    except ApiError as refusal:
        return f"scale.up.error.quota.exceeded: {refusal.message}"
    return None


def start_cluster(store: ResourceStore, cluster: Record, operation: str) -> None:
    """Start a cluster's Kubernetes and store its endpoint and CA in the cluster.

    The event `container.running` follows.
    """
    cluster.extra["rising"] = operation  # saved: a server killed now starts it again
    store.put(cluster)
    _create_task(_start_cluster(store, cluster.key))


async def _start_cluster(store: ResourceStore, key: str) -> None:
    from grpo_wizard.steps.emulator.kube.cluster import EmulatedCluster

    record = store.get(CONTAINER, key)
    if record is None or key in CLUSTERS:
        return
    it, body = server_context(), record.body
    addons = {
        name
        for name, field in (("ray", "rayOperatorConfig"), ("lustre", "lustreCsiDriverConfig"))
        if body.get("addonsConfig", {}).get(field, {}).get("enabled")
    }
    server = EmulatedCluster(
        project=record.project,
        location=record.location,
        name=record.name,
        cluster_key=key,
        version=str(body["currentMasterVersion"]),
        addons=addons,
        workload_pool=body.get("workloadIdentityConfig", {}).get("workloadPool", ""),
        cloud=EmulatedCloudBackend(store),
        heads=it.heads,
        clock=store.clock,
        ssl_context=it.create_tls_context("127.0.0.1", "localhost"),
        ca_path=it.ca_file,
        token=it.token,
        root=_cluster_folder(it, key),
        port=record.extra.get("port"),
        saved_state=record.extra.get("kube"),
        on_change=store.mark_dirty,
        fault_middleware=it.build_middleware(
            lambda request: ("kubernetes", request.path),
            lambda request: None if request.method in ("GET", "HEAD") else store.flush(),
        ),
        match_fault=it.match_fault,
    )
    url = await server.start()
    if store.get(CONTAINER, key) is None:  # deleted in the meantime
        await server.stop()
        return
    CLUSTERS[key] = server
    _record_endpoint(store, record, it, url)
    operation = record.extra.pop("rising", None)
    if operation:
        store.schedule(0, "container.running", cluster=key, operation=operation)


def _cluster_folder(it: ServerContext, key: str) -> Path:
    """Return a cluster's folder; short, because Ray's socket paths below it are limited to 107 characters."""
    return it.folder / "kube" / hashlib.sha256(key.encode()).hexdigest()[:10]


def _record_endpoint(store: ResourceStore, record: Record, it: ServerContext, url: str) -> None:
    endpoint = url.removeprefix("https://")
    record.extra["port"] = int(endpoint.rpartition(":")[2])
    record.body["endpoint"] = endpoint
    record.body["masterAuth"]["clusterCaCertificate"] = base64.b64encode(it.ca_file.read_bytes()).decode()
    name = f"gke-{record.body['id'][:36]}-{store.project_number(record.project)}.{record.location}.gke.goog"
    record.body["controlPlaneEndpointsConfig"] = {
        "dnsEndpointConfig": {"allowExternalTraffic": False, "endpoint": name},
        "ipEndpointsConfig": {"enabled": True, "enablePublicEndpoint": True, "publicEndpoint": endpoint},
    }
    record.body["privateClusterConfig"]["publicEndpoint"] = endpoint
    store.put(record)


def stop_cluster(key: str) -> None:
    """Stop a cluster's Kubernetes."""
    server = CLUSTERS.pop(key, None)
    if server is not None:
        _create_task(server.stop())


def notify_pools_changed(key: str) -> None:
    """Notify a cluster's Kubernetes (by the cluster's or a pool's key) that its pools changed."""
    server = CLUSTERS.get(cluster_of(key))
    if server is not None:
        server.on_pools_changed()


def notify_upgraded(key: str, version: str) -> None:
    """Notify a cluster's Kubernetes that its control plane has a new version."""
    server = CLUSTERS.get(key)
    if server is not None:
        server.on_control_plane_upgraded(version)


async def restart_clusters(store: ResourceStore) -> None:
    """Start the Kubernetes of every existing cluster after a restart, on its previous port."""
    for record in store.all(CONTAINER, "cluster"):
        if (record.body.get("endpoint") or "rising" in record.extra) and record.key not in CLUSTERS:
            await _start_cluster(store, record.key)


def _create_task(work: Coroutine[None, None, None]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    _TASKS.add(task)
    task.add_done_callback(_on_task_done)


def _on_task_done(task: asyncio.Task[None]) -> None:
    _TASKS.discard(task)
    if not task.cancelled() and task.exception():
        _log.error("a cluster's Kubernetes failed", exc_info=task.exception())
