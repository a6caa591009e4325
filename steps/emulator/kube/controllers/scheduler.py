"""The scheduler: pods to nodes, or FailedScheduling with the reasons counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.controllers import scheduling_predicates, volumes
from grpo_wizard.steps.emulator.kube.controllers.event_throttle import Repeats
from grpo_wizard.steps.emulator.kube.controllers.scheduling_predicates import Amounts
from grpo_wizard.steps.emulator.kube.core import Kube
from grpo_wizard.steps.emulator.kube.node import machines
from grpo_wizard.steps.emulator.server.context import JSON

_AGAIN_S = 300.0  # an unchanged verdict is told again after the scheduler's own flush interval


def pending(kube: Kube) -> list[JSON]:
    """Pods without a node that nobody deletes, oldest first."""
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


def free_room(kube: Kube) -> dict[str, Amounts]:
    """Allocatable minus requests, by node."""
    room = {
        n["metadata"]["name"]: machines.amounts(n["status"]["allocatable"])
        for n in kube.store.list(kinds.NODE)
    }
    for pod in kube.store.list(kinds.POD):
        node = pod["spec"].get("nodeName")
        if node in room and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            take(room[node], scheduling_predicates.requests(pod))
    return room


def take(room: Amounts, wanted: Amounts) -> None:
    for key, value in wanted.items():
        room[key] = room.get(key, Fraction(0)) - value


def reconcile(kube: Kube) -> Iterator[None]:
    """Yields between pods, so that requests get their turn. Room only shrinks meanwhile: a shape refused once stays refused."""
    waiting = pending(kube)
    repeats = Repeats(kube, "sched", _AGAIN_S, len(waiting))
    if waiting:
        yield from _place_all(kube, waiting, repeats)
    repeats.end()


def _place_all(kube: Kube, waiting: list[JSON], repeats: Repeats) -> Iterator[None]:
    room, nodes = free_room(kube), kube.store.list(kinds.NODE)
    refused: dict[str, str] = {}
    for seen in waiting:
        pod = kube.store.find(kinds.POD, seen["metadata"]["namespace"], seen["metadata"]["name"])
        if pod is not None and "deletionTimestamp" not in pod["metadata"]:
            shape = scheduling_predicates.shape(pod)
            why = refused.get(shape) or _place(kube, pod, nodes, room)
            if why:
                refused[shape] = why
                _failed(kube, pod, why, repeats)
        yield


def _place(kube: Kube, pod: JSON, nodes: list[JSON], room: dict[str, Amounts]) -> str:
    """Binds the pod, or says why no node takes it."""
    claim = volumes.unbound(kube, pod)
    if claim:
        return (
            f"0/{len(nodes)} nodes are available: {claim}. preemption: 0/{len(nodes)} nodes are "
            f"available: {len(nodes)} Preemption is not helpful for scheduling."
        )
    wanted, reasons = scheduling_predicates.requests(pod), Counter[str]()
    for node in nodes:
        name = node["metadata"]["name"]
        if kube.store.find(kinds.NODE, "", name) is None:
            continue  # it went while others had their turn
        why = scheduling_predicates.refusals(pod, wanted, node, room[name])
        if not why:
            take(room[name], wanted)
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


def _bind(kube: Kube, pod: JSON, node: str) -> None:
    now = kube.stamp()

    def edit(p: JSON) -> None:
        p["spec"]["nodeName"] = node
        p["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        ]

    bound = kube.change(kinds.POD, pod, edit)
    meta = pod["metadata"]
    kube.event(
        kinds.POD,
        bound,
        "Scheduled",
        f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}",
        "default-scheduler",
    )


def _failed(kube: Kube, pod: JSON, message: str, repeats: Repeats) -> None:
    told: JSON = next((c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"), {})
    if told.get("message") == message:
        if repeats.due(scheduling_predicates.shape(pod)):
            kube.event(kinds.POD, pod, "FailedScheduling", message, "default-scheduler", warning=True)
        return
    repeats.told(scheduling_predicates.shape(pod))
    kube.event(kinds.POD, pod, "FailedScheduling", message, "default-scheduler", warning=True)
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
                "lastTransitionTime": kube.stamp(),
            }
        ],
    )
