"""The cluster autoscaler: nodes for pods that wait, none for those that do not, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from grpo_wizard.steps.emulator.drills import kubernetes
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.controllers import scheduler, scheduling_predicates, volumes
from grpo_wizard.steps.emulator.kube.controllers.event_throttle import Repeats
from grpo_wizard.steps.emulator.kube.controllers.scheduling_predicates import Amounts
from grpo_wizard.steps.emulator.kube.core import Kube
from grpo_wizard.steps.emulator.kube.node import failures, machines, nodes
from grpo_wizard.steps.emulator.server.context import JSON

_SOURCE = "cluster-autoscaler"
UNNEEDED_S = 600.0  # GKE's balanced profile removes a node that was not needed for 10 min
_NONE_LEFT = "scale.up.error.out.of.resources: GCE out of resources"
RETRY_S = 60.0  # a refused pool is asked again after about this long
_LEAST_REAL_S = 3.0  # with no durations at all a node must still live long enough to be used


@dataclass(frozen=True)
class Refusal:
    """Why a pod gets no node, as an event."""

    reason: str
    message: str


def reconcile(kube: Kube) -> Iterator[None]:
    """Yields between pods, so that requests get their turn."""
    pools = [p for p in kube.ground.pools(kube.cluster_key) if (p.get("autoscaling") or {}).get("enabled")]
    waiting = [
        p for p in scheduler.pending(kube) if p["status"].get("conditions") and not volumes.unbound(kube, p)
    ]
    repeats = Repeats(kube, "told", RETRY_S, len(waiting))
    if waiting:
        yield from _scale_up(kube, pools, waiting, repeats)
    repeats.end()
    _forget_gone(kube, waiting)
    _scale_down(kube, pools, busy=bool(waiting))


def template(kube: Kube, pool: JSON, zone: str) -> tuple[JSON, Amounts]:
    """A node that the pool could grow by, with its GPUs and networks, and its room."""
    from grpo_wizard.steps.emulator.kube.controllers import gke_networks

    _, allocatable = machines.resources(pool)
    gpu, count = machines.accelerators(pool)
    if gpu and machines.driver_comes(pool):
        allocatable["nvidia.com/gpu"] = str(count)
    wired = {
        str(n.get("subnetwork", "")).rsplit("/", 1)[-1]
        for n in (pool.get("networkConfig") or {}).get("additionalNodeNetworkConfigs") or []
    }
    params = {p["metadata"]["name"]: p["spec"]["vpcSubnet"] for p in kube.store.list(kinds.PARAM_SET)}
    for network in kube.store.list(kinds.NETWORK):
        if params.get(network["spec"].get("parametersRef", {}).get("name")) in wired:
            allocatable[gke_networks.resource(network["metadata"]["name"])] = "1"
    node = {
        "metadata": {"name": f"template-{pool['name']}", "labels": machines.labels(pool, "template", zone)},
        "spec": {"taints": machines.taints(pool)},
    }
    return node, machines.amounts(allocatable)


def _zone(pool: JSON) -> str:
    return str((pool.get("locations") or ["us-central1-b"])[0])


def _limit(kube: Kube, pool: JSON) -> int:
    scaling = pool["autoscaling"]
    less = 1 if kubernetes.runs("pool-maximum") and machines.accelerators(pool)[0] else 0
    most = int(scaling.get("totalMaxNodeCount") or 0) or int(scaling.get("maxNodeCount") or 0) * max(
        len(pool.get("locations") or [1]), 1
    )
    return most - less


def _size(kube: Kube, pool: JSON) -> int:
    return sum(kube.ground.sizes(kube.cluster_key, pool["name"]).values())


def _upcoming(kube: Kube, pools: list[JSON]) -> list[tuple[JSON, Amounts]]:
    """Nodes that were asked for and are not there, or not with their GPUs: pods may count on them."""
    found = []
    for pool in pools:
        ready = [
            n
            for n in kube.store.list(kinds.NODE)
            if nodes.pool_of(n) == pool["name"]
            and (not machines.accelerators(pool)[0] or "nvidia.com/gpu" in n["status"]["allocatable"])
        ]
        for _ in range(_size(kube, pool) - len(ready)):
            found.append(template(kube, pool, _zone(pool)))
    return found


def _scale_up(kube: Kube, pools: list[JSON], waiting: list[JSON], repeats: Repeats) -> Iterator[None]:
    """Coming nodes first, then new ones. A shape that no pool can grow for is judged once."""
    virtual = _upcoming(kube, pools)
    judged: dict[str, Refusal] = {}
    for pod in waiting:
        yield
        wanted, shape = scheduling_predicates.requests(pod), scheduling_predicates.shape(pod)
        if shape in judged:
            _tell(kube, pod, judged[shape], repeats)
            continue
        home = next(
            (room for node, room in virtual if not scheduling_predicates.refusals(pod, wanted, node, room)),
            None,
        )
        if home is None:
            grown = _grow(kube, pools, pod, wanted)
            if isinstance(grown, Refusal):
                judged[shape] = grown
                _tell(kube, pod, grown, repeats)
                continue
            virtual.append(grown)
            home = grown[1]
        scheduler.take(home, wanted)


def _grow(kube: Kube, pools: list[JSON], pod: JSON, wanted: Amounts) -> tuple[JSON, Amounts] | Refusal:
    reasons: Counter[str] = Counter()
    for pool in pools:
        node, room = template(kube, pool, _zone(pool))
        why = scheduling_predicates.refusals(pod, wanted, node, room)
        if why:
            reasons.update(why[:1])
        elif (size := _size(kube, pool)) >= _limit(kube, pool):
            reasons["max node group size reached"] += 1
        elif (refused := _ask(kube, pool)) is None:
            _told_up(kube, pod, pool, size)
            return node, room
        else:
            return _refusal(pool, refused)
    listed = ", ".join(f"{n} {text}" for text, n in sorted(reasons.items()))
    return Refusal("NotTriggerScaleUp", f"pod didn't trigger scale-up: {listed}")


def _ask(kube: Kube, pool: JSON) -> str | None:
    """One more node from the cloud, unless it just refused one."""
    refused = kube.note("refused")
    key, known = f"refused/{pool['name']}", refused.get(pool["name"])
    if known is not None and not kube.due(key, RETRY_S, _LEAST_REAL_S):
        return _in_backoff(known)
    kube.forget(key)
    why = _NONE_LEFT if failures.none_left(kube) else kube.ground.take_node(kube.cluster_key, pool["name"])
    if why is None:
        refused.pop(pool["name"], None)
        return None
    refused[pool["name"]] = why
    kube.due(key, RETRY_S, _LEAST_REAL_S)
    return _in_backoff(why) if why == known else why


def _in_backoff(why: str) -> str:
    """What the autoscaler says of a pool after its failure was told once (kubernetes/autoscaler issues 1607, 5692)."""
    failed = why.startswith(("scale.up.error", "Node scale up"))
    return "in backoff after failed scale-up" if failed else why


def _told_up(kube: Kube, pod: JSON, pool: JSON, size: int) -> None:
    urls = pool.get("instanceGroupUrls") or []
    group = (
        urls[0]
        if urls
        else (
            f"https://www.googleapis.com/compute/v1/projects/{kube.project}/zones/{_zone(pool)}/"
            f"instanceGroups/gke-{kube.name}-{pool['name']}-grp"
        )
    )
    kube.event(
        kinds.POD,
        pod,
        "TriggeredScaleUp",
        f"pod triggered scale-up: [{{{group} {size}->{size + 1} (max: {_limit(kube, pool)})}}]",
        _SOURCE,
    )


def _refusal(pool: JSON, refused: str) -> Refusal:
    """What the cloud said, in the autoscaler's frame: an error is a failed scale-up, a limit none at all."""
    if refused.startswith("scale.up.error"):
        refused = (
            f"Node scale up in zones {_zone(pool)} associated with this pod failed: {refused}. "
            "Pod is at risk of "
            "not being scheduled."
        )
    elif not refused.startswith(("pod didn't trigger", "Node scale up")):
        refused = f"pod didn't trigger scale-up: 1 {refused}"
    return Refusal("FailedScaleUp" if refused.startswith("Node") else "NotTriggerScaleUp", refused)


