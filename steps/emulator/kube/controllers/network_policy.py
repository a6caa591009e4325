"""NetworkPolicy: whether a pod may connect to another pod's port, by the rules of networking.k8s.io/v1.

Used where an emulated pod waits for another (a Ray worker for its head). `ipBlock` peers match no pod.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.selectors import matches_labels
from grpo_wizard.steps.emulator.kube.context import ClusterContext


def is_reachable(kube: ClusterContext, source: JSON, target: JSON, port: int) -> bool:
    """Both sides must allow it: egress of the source's policies and ingress of the target's."""
    return _is_direction_allowed(kube, target, source, port, "Ingress") and _is_direction_allowed(
        kube, source, target, port, "Egress"
    )


def _is_direction_allowed(kube: ClusterContext, pod: JSON, other: JSON, port: int, direction: str) -> bool:
    policies = [
        p["spec"]
        for p in kube.store.list(kinds.NETWORK_POLICY, pod["metadata"]["namespace"])
        if matches_labels(p["spec"].get("podSelector") or {}, _labels(pod)) and direction in _types(p["spec"])
    ]
    return not policies or any(
        _rule(kube, rule, pod, other, port, direction)
        for spec in policies
        for rule in spec.get(direction.lower()) or ()
    )


def _types(spec: JSON) -> list[str]:
    return spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]


def _labels(obj: JSON) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _rule(kube: ClusterContext, rule: JSON, pod: JSON, other: JSON, port: int, direction: str) -> bool:
    peers = rule.get("from" if direction == "Ingress" else "to") or []
    return _port(rule.get("ports") or [], port) and (
        not peers or any(_peer(kube, p, pod, other) for p in peers)
    )


def _port(ports: list[JSON], port: int) -> bool:
    """Compare ports by number; a named port counts as open."""
    return not ports or any(
        not isinstance(row.get("port"), int) or row["port"] <= port <= int(row.get("endPort") or row["port"])
        for row in ports
    )


def _peer(kube: ClusterContext, peer: JSON, pod: JSON, other: JSON) -> bool:
    if "ipBlock" in peer:
        return False
    if "namespaceSelector" in peer:
        namespace = kube.store.find(kinds.NAMESPACE, "", other["metadata"]["namespace"])
        near = namespace is not None and matches_labels(peer["namespaceSelector"], _labels(namespace))
    else:
        near = pod["metadata"]["namespace"] == other["metadata"]["namespace"]
    return near and ("podSelector" not in peer or matches_labels(peer["podSelector"], _labels(other)))
