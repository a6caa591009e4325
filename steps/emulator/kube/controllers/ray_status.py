"""A RayCluster's status as KubeRay v1.4 sets it: `state` and RayClusterProvisioned never revert."""

from __future__ import annotations

from fractions import Fraction

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds, quantities
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import daemonsets
from grpo_wizard.steps.emulator.kube.controllers.kuberay_spec import (
    desired_workers,
    service_name,
    worker_totals,
)
from grpo_wizard.steps.emulator.kube.node import machines

_ALL_PODS_READY_FIRST_TIME = "AllPodRunningAndReadyFirstTime"


def update_status(kube: ClusterContext, cluster: JSON, live: list[JSON]) -> None:
    """Compute the status from the live pods and store it if it differs."""
    old = cluster.get("status") or {}
    new = {
        **old,
        **_counts(cluster, live),
        **_resources(cluster),
        "observedGeneration": cluster["metadata"]["generation"],
    }
    head = next((p for p in live if p["metadata"]["labels"]["ray.io/node-type"] == "head"), None)
    new["head"] = _head(kube, cluster, head)
    new["endpoints"] = {
        "client": "10001",
        "dashboard": "8265",
        "gcs-server": "6379",
        "metrics": "8080",
        "serve": "8000",
    }
    all_up = (
        bool(head and daemonsets.is_ready(head))
        and new["readyWorkerReplicas"] >= new["desiredWorkerReplicas"]
    )
    now = kube.timestamp()
    if cluster["spec"].get("suspend"):
        new["state"] = "suspended"
    elif all_up:
        new["state"] = "ready"
    if new.get("state") != old.get("state"):
        new["stateTransitionTimes"] = {**old.get("stateTransitionTimes", {}), new["state"]: now}
    new["conditions"] = _conditions(old, head, all_up, now)
    if {**new, "lastUpdateTime": 0} != {**old, "lastUpdateTime": 0}:
        kube.edit_object(
            kinds.RAY_CLUSTER, cluster, lambda c: c.update(status={**new, "lastUpdateTime": now})
        )


def _counts(cluster: JSON, live: list[JSON]) -> JSON:
    workers = [p for p in live if p["metadata"]["labels"]["ray.io/node-type"] == "worker"]
    wanted, least, most = worker_totals(cluster)
    return {
        "availableWorkerReplicas": sum(1 for p in workers if p["status"].get("phase") == "Running"),
        "readyWorkerReplicas": sum(1 for p in workers if daemonsets.is_ready(p)),
        "desiredWorkerReplicas": wanted,
        "minWorkerReplicas": least,
        "maxWorkerReplicas": most,
    }


def _resources(cluster: JSON) -> JSON:
    """Return desiredCPU and the like: limits of the head and of the desired workers."""
    total: dict[str, Fraction] = {}
    groups = [
        (cluster["spec"]["headGroupSpec"], 1),
        *((g, desired_workers(g)) for g in cluster["spec"].get("workerGroupSpecs", ())),
    ]
    for group, count in groups:
        for container in group["template"]["spec"]["containers"]:
            wanted = container.get("resources", {})
            for key, value in machines.parse_amounts(
                wanted.get("limits") or wanted.get("requests") or {}
            ).items():
                total[key] = total.get(key, Fraction(0)) + value * count
    zero = Fraction(0)
    return {
        "desiredCPU": quantities.format_cpu(total.get("cpu", zero)),
        "desiredMemory": quantities.format_memory(total.get("memory", zero)),
        "desiredGPU": str(total.get("nvidia.com/gpu", zero)),
        "desiredTPU": str(total.get("google.com/tpu", zero)),
    }


def _head(kube: ClusterContext, cluster: JSON, head: JSON | None) -> JSON:
    ip = (head or {}).get("status", {}).get("podIP", "")
    found = {
        "podIP": ip,
        "podName": (head or {"metadata": {"name": ""}})["metadata"]["name"],
        "serviceIP": ip,
        "serviceName": service_name(cluster["metadata"]["name"]),
    }
    return {k: v for k, v in found.items() if v}


def _conditions(old: JSON, head: JSON | None, all_up: bool, now: str) -> list[JSON]:
    before = {c["type"]: c for c in old.get("conditions", ())}
    if head is None:
        ready = ("False", "HeadPodNotFound", "Head Pod not found")
    elif daemonsets.is_ready(head):
        ready = ("True", "HeadPodRunningAndReady", "")
    else:
        condition: JSON = next((c for c in head["status"].get("conditions", ()) if c["type"] == "Ready"), {})
        ready = ("False", condition.get("reason") or "HeadPodNotReady", condition.get("message", ""))
    latched = before.get("RayClusterProvisioned", {}).get("status") == "True"
    provisioned = (
        ("True", _ALL_PODS_READY_FIRST_TIME, "All Ray Pods are ready for the first time")
        if all_up or latched
        else ("False", "RayClusterPodsProvisioning", "RayCluster Pods are being provisioned for first time")
    )
    return [
        _condition("HeadPodReady", ready, before, now),
        _condition("RayClusterProvisioned", provisioned, before, now),
    ]


def _condition(name: str, value: tuple[str, str, str], before: dict[str, JSON], now: str) -> JSON:
    status, reason, message = value
    old = before.get(name)
    since = old["lastTransitionTime"] if old and old["status"] == status else now
    return {"type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
