"""What Kubernetes reports about one pod that is not ready, as flat symptoms. What no longer holds is left out.

`phase` is not read: it is Running for a pod whose container is killed again and again
(https://github.com/ray-project/kuberay/issues/4287).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from grpo_wizard.steps.clients.serialization import JSON

_IMAGE_REASONS = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
_NORMAL_REASONS = {"ContainerCreating", "PodInitializing", ""}
_SCALING_REASONS = {"NotTriggerScaleUp", "FailedScaleUp", "TriggeredScaleUp"}
_BACKOFF = "in backoff after failed scale-up"  # https://github.com/kubernetes/autoscaler/issues/5692
_PULL_REASONS = {"Failed", "BackOff", "InspectFailed", "ErrImageNeverPull"}
_SETUP_REASONS = {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady"}


@dataclass(frozen=True)
class Symptom:
    """One report: its source (pod, waiting, ended, init, event, node, gone), its reason and its message on one line."""

    source: str
    reason: str
    text: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PodSnapshot:
    """A pod, its events (in any order), its node, and what its start depends on."""

    pod: JSON
    events: Sequence[JSON] = ()
    node: JSON | None = None
    node_events: Sequence[JSON] = ()  # of all nodes: a preempted machine is no longer listed
    head_ready: bool = False
    policies: Sequence[str] = ()  # NetworkPolicies of the namespace, by name


def symptoms(snapshot: PodSnapshot) -> list[Symptom]:
    """All symptoms that hold now."""
    if snapshot.pod["metadata"].get("deletionTimestamp"):
        return [*_node_symptoms(snapshot), *_pod_symptoms(snapshot.pod), Symptom("pod", "Terminating")]
    return [
        *_pod_symptoms(snapshot.pod),
        *_node_symptoms(snapshot),
        *_containers_symptoms(snapshot),
        *_event_symptoms(snapshot),
    ]


def one_line(text: object, max_length: int = 300) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def _pod_symptoms(pod: JSON) -> Iterator[Symptom]:
    status = pod.get("status", {})
    if status.get("reason"):
        yield Symptom("pod", status["reason"], one_line(status.get("message", "")))
    for condition in status.get("conditions", []):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            yield Symptom("pod", condition.get("reason", ""), one_line(condition.get("message", "")))


def _node_symptoms(snapshot: PodSnapshot) -> Iterator[Symptom]:
    node = snapshot.node
    for condition in (node or {}).get("status", {}).get("conditions", []):
        if node and condition["type"] == "Ready" and condition["status"] != "True":
            text = one_line(condition.get("message", ""))
            yield Symptom("node", "NodeNotReady", text, {"node": node["metadata"]["name"]})
    if not snapshot.pod.get("spec", {}).get("nodeName"):
        # The machine may be gone together with its pod: only events still mention it.
        for event in newest_first(snapshot.node_events):
            name = str(event.get("involvedObject", {}).get("name", ""))
            yield Symptom(
                "gone", str(event.get("reason", "")), one_line(event.get("message", "")), {"node": name}
            )


def _containers_symptoms(snapshot: PodSnapshot) -> Iterator[Symptom]:
    status = snapshot.pod.get("status", {})
    limits = {
        c["name"]: str(c.get("resources", {}).get("limits", {}).get("memory", ""))
        for c in snapshot.pod.get("spec", {}).get("containers", [])
    }
    for row in status.get("initContainerStatuses", []):
        started = row.get("state", {}).get("running")
        if started is not None:
            word = "HeadReady" if snapshot.head_ready else "HeadNotReady"
            yield Symptom("init", word, row["name"], {"policies": ", ".join(snapshot.policies)})
        yield from _container_symptoms(row, limits)
    for row in status.get("containerStatuses", []):
        yield from _container_symptoms(row, limits)


def _container_symptoms(row: JSON, limits: Mapping[str, str]) -> Iterator[Symptom]:
    state, last = row.get("state", {}), row.get("lastState", {})
    ended = state.get("terminated") or (last.get("terminated") if not row.get("ready") else None) or {}
    waiting = state.get("waiting") or {}
    values = {
        "container": str(row["name"]),
        "image": str(row.get("image", "")),
        "restarts": str(row.get("restartCount", 0)),
        "code": str(ended.get("exitCode", "?")),
        "limit": limits.get(row["name"], ""),
    }
    if ended.get("exitCode"):
        yield Symptom("ended", ended.get("reason", ""), one_line(ended.get("message", "")), values)
    if waiting.get("reason", "") not in _NORMAL_REASONS:
        yield Symptom("waiting", waiting["reason"], one_line(waiting.get("message", "")), values)


def _event_symptoms(snapshot: PodSnapshot) -> Iterator[Symptom]:
    scaled = False
    failed = any(event.get("reason") == "FailedScaleUp" for event in snapshot.events)
    for event in newest_first(snapshot.events):
        reason = str(event.get("reason", ""))
        if failed and reason == "NotTriggerScaleUp" and _BACKOFF in str(event.get("message", "")):
            continue  # the autoscaler only waits before its next try; an earlier event has the reason
        if reason in _SCALING_REASONS:
            if scaled:
                continue  # only the autoscaler's newest event holds
            scaled = True
        if _still_applies(snapshot.pod, reason):
            yield Symptom("event", reason, one_line(event.get("message", "")))


def _still_applies(pod: JSON, reason: str) -> bool:
    """Whether an event with this reason can still explain why the pod is not ready."""
    status = pod.get("status", {})
    rows = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    waiting = [str((r.get("state", {}).get("waiting") or {}).get("reason", "")) for r in rows]
    if reason in _SCALING_REASONS or reason == "FailedScheduling":
        return not pod.get("spec", {}).get("nodeName")
    if reason in _PULL_REASONS:
        return any(word in _IMAGE_REASONS for word in waiting)
    if reason in _SETUP_REASONS:
        return all(word in _NORMAL_REASONS for word in waiting) and not any(
            "running" in r.get("state", {}) for r in rows
        )
    return False


def newest_first(events: Sequence[JSON]) -> list[JSON]:
    """Sort by last time, then by resourceVersion: times have whole seconds only."""

    def when(event: JSON) -> tuple[str, int]:
        version = str(event.get("metadata", {}).get("resourceVersion", "0"))
        time = str(event.get("lastTimestamp") or event.get("eventTime") or "")
        return time[:19], int(version) if version.isdigit() else 0

    return sorted(events, key=when, reverse=True)


def unpulled_images(pod: JSON) -> list[tuple[str, str]]:
    """(container, image) of those whose image cannot be pulled; the image's name is the spec's, a status has it later."""
    status, spec = pod.get("status", {}), pod.get("spec", {})
    rows = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    images = {
        c["name"]: c.get("image", "") for g in ("initContainers", "containers") for c in spec.get(g, [])
    }
    return [
        (str(r["name"]), str(images.get(r["name"]) or r.get("image", "")))
        for r in rows
        if (r.get("state", {}).get("waiting") or {}).get("reason") in _IMAGE_REASONS
    ]
