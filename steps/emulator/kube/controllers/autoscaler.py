"""The cluster autoscaler: adds nodes for pending pods, removes unneeded ones, and reports why it cannot scale up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.drills import kubernetes
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import scheduler, scheduling_predicates, volumes
from grpo_wizard.steps.emulator.kube.controllers.event_throttle import EventThrottle
from grpo_wizard.steps.emulator.kube.controllers.scheduling_predicates import ResourceAmounts
from grpo_wizard.steps.emulator.kube.node import failures, machines, nodes

_SOURCE = "cluster-autoscaler"
SCALE_DOWN_DELAY_S = 600.0  # GKE's balanced profile removes a node that was unneeded for 10 min
_OUT_OF_RESOURCES = "scale.up.error.out.of.resources: GCE out of resources"
BACKOFF_S = 60.0  # backoff after a failed scale-up
_MIN_REAL_SECONDS = 3.0  # without durations, a node must still exist long enough to be used


@dataclass(frozen=True)
class ScaleUpFailure:
    """Why a pod gets no node, as an event."""

    reason: str
    message: str


def reconcile(kube: ClusterContext) -> Iterator[None]:
    """Yields between pods, so that requests can be served."""
    pools = [p for p in kube.cloud.pools(kube.cluster_key) if (p.get("autoscaling") or {}).get("enabled")]
    waiting = [
        p
        for p in scheduler.pending_pods(kube)
        if p["status"].get("conditions") and not volumes.pending_claim(kube, p)
    ]
    repeats = EventThrottle(kube, "told", BACKOFF_S, len(waiting))
    if waiting:
        yield from _scale_up(kube, pools, waiting, repeats)
    repeats.drop_stale_timers()
    _discard_finished_pods(kube, waiting)
    _scale_down(kube, pools, busy=bool(waiting))


def node_template(kube: ClusterContext, pool: JSON, zone: str) -> tuple[JSON, ResourceAmounts]:
    """Return a node that the pool could add, with its GPUs, networks and free resources."""
    from grpo_wizard.steps.emulator.kube.controllers import gke_networks

    _, allocatable = machines.node_resources(pool)
    gpu, count = machines.accelerators(pool)
    if gpu and machines.gke_installs_driver(pool):
        allocatable["nvidia.com/gpu"] = str(count)
    wired = {
        str(n.get("subnetwork", "")).rsplit("/", 1)[-1]
        for n in (pool.get("networkConfig") or {}).get("additionalNodeNetworkConfigs") or []
    }
    params = {
        p["metadata"]["name"]: p["spec"]["vpcSubnet"] for p in kube.store.list(kinds.GKE_NETWORK_PARAM_SET)
    }
    for network in kube.store.list(kinds.NETWORK):
        if params.get(network["spec"].get("parametersRef", {}).get("name")) in wired:
            allocatable[gke_networks.device_resource(network["metadata"]["name"])] = "1"
    node = {
        "metadata": {
            "name": f"template-{pool['name']}",
            "labels": machines.node_labels(pool, "template", zone),
        },
        "spec": {"taints": machines.node_taints(pool)},
    }
    return node, machines.parse_amounts(allocatable)


def _zone(pool: JSON) -> str:
    return str((pool.get("locations") or ["us-central1-b"])[0])


def _max_size(kube: ClusterContext, pool: JSON) -> int:
    scaling = pool["autoscaling"]
    less = 1 if kubernetes.is_active("pool-maximum") and machines.accelerators(pool)[0] else 0
    most = int(scaling.get("totalMaxNodeCount") or 0) or int(scaling.get("maxNodeCount") or 0) * max(
        len(pool.get("locations") or [1]), 1
    )
    return most - less


def _size(kube: ClusterContext, pool: JSON) -> int:
    return sum(kube.cloud.node_counts(kube.cluster_key, pool["name"]).values())


def _upcoming(kube: ClusterContext, pools: list[JSON]) -> list[tuple[JSON, ResourceAmounts]]:
    """Return the nodes that are requested but missing, or without their GPUs yet: pods may count on them."""
    found = []
    for pool in pools:
        ready = [
            n
            for n in kube.store.list(kinds.NODE)
            if nodes.pool_of(n) == pool["name"]
            and (not machines.accelerators(pool)[0] or "nvidia.com/gpu" in n["status"]["allocatable"])
        ]
        for _ in range(_size(kube, pool) - len(ready)):
            found.append(node_template(kube, pool, _zone(pool)))
    return found


def _scale_up(
    kube: ClusterContext, pools: list[JSON], waiting: list[JSON], repeats: EventThrottle
) -> Iterator[None]:
    """Use upcoming nodes first, then request new ones.

    A pod shape that no pool can serve is evaluated once.
    """
    virtual = _upcoming(kube, pools)
    judged: dict[str, ScaleUpFailure] = {}
    for pod in waiting:
        yield
        wanted, shape = scheduling_predicates.pod_requests(pod), scheduling_predicates.scheduling_key(pod)
        if shape in judged:
            _report_failure(kube, pod, judged[shape], repeats)
            continue
        home = next(
            (
                room
                for node, room in virtual
                if not scheduling_predicates.unschedulable_reasons(pod, wanted, node, room)
            ),
            None,
        )
        if home is None:
            grown = _scale_up_for(kube, pools, pod, wanted)
            if isinstance(grown, ScaleUpFailure):
                judged[shape] = grown
                _report_failure(kube, pod, grown, repeats)
                continue
            virtual.append(grown)
            home = grown[1]
        scheduler.subtract(home, wanted)


def _scale_up_for(
    kube: ClusterContext, pools: list[JSON], pod: JSON, wanted: ResourceAmounts
) -> tuple[JSON, ResourceAmounts] | ScaleUpFailure:
    reasons: Counter[str] = Counter()
    for pool in pools:
        node, room = node_template(kube, pool, _zone(pool))
        why = scheduling_predicates.unschedulable_reasons(pod, wanted, node, room)
        if why:
            reasons.update(why[:1])
        elif (size := _size(kube, pool)) >= _max_size(kube, pool):
            reasons["max node group size reached"] += 1
        elif (refused := _request_node(kube, pool)) is None:
            _record_scale_up(kube, pod, pool, size)
            return node, room
        else:
            return _scale_up_failure(pool, refused)
    listed = ", ".join(f"{n} {text}" for text, n in sorted(reasons.items()))
    return ScaleUpFailure("NotTriggerScaleUp", f"pod didn't trigger scale-up: {listed}")


def _request_node(kube: ClusterContext, pool: JSON) -> str | None:
    """Request one more node from the cloud, unless it has just failed."""
    refused = kube.controller_state_for("refused")
    key, known = f"refused/{pool['name']}", refused.get(pool["name"])
    if known is not None and not kube.timer_expired(key, BACKOFF_S, _MIN_REAL_SECONDS):
        return _in_backoff(known)
    kube.cancel_timers(key)
    why = (
        _OUT_OF_RESOURCES
        if failures.no_replacement_left(kube)
        else kube.cloud.allocate_node(kube.cluster_key, pool["name"])
    )
    if why is None:
        refused.pop(pool["name"], None)
        return None
    refused[pool["name"]] = why
    kube.timer_expired(key, BACKOFF_S, _MIN_REAL_SECONDS)
    return _in_backoff(why) if why == known else why


def _in_backoff(why: str) -> str:
    """The autoscaler's message about a pool after its failure was reported once (kubernetes/autoscaler issues 1607, 5692)."""
    failed = why.startswith(("scale.up.error", "Node scale up"))
    return "in backoff after failed scale-up" if failed else why


