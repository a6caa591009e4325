"""Why pods wait, in one sentence: from container states and events, never from `phase`."""

from __future__ import annotations

from .kube import Kube
from .wire import JSON

_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName"}


def pods_of(kube: Kube, namespace: str, raycluster: str) -> list[JSON]:
    """All pods of a RayCluster."""
    listed = kube.get(
        f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": f"ray.io/cluster={raycluster}"}
    )
    return list((listed or {}).get("items", []))


def is_ready(pod: JSON) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return not pod["metadata"].get("deletionTimestamp") and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def explain(kube: Kube, namespace: str, raycluster: str) -> str:
    """The first trouble that a pod of the RayCluster is in, with its fix; empty when none is in any."""
    for pod in pods_of(kube, namespace, raycluster):
        if not is_ready(pod):
            reason = container_trouble(pod) or event_trouble(
                pod, _events(kube, namespace, pod["metadata"]["name"])
            )
            if reason:
                return f"{pod['metadata'].get('labels', {}).get('ray.io/node-type', 'pod')}: {reason}"
    return ""


def container_trouble(pod: JSON) -> str:
    """What the containers themselves say: image, memory, crash."""
    status = pod.get("status", {})
    for seen in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        waiting, last = (
            seen.get("state", {}).get("waiting", {}),
            seen.get("lastState", {}).get("terminated", {}),
        )
        if waiting.get("reason") in _IMAGE:
            return f"image {seen.get('image', '')} cannot be pulled ({waiting.get('message') or waiting['reason']}): correct raycluster.image"
        if last.get("reason") == "OOMKilled":
            return f"ran out of memory ({last.get('exitCode')}), {seen.get('restartCount', 0)} restarts: give it more memory"
        if waiting.get("reason") == "CrashLoopBackOff":
            return f"{seen['name']} keeps ending with {last.get('exitCode', '?')}, {seen.get('restartCount', 0)} restarts: look at its log"
    return ""


def event_trouble(pod: JSON, events: list[JSON]) -> str:
    """The newest event that explains a wait; thousands of repeats are one line."""
    for event in sorted(
        events, key=lambda e: e.get("lastTimestamp") or e.get("eventTime") or "", reverse=True
    ):
        text = " ".join(str(event.get("message", "")).split())
        if event.get("reason") == "NotTriggerScaleUp" and "max node group size reached" in text:
            return "the node pool is at its maximum: raise quotas.gpu_nodes"
        if event.get("reason") in ("FailedMount", "FailedAttachVolume"):
            return f"the volume cannot be mounted: same VPC? same legacy-port setting on cluster and Lustre? right address and file system? ({text[:200]})"
        if event.get("reason") == "FailedScaleUp":
            return f"no node could be added: {text[:200]}"
        if event.get("reason") == "FailedScheduling":
            return f"no node has room yet: {text[:160]}"
    return ""


def _events(kube: Kube, namespace: str, pod: str) -> list[JSON]:
    listed = kube.get(
        f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": f"involvedObject.name={pod}"}
    )
    return list((listed or {}).get("items", []))
