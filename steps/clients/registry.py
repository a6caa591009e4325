"""Which driver works on which kind of resource."""

from __future__ import annotations

from functools import cache

from grpo_wizard.steps.clients.driver import Driver


@cache
def driver_for(kind: str) -> Driver:
    """The one driver of a kind. Imports are inside: a kind that is not used loads nothing."""
    if kind in ("subnet", "firewall", "address"):
        from grpo_wizard.steps.clients.google.compute import ComputeDriver

        return ComputeDriver(kind)
    if kind in _GOOGLE_KINDS:
        return _google_driver(kind)
    from grpo_wizard.steps.clients.kubernetes import objects

    special = {
        "secret": objects.SecretDriver,
        "daemonset": objects.DaemonSetDriver,
        "pvc": objects.PersistentVolumeClaimDriver,
        "pv": objects.PersistentVolumeDriver,
    }
    if kind == "raycluster":
        from grpo_wizard.steps.clients.kubernetes.rayclusters import RayClusterDriver

        return RayClusterDriver()
    if kind == "job":
        from grpo_wizard.steps.clients.ray.job_driver import JobDriver

        return JobDriver()
    return special.get(kind, objects.KubeDriver)()


_GOOGLE_KINDS = {"project", "api", "iam_binding", "network", "cluster", "node_pool", "lustre", "peering"}


def _google_driver(kind: str) -> Driver:
    from grpo_wizard.steps.clients.google import compute, gke, iam, lustre, peering, resource_manager

    made: dict[str, type[Driver]] = {
        "project": resource_manager.ProjectDriver,
        "api": resource_manager.ApiDriver,
        "iam_binding": iam.IamBindingDriver,
        "network": compute.NetworkDriver,
        "cluster": gke.ClusterDriver,
        "node_pool": gke.NodePoolDriver,
        "lustre": lustre.LustreDriver,
        "peering": peering.PeeringDriver,
    }
    return made[kind]()
