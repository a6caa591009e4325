"""Why a RayCluster's pods wait, in one sentence: from conditions, container states and events, never from `phase` or `state`."""

from __future__ import annotations

from datetime import datetime, timedelta

from grpo_wizard.steps.clients.kubernetes.api import KubeClient
from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.rules import diagnose_pod, summarize
from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.symptoms import PodSnapshot, newest_first, one_line
from grpo_wizard.steps.clients.serialization import JSON
from grpo_wizard.steps.core.model import Diagnosis

_RECENT = timedelta(minutes=15)  # a machine that went so long before a pod was made is why it was made
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
    """The first trouble that a pod of the RayCluster is in, with its fix; empty when none is in any."""
    found = diagnose_raycluster(kube, namespace, raycluster, list_pods(kube, namespace, raycluster))
    return str(found) if found else ""


def diagnose_raycluster(
    kube: KubeClient, namespace: str, raycluster: str, pods: list[JSON]
) -> Diagnosis | None:
    """The head's trouble before the workers'; the same one of many pods is told once, with how many."""
    waiting = sorted((p for p in pods if not is_ready(p)), key=lambda p: not is_head(p))
    if not any(is_head(pod) for pod in pods):
        return _missing_head(kube, namespace, raycluster)
    if not waiting:
        return _creation_blocked(kube, namespace, raycluster)
    told = _PodContext(kube, namespace)
    head_ready = any(is_head(pod) and is_ready(pod) for pod in pods)
    found = []
    for pod in waiting:
        result = diagnose_pod(told.snapshot(pod, head_ready))
        if result:
            found.append((_pod_label(pod), result[1]))
            if is_head(pod):
                break  # workers wait for it anyway
    if not found:
        return None
    first = next(
        (f for f in found if f[1].remedy), found[0]
    )  # plain waiting is told only where nothing is wrong
    found.sort(key=lambda f: f is not first)
    return Diagnosis(f"{summarize(found)}: {first[1].cause}", first[1].remedy, first[1].timeout)


def _pod_label(pod: JSON) -> str:
    gone = pod["metadata"].get("deletionTimestamp")
    return "head missing" if gone and is_head(pod) else node_type(pod)


class _PodContext:
    """What the cluster says about pods and nodes, each asked for once."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube, self._namespace = kube, namespace
        self._nodes: dict[str, JSON | None] = {}
        self._events = _events(kube, namespace, "Pod")
        self._node_events: list[JSON] | None = None
        self._policies: list[str] | None = None

    def snapshot(self, pod: JSON, head_ready: bool) -> PodSnapshot:
        name = pod.get("spec", {}).get("nodeName", "")
        mine = [e for e in self._events if e.get("involvedObject", {}).get("name") == pod["metadata"]["name"]]
        waits = any(
            "running" in r.get("state", {}) for r in pod.get("status", {}).get("initContainerStatuses", [])
        )
        return PodSnapshot(
            pod,
            mine,
            self._node(name) if name else None,
            [] if name else _events_before_creation(self._list_node_events(), pod),
            head_ready,
            self._policy_names() if head_ready and waits else (),
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
    """KubeRay says on the RayCluster itself why it cannot make a pod (a ResourceQuota, a webhook)."""
    refused = _creation_failure(kube, namespace, raycluster)
    why = f" and none can be made ({refused})" if refused else ""
    fix = (
        "raise that quota, or delete what uses it"
        if "quota" in refused
        else "wait for KubeRay to make a new one; if it does not, look at the operator's log"
    )
    return Diagnosis(f"head missing: {_HEAD_MISSING}{why}", fix, 1800.0)


def _creation_blocked(kube: KubeClient, namespace: str, raycluster: str) -> Diagnosis | None:
    refused = _creation_failure(kube, namespace, raycluster)
    return (
        Diagnosis(f"pods cannot be made ({refused})", "mend what is named, then run apply again", 900.0)
        if refused
        else None
    )


def _creation_failure(kube: KubeClient, namespace: str, raycluster: str) -> str:
    listed = _events(kube, namespace, "RayCluster")
    mine = newest_first([e for e in listed if e.get("involvedObject", {}).get("name") == raycluster])
    newest = mine[0] if mine else {}
    return one_line(newest.get("message", "")) if str(newest.get("reason", "")).startswith("Failed") else ""


def _events_before_creation(events: list[JSON], pod: JSON) -> list[JSON]:
    made = _parse_time(pod["metadata"].get("creationTimestamp"))
    return [
        e for e in events if made and (when := _parse_time(e.get("lastTimestamp"))) and made - when < _RECENT
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