def _record_scale_up(kube: ClusterContext, pod: JSON, pool: JSON, size: int) -> None:
    urls = pool.get("instanceGroupUrls") or []
    group = (
        urls[0]
        if urls
        else (
            f"https://www.googleapis.com/compute/v1/projects/{kube.project}/zones/{_zone(pool)}/"
            f"instanceGroups/gke-{kube.name}-{pool['name']}-grp"
        )
    )
    kube.record_event(
        kinds.POD,
        pod,
        "TriggeredScaleUp",
        f"pod triggered scale-up: [{{{group} {size}->{size + 1} (max: {_max_size(kube, pool)})}}]",
        _SOURCE,
    )


def _scale_up_failure(pool: JSON, refused: str) -> ScaleUpFailure:
    """Format the cloud's reason as the autoscaler does: an error is a failed scale-up, a limit is none."""
    if refused.startswith("scale.up.error"):
        refused = (
            f"Node scale up in zones {_zone(pool)} associated with this pod failed: {refused}. "
            "Pod is at risk of "
            "not being scheduled."
        )
    elif not refused.startswith(("pod didn't trigger", "Node scale up")):
        refused = f"pod didn't trigger scale-up: 1 {refused}"
    return ScaleUpFailure("FailedScaleUp" if refused.startswith("Node") else "NotTriggerScaleUp", refused)


def _report_failure(kube: ClusterContext, pod: JSON, refusal: ScaleUpFailure, repeats: EventThrottle) -> None:
    """Report it at once, then about once a minute."""
    last_messages, uid, shape = (
        kube.controller_state_for("refusals"),
        pod["metadata"]["uid"],
        scheduling_predicates.scheduling_key(pod),
    )
    reason, message = refusal.reason, refusal.message
    if last_messages.get(uid) != message:
        last_messages[uid] = message
        repeats.restart_timer(shape)
    elif not repeats.should_repeat(shape):
        return
    kube.record_event(kinds.POD, pod, reason, message, _SOURCE, warning=reason == "FailedScaleUp")


def _discard_finished_pods(kube: ClusterContext, waiting: list[JSON]) -> None:
    last_messages = kube.controller_state_for("refusals")
    for uid in last_messages.keys() - {pod["metadata"]["uid"] for pod in waiting}:
        del last_messages[uid]


def _scale_down(kube: ClusterContext, pools: list[JSON], *, busy: bool) -> None:
    by_name = {p["name"]: p for p in pools}
    standing = kube.store.list(kinds.NODE)
    used = {p["spec"].get("nodeName") for p in kube.store.list(kinds.POD) if not nodes.is_daemon_set_pod(p)}
    plain = [n for n in standing if not n["spec"].get("taints")]
    for node in standing:
        name, pool = node["metadata"]["name"], by_name.get(nodes.pool_of(node))
        key = f"idle/{node['metadata']['uid']}"
        last = node in plain and len(plain) <= 1  # kube-system needs a node
        if pool is None or name in used or busy or last or _size(kube, pool) <= _min_size(pool):
            kube.cancel_timers(key)
        elif kube.timer_expired(key, SCALE_DOWN_DELAY_S, _MIN_REAL_SECONDS):
            kube.record_event(
                kinds.NODE, node, "ScaleDown", "marked the node as toBeDeleted/unschedulable", _SOURCE
            )
            kube.cloud.release_node(kube.cluster_key, pool["name"], nodes.zone_of(node))
            nodes.remove_node(kube, node)
            kube.cancel_timers(key)
            plain = [n for n in plain if n is not node]


def _min_size(pool: JSON) -> int:
    scaling = pool["autoscaling"]
    return int(scaling.get("totalMinNodeCount") or 0) or int(scaling.get("minNodeCount") or 0) * max(
        len(pool.get("locations") or [1]), 1
    )
