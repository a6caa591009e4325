"""The scheduler: binds pods to nodes, or records FailedScheduling with the counted reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import scheduling_predicates, volumes
from grpo_wizard.steps.emulator.kube.controllers.event_throttle import EventThrottle
from grpo_wizard.steps.emulator.kube.controllers.scheduling_predicates import ResourceAmounts
from grpo_wizard.steps.emulator.kube.node import machines

_EVENT_REPEAT_S = 300.0  # an unchanged result is reported again after the scheduler's own flush interval


def pending_pods(kube: ClusterContext) -> list[JSON]:
    """Return pods without a node that are not being deleted, oldest first."""
    rows = [
        p
        for p in kube.store.list(kinds.POD)
        if not p["spec"].get("nodeName")
        and not p["spec"].get("schedulingGates")
        and "deletionTimestamp" not in p["metadata"]
        and p["status"].get("phase") == "Pending"
    ]
    return sorted(
        rows, key=lambda p: (p["metadata"]["creationTimestamp"], int(p["metadata"]["resourceVersion"]))
    )


def free_resources(kube: ClusterContext) -> dict[str, ResourceAmounts]:
    """Return allocatable minus requests, by node."""
    room = {
        n["metadata"]["name"]: machines.parse_amounts(n["status"]["allocatable"])
        for n in kube.store.list(kinds.NODE)
    }
    for pod in kube.store.list(kinds.POD):
        node = pod["spec"].get("nodeName")
        if node in room and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            subtract(room[node], scheduling_predicates.pod_requests(pod))
    return room


def subtract(room: ResourceAmounts, wanted: ResourceAmounts) -> None:
    for key, value in wanted.items():
        room[key] = room.get(key, Fraction(0)) - value


def reconcile(kube: ClusterContext) -> Iterator[None]:
    """Yields between pods, so that requests can be served.

    Free resources only shrink meanwhile: a shape that was rejected once stays rejected.
    """
    waiting = pending_pods(kube)
    repeats = EventThrottle(kube, "sched", _EVENT_REPEAT_S, len(waiting))
    if waiting:
        yield from _place_all(kube, waiting, repeats)
    repeats.drop_stale_timers()


def _place_all(kube: ClusterContext, waiting: list[JSON], repeats: EventThrottle) -> Iterator[None]:
    room, nodes = free_resources(kube), kube.store.list(kinds.NODE)
    refused: dict[str, str] = {}
    for seen in waiting:
        pod = kube.store.find(kinds.POD, seen["metadata"]["namespace"], seen["metadata"]["name"])
        if pod is not None and "deletionTimestamp" not in pod["metadata"]:
            shape = scheduling_predicates.scheduling_key(pod)
            why = refused.get(shape) or _place(kube, pod, nodes, room)
            if why:
                refused[shape] = why
                _record_failure(kube, pod, why, repeats)
        yield


def _place(kube: ClusterContext, pod: JSON, nodes: list[JSON], room: dict[str, ResourceAmounts]) -> str:
    """Bind the pod, or record why no node accepts it."""
    claim = volumes.pending_claim(kube, pod)
    if claim:
        return (
            f"0/{len(nodes)} nodes are available: {claim}. preemption: 0/{len(nodes)} nodes are "
            f"available: {len(nodes)} Preemption is not helpful for scheduling."
        )
    wanted, reasons = scheduling_predicates.pod_requests(pod), Counter[str]()
    for node in nodes:
        name = node["metadata"]["name"]
        if kube.store.find(kinds.NODE, "", name) is None:
            continue  # it was deleted meanwhile
        why = scheduling_predicates.unschedulable_reasons(pod, wanted, node, room[name])
        if not why:
            subtract(room[name], wanted)
            _bind(kube, pod, name)
            return ""
        reasons.update(why)
    listed = (
        ", ".join(f"{n} {text}" for text, n in sorted(reasons.items()))
        or "no nodes available to schedule pods"
    )
    total = len(nodes)
    if not nodes:
        return listed
    return (
        f"0/{total} nodes are available: {listed}. preemption: 0/{total} nodes are available: "
        f"{total} Preemption is not helpful for scheduling."
    )


def _bind(kube: ClusterContext, pod: JSON, node: str) -> None:
    now = kube.timestamp()

    def edit(p: JSON) -> None:
        p["spec"]["nodeName"] = node
        p["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        ]

    bound = kube.edit_object(kinds.POD, pod, edit)
    meta = pod["metadata"]
    kube.record_event(
        kinds.POD,
        bound,
        "Scheduled",
        f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}",
        "default-scheduler",
    )


def _record_failure(kube: ClusterContext, pod: JSON, message: str, repeats: EventThrottle) -> None:
    condition: JSON = next(
        (c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"), {}
    )
    if condition.get("message") == message:
        if repeats.should_repeat(scheduling_predicates.scheduling_key(pod)):
            kube.record_event(kinds.POD, pod, "FailedScheduling", message, "default-scheduler", warning=True)
        return
    repeats.restart_timer(scheduling_predicates.scheduling_key(pod))
    kube.record_event(kinds.POD, pod, "FailedScheduling", message, "default-scheduler", warning=True)
    kube.set_status(
        kinds.POD,
        pod,
        conditions=[
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
                "lastProbeTime": None,
                "lastTransitionTime": kube.timestamp(),
            }
        ],
    )
