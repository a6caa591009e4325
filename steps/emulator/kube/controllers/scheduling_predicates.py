"""May this pod run on that node? Selectors, affinity, taints, room; each refusal in the scheduler's own
words."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction

from grpo_wizard.steps.emulator.kube.api.selectors import matches_expression
from grpo_wizard.steps.emulator.kube.controllers import gke_networks
from grpo_wizard.steps.emulator.kube.node import machines
from grpo_wizard.steps.emulator.server.context import JSON

Amounts = dict[str, Fraction]
NO_MATCH = "node(s) didn't match Pod's node affinity/selector"


_SHAPES: dict[str, str] = {}
_KNOWN: dict[str, Amounts] = {}  # a pod's requests never change, and they are asked for in every pass


def requests(pod: JSON) -> Amounts:
    """What a pod takes: the sum of its containers, or the largest init container where that is more."""
    uid = pod["metadata"].get("uid", "")
    if uid not in _KNOWN:
        if len(_KNOWN) > 20000:
            _KNOWN.clear()
        _KNOWN[uid] = _requests(pod)
    return _KNOWN[uid]


def shape(pod: JSON) -> str:
    """Pods of one shape are refused by the same nodes for the same reasons: thousands of them are looked at once."""
    uid = pod["metadata"].get("uid", "")
    if uid not in _SHAPES:
        if len(_SHAPES) > 20000:
            _SHAPES.clear()
        spec = pod["spec"]
        claims = [
            v["persistentVolumeClaim"] for v in spec.get("volumes") or () if "persistentVolumeClaim" in v
        ]
        parts = (spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations"), claims)
        wanted = sorted((key, str(value)) for key, value in requests(pod).items())
        text = json.dumps([pod["metadata"].get("namespace"), wanted, parts], sort_keys=True)
        _SHAPES[uid] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return _SHAPES[uid]


def _requests(pod: JSON) -> Amounts:
    total: Amounts = {}
    for container in pod["spec"].get("containers", ()):
        for key, value in machines.amounts(container.get("resources", {}).get("requests", {})).items():
            total[key] = total.get(key, Fraction(0)) + value
    for container in pod["spec"].get("initContainers", ()):
        for key, value in machines.amounts(container.get("resources", {}).get("requests", {})).items():
            total[key] = max(total.get(key, Fraction(0)), value)
    for row in gke_networks.extra(pod):
        total[gke_networks.resource(row["network"])] = Fraction(1)
    total["pods"] = Fraction(1)
    return total


def matches(pod: JSON, labels: dict[str, str], name: str) -> bool:
    """nodeSelector and required node affinity."""
    spec = pod["spec"]
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not required:
        return True
    return any(
        all(matches_expression(e, labels) for e in term.get("matchExpressions", ()))
        and all(name in e["values"] for e in term.get("matchFields", ()))
        for term in required["nodeSelectorTerms"]
    )


def tolerates(pod: JSON, taint: JSON) -> bool:
    """One taint against a pod's tolerations."""
    for toleration in pod["spec"].get("tolerations") or ():
        if toleration.get("effect") not in (None, "", taint["effect"]):
            continue
        if toleration.get("key") in (None, "") and toleration.get("operator") == "Exists":
            return True
        if toleration.get("key") == taint["key"] and (
            toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
        ):
            return True
    return False


def untolerated(pod: JSON, taints: list[JSON]) -> str:
    """The first taint that keeps the pod away, as the scheduler names it."""
    for taint in taints:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(pod, taint):
            value = taint.get("value", "")
            return f"node(s) had untolerated taint {{{taint['key']}: {value}}}"
    return ""


def may_run(pod: JSON, node: JSON) -> bool:
    """Selectors and taints, without asking for room: enough for a DaemonSet."""
    meta = node["metadata"]
    return matches(pod, meta["labels"], meta["name"]) and not untolerated(pod, node["spec"].get("taints", []))


def lacking(wanted: Amounts, free: Amounts) -> list[str]:
    """`Insufficient cpu` and its kind."""
    return [
        "Too many pods" if key == "pods" else f"Insufficient {key}"
        for key, value in sorted(wanted.items())
        if value > free.get(key, Fraction(0)) and value > 0
    ]


def refusals(pod: JSON, wanted: Amounts, node: JSON, free: Amounts) -> list[str]:
    """Why this node does not take this pod; empty when it does."""
    meta = node["metadata"]
    if node["spec"].get("unschedulable"):
        return ["node(s) were unschedulable"]
    if not matches(pod, meta["labels"], meta["name"]):
        return [NO_MATCH]
    taint = untolerated(pod, node["spec"].get("taints", []))
    return [taint] if taint else lacking(wanted, free)
