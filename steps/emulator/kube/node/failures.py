"""Node failures: preemption with its taint, an unreachable kubelet, and the repair that follows."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.drills import kubernetes
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.context import ClusterContext

# Real durations in seconds: notice before a preemption, toleration of an unreachable node, GKE's auto-repair.
PREEMPTION_NOTICE_S, UNREACHABLE_TOLERATION_S, REPAIR_S = 30.0, 300.0, 600.0
_SOURCE = "node-controller"
_TERMINATION_TAINT = {
    "key": "cloud.google.com/impending-node-termination",
    "value": "true",
    "effect": "NoSchedule",
}
_UNREACHABLE_TAINT = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


def is_preempted(kube: ClusterContext, node: JSON) -> bool:
    """The drill `preempt`: adds GKE's taint first, then returns True once the instance is to be removed."""
    if kubernetes.drill_of(node) != "preempt" and not _is_drilled_worker(kube, node):
        return False
    if not _add_taint(kube, node, _TERMINATION_TAINT):
        text = "Node is scheduled for termination."
        kube.record_event(
            kinds.NODE, node, "TerminationScheduled", text, "gke-node-termination", warning=True
        )
    return kube.timer_expired(f"drill/{node['metadata']['uid']}", PREEMPTION_NOTICE_S)


def _is_drilled_worker(kube: ClusterContext, node: JSON) -> bool:
    """The drill `worker-preempted` takes one instance: the first with a ready worker."""
    taken, uid = kube.controller_state_for("preempted"), node["metadata"]["uid"]
    if not kubernetes.is_active("worker-preempted"):
        taken.clear()
    elif not taken and _has_ready_ray_pod(kube, node, "worker"):
        taken[uid] = True
    return uid in taken


def no_replacement_left(kube: ClusterContext) -> bool:
    """Return whether the zone has no capacity to replace the instance that `worker-preempted` took."""
    return kubernetes.is_active("worker-preempted") and bool(kube.controller_state_for("preempted"))


def _has_ready_ray_pod(kube: ClusterContext, node: JSON, what: str) -> bool:
    """Return whether a Ray pod of this type is ready on the node."""
    return any(
        p["spec"].get("nodeName") == node["metadata"]["name"]
        and (p["metadata"].get("labels") or {}).get("ray.io/node-type") == what
        and any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", ()))
        for p in kube.store.list(kinds.POD)
    )


def _kubelet_drill(kube: ClusterContext, node: JSON) -> str:
    """Return `lost` or `repair` while a drill makes the node unreachable."""
    word = kubernetes.drill_of(node)
    if word in ("lost", "repair"):
        return word
    hit = kubernetes.is_active("head-lost") and (
        node["metadata"]["name"] in kube.controller_state_for("lost")
        or _has_ready_ray_pod(kube, node, "head")
    )
    return "lost" if hit else ""


def needs_repair(kube: ClusterContext, node: JSON) -> bool:
    """The drills `lost` and `repair`: the node becomes NotReady; returns True once auto-repair replaces it."""
    name, lost = node["metadata"]["name"], kube.controller_state_for("lost")
    word = _kubelet_drill(kube, node)
    if not word:
        if name in lost:
            _restore(kube, node)
        return False
    if name not in lost:
        lost[name] = True
        text = f"Node {name} status is now: NodeNotReady"
        kube.record_event(kinds.NODE, node, "NodeNotReady", text, _SOURCE)
    _set_ready_condition(kube, node, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    _add_taint(kube, node, _UNREACHABLE_TAINT)
    _evict_pods(kube, node)
    return word == "repair" and kube.timer_expired(f"drill/{node['metadata']['uid']}", REPAIR_S)


def _evict_pods(kube: ClusterContext, node: JSON) -> None:
    """Evict the pods of an unreachable node: not ready at once, deleted after their toleration, gone with the node."""
    expired = kube.timer_expired(f"silent/{node['metadata']['uid']}", UNREACHABLE_TOLERATION_S)
    for pod in kube.store.list(kinds.POD):
        if pod["spec"].get("nodeName") != node["metadata"]["name"]:
            continue
        rows = pod["status"].get("conditions", [])
        if any(c["type"] == "Ready" and c["status"] == "True" for c in rows):
            now = kube.timestamp()
            changed = [
                {**c, "status": "False", "lastTransitionTime": now} if c["type"] == "Ready" else c
                for c in rows
            ]
            pod = kube.set_status(kinds.POD, pod, conditions=changed)
            kube.record_event(kinds.POD, pod, "NodeNotReady", "Node is not ready", _SOURCE, warning=True)
        tolerant = any(
            not t.get("key") and t.get("operator") == "Exists" for t in pod["spec"].get("tolerations", ())
        )
        if expired and not tolerant and "deletionTimestamp" not in pod["metadata"]:
            kube.record_event(
                kinds.POD,
                pod,
                "TaintManagerEviction",
                f"Marking for deletion Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}",
                "taint-eviction-controller",
            )
            kube.store.mark_deleted(kinds.POD, pod, 30, [])


def _restore(kube: ClusterContext, node: JSON) -> None:
    """The drill has ended: the kubelet reports its status again and the pods are ready."""
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    kube.controller_state_for("lost").pop(name)
    for timer in ("drill", "silent"):
        kube.cancel_timers(f"{timer}/{uid}")
    node = _set_ready_condition(kube, node, "True", "KubeletReady", "kubelet is posting ready status")
    rest = [t for t in node["spec"].get("taints", ()) if t["key"] != _UNREACHABLE_TAINT["key"]]
    kube.edit_object(kinds.NODE, node, lambda n: n["spec"].update(taints=rest))
    now = kube.timestamp()
    for pod in [p for p in kube.store.list(kinds.POD) if p["spec"].get("nodeName") == name]:
        if all(r["ready"] for r in pod["status"].get("containerStatuses", ())):
            rows = [
                {**c, "status": "True", "lastTransitionTime": now} if c["type"] == "Ready" else c
                for c in pod["status"].get("conditions", ())
            ]
            kube.set_status(kinds.POD, pod, conditions=rows)


def _set_ready_condition(kube: ClusterContext, node: JSON, status: str, reason: str, message: str) -> JSON:
    rows = node["status"]["conditions"]
    if any(c["type"] == "Ready" and c["status"] == status for c in rows):
        return node
    condition = {
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": kube.timestamp(),
    }
    return kube.set_status(
        kinds.NODE, node, conditions=[{**c, **condition} if c["type"] == "Ready" else c for c in rows]
    )


def _add_taint(kube: ClusterContext, node: JSON, taint: JSON) -> bool:
    """Add a taint; returns True if it existed."""
    if any(t["key"] == taint["key"] for t in node["spec"].get("taints", ())):
        return True
    kube.edit_object(
        kinds.NODE, node, lambda n: n["spec"].update(taints=[*n["spec"].get("taints", ()), taint])
    )
    return False
