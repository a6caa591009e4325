"""What Kubernetes says about one pod that is not ready, as flat signs. Old news is left out: what no longer holds explains nothing.

`phase` is not read: it says Running for a pod whose container is killed over and over (kuberay 4287).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from grpo_wizard.steps.clients.serialization import JSON

_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
_PLAIN = {"ContainerCreating", "PodInitializing", ""}
_SCALING = {"NotTriggerScaleUp", "FailedScaleUp", "TriggeredScaleUp"}
_BACKOFF = "in backoff after failed scale-up"  # kubernetes/autoscaler issues 1607, 1470, 5692
_PULLING = {"Failed", "BackOff", "InspectFailed", "ErrImageNeverPull"}
_SETTING_UP = {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady"}


@dataclass(frozen=True)
class Sign:
    """One thing that is said: by whom (pod, waiting, ended, init, event, node), its reason, its words on one line."""

    source: str
    reason: str
    text: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """A pod, the events about it (any order), its node with that node's events, and what its waiting depends on."""

    pod: JSON
    events: Sequence[JSON] = ()
    node: JSON | None = None
    node_events: Sequence[JSON] = ()  # of all nodes: a machine that was taken away is not there any more
    head_ready: bool = False
    policies: Sequence[str] = ()  # NetworkPolicies of the namespace, by name


def signs(seen: Seen) -> list[Sign]:
    """All signs that hold now."""
    if seen.pod["metadata"].get("deletionTimestamp"):
        return [*_of_node(seen), *_of_pod(seen.pod), Sign("pod", "Terminating")]
    return [
        *_of_pod(seen.pod),
        *_of_node(seen),
        *_of_containers(seen),
        *_of_events(seen),
    ]


def one_line(text: object, most: int = 300) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _of_pod(pod: JSON) -> Iterator[Sign]:
    status = pod.get("status", {})
    if status.get("reason"):
        yield Sign("pod", status["reason"], one_line(status.get("message", "")))
    for condition in status.get("conditions", []):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            yield Sign("pod", condition.get("reason", ""), one_line(condition.get("message", "")))


def _of_node(seen: Seen) -> Iterator[Sign]:
    node = seen.node
    for condition in (node or {}).get("status", {}).get("conditions", []):
        if node and condition["type"] == "Ready" and condition["status"] != "True":
            text = one_line(condition.get("message", ""))
            yield Sign("node", "NodeNotReady", text, {"node": node["metadata"]["name"]})
    if not seen.pod.get("spec", {}).get("nodeName"):
        # The machine it ran on may be gone with its pod: only the cluster's events still know it.
        for event in newest_first(seen.node_events):
            name = str(event.get("involvedObject", {}).get("name", ""))
            yield Sign(
                "gone", str(event.get("reason", "")), one_line(event.get("message", "")), {"node": name}
            )


def _of_containers(seen: Seen) -> Iterator[Sign]:
    status = seen.pod.get("status", {})
    limits = {
        c["name"]: str(c.get("resources", {}).get("limits", {}).get("memory", ""))
        for c in seen.pod.get("spec", {}).get("containers", [])
    }
    for row in status.get("initContainerStatuses", []):
        started = row.get("state", {}).get("running")
        if started is not None:
            word = "HeadReady" if seen.head_ready else "HeadNotReady"
            yield Sign("init", word, row["name"], {"policies": ", ".join(seen.policies)})
        yield from _of_container(row, limits)
    for row in status.get("containerStatuses", []):
        yield from _of_container(row, limits)


def _of_container(row: JSON, limits: Mapping[str, str]) -> Iterator[Sign]:
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
        yield Sign("ended", ended.get("reason", ""), one_line(ended.get("message", "")), values)
    if waiting.get("reason", "") not in _PLAIN:
        yield Sign("waiting", waiting["reason"], one_line(waiting.get("message", "")), values)


def _of_events(seen: Seen) -> Iterator[Sign]:
    scaled = False
    failed = any(event.get("reason") == "FailedScaleUp" for event in seen.events)
    for event in newest_first(seen.events):
        reason = str(event.get("reason", ""))
        if failed and reason == "NotTriggerScaleUp" and _BACKOFF in str(event.get("message", "")):
            continue  # it only waits before it tries again: why it failed was said before
        if reason in _SCALING:
            if scaled:
                continue  # the autoscaler's newest word is the one that holds
            scaled = True
        if _holds(seen.pod, reason):
            yield Sign("event", reason, one_line(event.get("message", "")))


def _holds(pod: JSON, reason: str) -> bool:
    """Whether an event of this sort can still be why the pod waits."""
    status = pod.get("status", {})
    rows = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    waiting = [str((r.get("state", {}).get("waiting") or {}).get("reason", "")) for r in rows]
    if reason in _SCALING or reason == "FailedScheduling":
        return not pod.get("spec", {}).get("nodeName")
    if reason in _PULLING:
        return any(word in _IMAGE for word in waiting)
    if reason in _SETTING_UP:
        return all(word in _PLAIN for word in waiting) and not any(
            "running" in r.get("state", {}) for r in rows
        )
    return False


def newest_first(events: Sequence[JSON]) -> list[JSON]:
    """By last time, then by resourceVersion: times have whole seconds only."""

    def when(event: JSON) -> tuple[str, int]:
        version = str(event.get("metadata", {}).get("resourceVersion", "0"))
        told = str(event.get("lastTimestamp") or event.get("eventTime") or "")
        return told[:19], int(version) if version.isdigit() else 0

    return sorted(events, key=when, reverse=True)


def images_waiting(pod: JSON) -> list[tuple[str, str]]:
    """(container, image) of those whose image does not come; the spec's name, a status has it only later."""
    status, spec = pod.get("status", {}), pod.get("spec", {})
    rows = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    images = {
        c["name"]: c.get("image", "") for g in ("initContainers", "containers") for c in spec.get(g, [])
    }
    return [
        (str(r["name"]), str(images.get(r["name"]) or r.get("image", "")))
        for r in rows
        if (r.get("state", {}).get("waiting") or {}).get("reason") in _IMAGE
    ]
