"""Replica counts over a RayCluster's worker groups."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON


def worker_totals(cluster: JSON) -> tuple[int, int, int]:
    """Return the desired, minimum and maximum workers over all groups; the maximum is capped at int32, as by KubeRay."""
    from grpo_wizard.steps.emulator.kube.controllers.kuberay import desired_workers

    groups = cluster["spec"].get("workerGroupSpecs", ())
    hosts = [int(g.get("numOfHosts") or 1) for g in groups]
    most = sum(int(g.get("maxReplicas") or 0) * h for g, h in zip(groups, hosts, strict=True))
    least = sum(int(g.get("minReplicas") or 0) * h for g, h in zip(groups, hosts, strict=True))
    return sum(desired_workers(g) for g in groups), least, min(most, 2**31 - 1)
