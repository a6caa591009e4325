"""Whether a pod may run on a node: selectors, affinity, taints, resources; reasons in the scheduler's own texts."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api.selectors import matches_expression
from grpo_wizard.steps.emulator.kube.controllers import gke_networks
from grpo_wizard.steps.emulator.kube.node import machines

ResourceAmounts = dict[str, Fraction]
AFFINITY_MISMATCH = "node(s) didn't match Pod's node affinity/selector"


_SCHEDULING_KEYS: dict[str, str] = {}
_POD_REQUESTS: dict[str, ResourceAmounts] = {}  # a pod's requests never change and are needed in every pass


def pod_requests(pod: JSON) -> ResourceAmounts:
    """Return a pod's requests: the sum of its containers, or the largest init container if that is more."""
    uid = pod["metadata"].get("uid", "")
    if uid not in _POD_REQUESTS:
        if len(_POD_REQUESTS) > 20000:
            _POD_REQUESTS.clear()
        _POD_REQUESTS[uid] = _compute_requests(pod)
    return _POD_REQUESTS[uid]


def scheduling_key(pod: JSON) -> str:
    """Return the pod's shape: pods of one shape are rejected by the same nodes for the same reasons and evaluated once."""
    uid = pod["metadata"].get("uid", "")
    if uid not in _SCHEDULING_KEYS:
        if len(_SCHEDULING_KEYS) > 20000:
            _SCHEDULING_KEYS.clear()
        spec = pod["spec"]
        claims = [
            v["persistentVolumeClaim"] for v in spec.get("volumes") or () if "persistentVolumeClaim" in v
        ]
        parts = (spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations"), claims)
        wanted = sorted((key, str(value)) for key, value in pod_requests(pod).items())
        text = json.dumps([pod["metadata"].get("namespace"), wanted, parts], sort_keys=True)
        _SCHEDULING_KEYS[uid] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return _SCHEDULING_KEYS[uid]


def _compute_requests(pod: JSON) -> ResourceAmounts:
    total: ResourceAmounts = {}
    for container in pod["spec"].get("containers", ()):
        for key, value in machines.parse_amounts(container.get("resources", {}).get("requests", {})).items():
            total[key] = total.get(key, Fraction(0)) + value
    for container in pod["spec"].get("initContainers", ()):
        for key, value in machines.parse_amounts(container.get("resources", {}).get("requests", {})).items():
            total[key] = max(total.get(key, Fraction(0)), value)
    for row in gke_networks.additional_interfaces(pod):
        total[gke_networks.device_resource(row["network"])] = Fraction(1)
    total["pods"] = Fraction(1)
    return total


def matches_node_affinity(pod: JSON, labels: dict[str, str], name: str) -> bool:
    """Evaluate nodeSelector and required node affinity."""
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
    """Match one taint against a pod's tolerations."""
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


def untolerated_taint(pod: JSON, taints: list[JSON]) -> str:
    """Return the first taint that the pod does not tolerate, in the scheduler's text."""
    for taint in taints:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(pod, taint):
            value = taint.get("value", "")
            return f"node(s) had untolerated taint {{{taint['key']}: {value}}}"
    return ""


def can_run_on(pod: JSON, node: JSON) -> bool:
    """Check selectors and taints, but not resources: enough for a DaemonSet."""
    meta = node["metadata"]
    return matches_node_affinity(pod, meta["labels"], meta["name"]) and not untolerated_taint(
        pod, node["spec"].get("taints", [])
    )


def insufficient_resources(wanted: ResourceAmounts, free: ResourceAmounts) -> list[str]:
    """Return `Insufficient cpu` and the like."""
    return [
        "Too many pods" if key == "pods" else f"Insufficient {key}"
        for key, value in sorted(wanted.items())
        if value > free.get(key, Fraction(0)) and value > 0
    ]


def unschedulable_reasons(pod: JSON, wanted: ResourceAmounts, node: JSON, free: ResourceAmounts) -> list[str]:
    """Return why this node rejects this pod; empty if it accepts it."""
    meta = node["metadata"]
    if node["spec"].get("unschedulable"):
        return ["node(s) were unschedulable"]
    if not matches_node_affinity(pod, meta["labels"], meta["name"]):
        return [AFFINITY_MISMATCH]
    taint = untolerated_taint(pod, node["spec"].get("taints", []))
    return [taint] if taint else insufficient_resources(wanted, free)
