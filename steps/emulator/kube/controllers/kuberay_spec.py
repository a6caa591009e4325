"""What follows from a RayCluster's spec alone: its workers, and the name of its head's service."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON


def worker_totals(cluster: JSON) -> tuple[int, int, int]:
    """Return the desired, minimum and maximum workers over all groups; the maximum is capped at int32, as by KubeRay."""
    groups = cluster["spec"].get("workerGroupSpecs", ())
    hosts = [int(g.get("numOfHosts") or 1) for g in groups]
    most = sum(int(g.get("maxReplicas") or 0) * h for g, h in zip(groups, hosts, strict=True))
    least = sum(int(g.get("minReplicas") or 0) * h for g, h in zip(groups, hosts, strict=True))
    return sum(desired_workers(g) for g in groups), least, min(most, 2**31 - 1)


def desired_workers(group: JSON) -> int:
    """Return a group's workers: replicas within its bounds, times hosts; none while suspended."""
    if group.get("suspend"):
        return 0
    least, most = int(group.get("minReplicas") or 0), int(group.get("maxReplicas") or 0)
    return max(least, min(int(group.get("replicas") or 0), most)) * int(group.get("numOfHosts") or 1)


def service_name(cluster: str) -> str:
    """Return KubeRay's name of the head's service, truncated as by the operator (50 characters)."""
    return f"{cluster[:41]}-head-svc"
