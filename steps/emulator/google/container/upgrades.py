"""Upgrades: the control plane's version moves when its operation ends, a pool's nodes are replaced one by one."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.emulator.google.container import kubernetes_backend
from grpo_wizard.steps.emulator.google.container.defaults import etag
from grpo_wizard.steps.emulator.google.container.operations import effect, refuse_busy, start
from grpo_wizard.steps.emulator.google.container.versions import choose_node, choose_upgrade, order
from grpo_wizard.steps.emulator.google.shared.durations import seconds
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Record, World, happens

_SPAN = "pool.upgrade_node"


def upgrade_master(call: Call, cluster: Record, asked: Any) -> JSON:
    """Moves the control plane to the version that is asked for."""
    body = cluster.body
    chosen = choose_upgrade(
        asked, str(body["releaseChannel"].get("channel", "")), body["currentMasterVersion"]
    )
    refuse_busy(call.world, cluster)
    body["status"] = "RECONCILING"
    call.world.put(cluster)
    return start(call, "UPGRADE_MASTER", "cluster.upgrade", cluster, "master.upgraded", version=chosen)


@effect("master.upgraded")
def _master(world: World, target: Record, operation: str, version: str) -> bool:
    target.body.update(currentMasterVersion=version, status="RUNNING", etag=etag())
    world.put(target)
    kubernetes_backend.upgraded(target.key, version)
    return True


def upgrade_nodes(call: Call, cluster: Record, pool: Record, asked: Any) -> JSON:
    """Moves a pool to the version that is asked for: each node takes its time."""
    chosen = choose_node(asked, str(cluster.body["currentMasterVersion"]))
    refuse_busy(call.world, cluster, pool.key)
    count = sum(pool.extra["sizes"].values())
    pool.extra["upgrade"] = {"target": chosen, "renewed": 0}
    pool.body["status"] = "RECONCILING"
    call.world.put(pool)
    for done in range(1, count + 1):
        call.world.later(
            done * seconds(_SPAN, pool.name), "container.node", pool=pool.key, target=chosen, done=done
        )
    return start(
        call, "UPGRADE_NODES", _SPAN, pool, "nodes.upgraded", times=max(1, count), nodes=count, version=chosen
    )


@happens("container.node")
def _node(world: World, pool: str, target: str, done: int) -> None:
    """One more node may be replaced; late after a restart, none is replaced twice."""
    record = world.get(CONTAINER, pool)
    upgrade = record.extra.get("upgrade") if record is not None else None
    if record is not None and upgrade is not None and upgrade["target"] == target:
        upgrade["renewed"] = max(done, upgrade["renewed"])
        world.put(record)
        kubernetes_backend.pools_changed(pool)


@effect("nodes.upgraded")
def _nodes(world: World, target: Record, operation: str, version: str) -> bool:
    target.extra.pop("upgrade", None)
    target.body.update(version=version, status="RUNNING", etag=etag())
    world.put(target)
    kubernetes_backend.pools_changed(target.key)
    return True


def oldest(master: str, pools: list[Record]) -> str:
    """A cluster's `currentNodeVersion`: the lowest of its pools', or the control plane's where there are none."""
    return min((str(pool.body["version"]) for pool in pools), key=order, default=master)


def of_cluster(call: Call, cluster: Record, pools: list[Record], asked: JSON) -> JSON | None:
    """What of a ClusterUpdate concerns versions, carried out; None where nothing does."""
    if "desiredMasterVersion" in asked:
        return upgrade_master(call, cluster, asked["desiredMasterVersion"])
    if "desiredNodeVersion" in asked:
        return upgrade_nodes(call, cluster, the_pool(cluster, pools, asked), asked["desiredNodeVersion"])
    return None


def the_pool(cluster: Record, pools: list[Record], asked: JSON) -> Record:
    """The pool that a ClusterUpdate means: the named one, or the only one. Wording inferred."""
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
