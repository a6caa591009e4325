"""DaemonSets: a pod on every matching node, and the counts that rollouts wait for."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import defaults, kinds
from grpo_wizard.steps.emulator.kube.api.copies import deep_copy
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import scheduling_predicates

_DEFAULT_TOLERATIONS = [
    {"key": key, "operator": "Exists", "effect": effect}
    for key, effect in (
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    )
]


def reconcile(kube: ClusterContext) -> None:
    sets = [d for d in kube.store.list(kinds.DAEMON_SET) if "deletionTimestamp" not in d["metadata"]]
    if not sets:
        return
    nodes = kube.store.list(kinds.NODE)
    owned: dict[str, list[JSON]] = {}
    for pod in kube.store.list(kinds.POD):
        for ref in pod["metadata"].get("ownerReferences", ()):
            owned.setdefault(ref["uid"], []).append(pod)
    for one in sets:
        _reconcile_one(kube, one, nodes, owned.get(one["metadata"]["uid"], []))


def _reconcile_one(kube: ClusterContext, one: JSON, nodes: list[JSON], pods: list[JSON]) -> None:
    generation = str(one["metadata"]["generation"])
    by_node = {p["spec"].get("nodeName"): p for p in pods if "deletionTimestamp" not in p["metadata"]}
    draft = {"metadata": {"namespace": one["metadata"]["namespace"]}, "spec": one["spec"]["template"]["spec"]}
    draft = {
        **draft,
        "spec": {
            **draft["spec"],
            "tolerations": [*draft["spec"].get("tolerations", ()), *_DEFAULT_TOLERATIONS],
        },
    }
    fitting = [n["metadata"]["name"] for n in nodes if scheduling_predicates.can_run_on(draft, n)]
    for name in fitting:
        old = by_node.get(name)
        if old is None:
            _ensure_pod(kube, one, name, generation)
        elif old["metadata"]["labels"].get("pod-template-generation") != generation:
            kube.store.remove(kinds.POD, old)
    for name, pod in by_node.items():
        if name not in fitting and kube.store.find(
            kinds.POD, pod["metadata"]["namespace"], pod["metadata"]["name"]
        ):
            kube.store.remove(kinds.POD, pod)
    _update_status(kube, one, [by_node[n] for n in fitting if n in by_node], len(fitting), generation)


def _update_status(kube: ClusterContext, one: JSON, pods: list[JSON], desired: int, generation: str) -> None:
    ready = sum(1 for p in pods if is_ready(p))
    fresh = sum(1 for p in pods if p["metadata"]["labels"].get("pod-template-generation") == generation)
    current = {
        "currentNumberScheduled": len(pods),
        "desiredNumberScheduled": desired,
        "numberMisscheduled": 0,
        "numberReady": ready,
        "observedGeneration": one["metadata"]["generation"],
    }
    # Kubernetes omits these three counts when zero.
    current |= {
        k: v
        for k, v in (
            ("updatedNumberScheduled", fresh),
            ("numberAvailable", ready),
            ("numberUnavailable", desired - ready),
        )
        if v
    }
    if one.get("status") != current:
        kube.edit_object(kinds.DAEMON_SET, one, lambda o: o.update(status=current))


def _ensure_pod(kube: ClusterContext, one: JSON, node: str, generation: str) -> None:
    spec = deep_copy(one["spec"]["template"]["spec"])
    spec["tolerations"] = [*spec.get("tolerations", ()), *_DEFAULT_TOLERATIONS]
    spec["affinity"] = {
        **spec.get("affinity", {}),
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                ]
            }
        },
    }
    make_pod(kube, kinds.DAEMON_SET, one, spec, node=node, labels={"pod-template-generation": generation})


def make_pod(
    kube: ClusterContext,
    kind: Kind,
    owner: JSON,
    spec: JSON,
    *,
    node: str = "",
    name: str = "",
    labels: dict[str, str] | None = None,
) -> JSON:
    """Create a pod from a workload's template, owned by the workload."""
    meta, template = owner["metadata"], owner["spec"]["template"].get("metadata", {})
    name = name or f"{meta['name']}-{defaults.random_suffix(5)}"
    pod: JSON = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {**spec, **({"nodeName": node} if node else {})},
        "metadata": {
            "name": name,
            "generateName": f"{meta['name']}-",
            "namespace": meta["namespace"],
            "labels": {**(template.get("labels") or {}), **(labels or {})},
            "annotations": dict(template.get("annotations") or {}),
            "ownerReferences": [owner_reference(kind, owner)],
        },
    }
    defaults.set_defaults(kinds.POD, pod)
    made = kube.store.create(kinds.POD, pod)
    kube.record_event(
        kind, owner, "SuccessfulCreate", f"Created pod: {name}", f"{kind.kind.lower()}-controller"
    )
    return made


def owner_reference(kind: Kind, owner: JSON) -> JSON:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_ready(pod: JSON) -> bool:
    """Return the pod's Ready condition."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
