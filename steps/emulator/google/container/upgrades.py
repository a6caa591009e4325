"""Upgrades: the control plane's version changes when its operation ends; a pool's nodes are replaced one by one."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, Record, ResourceStore, on_event
from grpo_wizard.steps.emulator.google.container import kubernetes_backend
from grpo_wizard.steps.emulator.google.container.defaults import new_etag
from grpo_wizard.steps.emulator.google.container.operations import on_complete, require_idle, start_operation
from grpo_wizard.steps.emulator.google.container.versions import (
    resolve_node_version,
    resolve_upgrade,
    version_key,
)
from grpo_wizard.steps.emulator.google.shared.durations import sample_seconds
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER

_UPGRADE_NODE_DURATION = "pool.upgrade_node"


def upgrade_master(call: ApiCall, cluster: Record, asked: Any) -> JSON:
    """Upgrade the control plane to the requested version."""
    body = cluster.body
    chosen = resolve_upgrade(
        asked, str(body["releaseChannel"].get("channel", "")), body["currentMasterVersion"]
    )
    require_idle(call.store, cluster)
    body["status"] = "RECONCILING"
    call.store.put(cluster)
    return start_operation(
        call, "UPGRADE_MASTER", "cluster.upgrade", cluster, "master.upgraded", version=chosen
    )


@on_complete("master.upgraded")
def _on_master_upgraded(store: ResourceStore, target: Record, operation: str, version: str) -> bool:
    target.body.update(currentMasterVersion=version, status="RUNNING", etag=new_etag())
    store.put(target)
    kubernetes_backend.notify_upgraded(target.key, version)
    return True


def upgrade_nodes(call: ApiCall, cluster: Record, pool: Record, asked: Any) -> JSON:
    """Upgrade a pool to the requested version; each node takes its time."""
    chosen = resolve_node_version(asked, str(cluster.body["currentMasterVersion"]))
    require_idle(call.store, cluster, pool.key)
    count = sum(pool.extra["sizes"].values())
    pool.extra["upgrade"] = {"target": chosen, "renewed": 0}
    pool.body["status"] = "RECONCILING"
    call.store.put(pool)
    for done in range(1, count + 1):
        call.store.schedule(
            done * sample_seconds(_UPGRADE_NODE_DURATION, pool.name),
            "container.node",
            pool=pool.key,
            target=chosen,
            done=done,
        )
    return start_operation(
        call,
        "UPGRADE_NODES",
        _UPGRADE_NODE_DURATION,
        pool,
        "nodes.upgraded",
        times=max(1, count),
        nodes=count,
        version=chosen,
    )


@on_event("container.node")
def _on_node_upgraded(store: ResourceStore, pool: str, target: str, done: int) -> None:
    """Allow one more node to be replaced; after a restart, none is replaced twice."""
    record = store.get(CONTAINER, pool)
    upgrade = record.extra.get("upgrade") if record is not None else None
    if record is not None and upgrade is not None and upgrade["target"] == target:
        upgrade["renewed"] = max(done, upgrade["renewed"])
        store.put(record)
        kubernetes_backend.notify_pools_changed(pool)


@on_complete("nodes.upgraded")
def _on_nodes_upgraded(store: ResourceStore, target: Record, operation: str, version: str) -> bool:
    target.extra.pop("upgrade", None)
    target.body.update(version=version, status="RUNNING", etag=new_etag())
    store.put(target)
    kubernetes_backend.notify_pools_changed(target.key)
    return True


def oldest_node_version(master: str, pools: list[Record]) -> str:
    """Return a cluster's `currentNodeVersion`: the lowest of its pools, or the control plane's without pools."""
    return min((str(pool.body["version"]) for pool in pools), key=version_key, default=master)


def apply_version_update(call: ApiCall, cluster: Record, pools: list[Record], asked: JSON) -> JSON | None:
    """Apply the version fields of a ClusterUpdate; None if it has none."""
    if "desiredMasterVersion" in asked:
        return upgrade_master(call, cluster, asked["desiredMasterVersion"])
    if "desiredNodeVersion" in asked:
        return upgrade_nodes(call, cluster, updated_pool(cluster, pools, asked), asked["desiredNodeVersion"])
    return None


def updated_pool(cluster: Record, pools: list[Record], asked: JSON) -> Record:
    """Return the pool of a ClusterUpdate: the named one, or the only one. The text is inferred."""
    name = asked.get("desiredNodePoolId")
    named = [pool for pool in pools if name in (None, pool.name)]
    if name and not named:
        raise ApiError(404, f'Not found: node pool "{name}" not found.', "NOT_FOUND", "notFound")
    if len(named) != 1:
        raise ApiError(
            400,
            f"Must specify a node pool: cluster {cluster.name} has {len(pools)} of them.",
            "INVALID_ARGUMENT",
            "badRequest",
        )
    return named[0]
