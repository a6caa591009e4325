"""Why a RayCluster's pods are not ready, in one sentence: from conditions, container states and events, never from `phase` or `state`."""

from __future__ import annotations

from datetime import datetime, timedelta

from grpo_wizard.steps.clients.kubernetes.api import KubeClient
from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.rules import diagnose_pod, summarize
from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.symptoms import PodSnapshot, newest_first, one_line
from grpo_wizard.steps.clients.serialization import JSON
from grpo_wizard.steps.core.model import Diagnosis

_RECENT = timedelta(
    minutes=15
)  # a machine lost this long before a pod was created explains why the pod was created
_HEAD_MISSING = "the RayCluster has no head pod"


def list_pods(kube: KubeClient, namespace: str, raycluster: str) -> list[JSON]:
    """All pods of a RayCluster."""
    return _list_items(
        kube, f"/api/v1/namespaces/{namespace}/pods", "labelSelector", f"ray.io/cluster={raycluster}"
    )


def is_ready(pod: JSON) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return not pod["metadata"].get("deletionTimestamp") and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def is_head(pod: JSON) -> bool:
    return bool(node_type(pod) == "head")


def node_type(pod: JSON) -> str:
    return str((pod["metadata"].get("labels") or {}).get("ray.io/node-type", "pod"))


def explain(kube: KubeClient, namespace: str, raycluster: str) -> str:
    """The first problem of the RayCluster's pods with its remedy; empty when there is none."""
    found = diagnose_raycluster(kube, namespace, raycluster, list_pods(kube, namespace, raycluster))
    return str(found) if found else ""


def diagnose_raycluster(
    kube: KubeClient, namespace: str, raycluster: str, pods: list[JSON]
) -> Diagnosis | None:
    """The head's problem before the workers'; one that several pods share is reported once, with their number."""
    waiting = sorted((p for p in pods if not is_ready(p)), key=lambda p: not is_head(p))
    if not any(is_head(pod) for pod in pods):
        return _missing_head(kube, namespace, raycluster)
    if not waiting:
        return _creation_blocked(kube, namespace, raycluster)
    context = _PodContext(kube, namespace)
    head_ready = any(is_head(pod) and is_ready(pod) for pod in pods)
    found = []
    for pod in waiting:
        result = diagnose_pod(context.snapshot(pod, head_ready))
        if result:
            found.append((_pod_label(pod), result[1]))
            if is_head(pod):
                break  # workers wait for it anyway
    if not found:
        return None
    # Plain waiting is reported only when nothing is wrong.
    first = next((f for f in found if f[1].remedy), found[0])
    found.sort(key=lambda f: f is not first)
    return Diagnosis(f"{summarize(found)}: {first[1].cause}", first[1].remedy, first[1].timeout)


def _pod_label(pod: JSON) -> str:
    deleted = pod["metadata"].get("deletionTimestamp")
    return "head missing" if deleted and is_head(pod) else node_type(pod)


class _PodContext:
    """Events, nodes and policies of the cluster, each read once."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube, self._namespace = kube, namespace
        self._nodes: dict[str, JSON | None] = {}
        self._events = _events(kube, namespace, "Pod")
        self._node_events: list[JSON] | None = None
        self._policies: list[str] | None = None

    def snapshot(self, pod: JSON, head_ready: bool) -> PodSnapshot:
        name = pod.get("spec", {}).get("nodeName", "")
        events = [
            e for e in self._events if e.get("involvedObject", {}).get("name") == pod["metadata"]["name"]
        ]
        initializing = any(
            "running" in r.get("state", {}) for r in pod.get("status", {}).get("initContainerStatuses", [])
        )
        return PodSnapshot(
            pod,
            events,
            self._node(name) if name else None,
            [] if name else _events_before_creation(self._list_node_events(), pod),
            head_ready,
            self._policy_names() if head_ready and initializing else (),
        )

    def _node(self, name: str) -> JSON | None:
        if name not in self._nodes:
            self._nodes[name] = self._kube.get(f"/api/v1/nodes/{name}")
        return self._nodes[name]

    def _list_node_events(self) -> list[JSON]:
        if self._node_events is None:
            self._node_events = _events(self._kube, "default", "Node")
        return self._node_events

    def _policy_names(self) -> list[str]:
        if self._policies is None:
            listed = self._kube.get(
                f"/apis/networking.k8s.io/v1/namespaces/{self._namespace}/networkpolicies"
            )
            self._policies = [str(p["metadata"]["name"]) for p in (listed or {}).get("items", [])]
        return self._policies


def _missing_head(kube: KubeClient, namespace: str, raycluster: str) -> Diagnosis:
    """KubeRay reports on the RayCluster itself why it cannot create a pod (a ResourceQuota, a webhook)."""
    refused = _creation_failure(kube, namespace, raycluster)
    why = f", and none can be created ({refused})" if refused else ""
    fix = (
        "Raise that quota, or delete pods that use it."
        if "quota" in refused
        else "Wait for KubeRay to create a new one; if it does not, check the operator's log."
    )
    return Diagnosis(f"head missing: {_HEAD_MISSING}{why}", fix, 1800.0)


def _creation_blocked(kube: KubeClient, namespace: str, raycluster: str) -> Diagnosis | None:
    refused = _creation_failure(kube, namespace, raycluster)
    return (
        Diagnosis(
            f"pods cannot be created ({refused})", "Fix the problem named above, then run apply again.", 900.0
        )
        if refused
        else None
    )


def _creation_failure(kube: KubeClient, namespace: str, raycluster: str) -> str:
    listed = _events(kube, namespace, "RayCluster")
    events = newest_first([e for e in listed if e.get("involvedObject", {}).get("name") == raycluster])
    newest = events[0] if events else {}
    return one_line(newest.get("message", "")) if str(newest.get("reason", "")).startswith("Failed") else ""


def _events_before_creation(events: list[JSON], pod: JSON) -> list[JSON]:
    created = _parse_time(pod["metadata"].get("creationTimestamp"))
    return [
        e
        for e in events
        if created and (at := _parse_time(e.get("lastTimestamp"))) and created - at < _RECENT
    ]


def _parse_time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None


def _events(kube: KubeClient, namespace: str, kind: str) -> list[JSON]:
    return _list_items(
        kube, f"/api/v1/namespaces/{namespace}/events", "fieldSelector", f"involvedObject.kind={kind}"
    )


def _list_items(kube: KubeClient, path: str, key: str, value: str) -> list[JSON]:
    return list((kube.get(path, {key: value}) or {}).get("items", []))