def _tell(kube: Kube, pod: JSON, refusal: Refusal, repeats: Repeats) -> None:
    """Tells it at once, and again about once a minute."""
    told, uid, shape = kube.note("refusals"), pod["metadata"]["uid"], scheduling_predicates.shape(pod)
    reason, message = refusal.reason, refusal.message
    if told.get(uid) != message:
        told[uid] = message
        repeats.told(shape)
    elif not repeats.due(shape):
        return
    kube.event(kinds.POD, pod, reason, message, _SOURCE, warning=reason == "FailedScaleUp")


def _forget_gone(kube: Kube, waiting: list[JSON]) -> None:
    told = kube.note("refusals")
    for uid in told.keys() - {pod["metadata"]["uid"] for pod in waiting}:
        del told[uid]


def _scale_down(kube: Kube, pools: list[JSON], *, busy: bool) -> None:
    by_name = {p["name"]: p for p in pools}
    standing = kube.store.list(kinds.NODE)
    used = {p["spec"].get("nodeName") for p in kube.store.list(kinds.POD) if not nodes.of_daemon_set(p)}
    plain = [n for n in standing if not n["spec"].get("taints")]
    for node in standing:
        name, pool = node["metadata"]["name"], by_name.get(nodes.pool_of(node))
        key = f"idle/{node['metadata']['uid']}"
        last = node in plain and len(plain) <= 1  # something must carry kube-system
        if pool is None or name in used or busy or last or _size(kube, pool) <= _least(pool):
            kube.forget(key)
        elif kube.due(key, UNNEEDED_S, _LEAST_REAL_S):
            kube.event(kinds.NODE, node, "ScaleDown", "marked the node as toBeDeleted/unschedulable", _SOURCE)
            kube.ground.give_node(kube.cluster_key, pool["name"], nodes.zone_of(node))
            nodes.remove(kube, node)
            kube.forget(key)
            plain = [n for n in plain if n is not node]


def _least(pool: JSON) -> int:
    scaling = pool["autoscaling"]
    return int(scaling.get("totalMinNodeCount") or 0) or int(scaling.get("minNodeCount") or 0) * max(
        len(pool.get("locations") or [1]), 1
    )
