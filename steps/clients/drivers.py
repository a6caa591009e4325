"""Which driver works on which kind of resource."""

from __future__ import annotations

from functools import cache

from .driver import Driver


@cache
def driver(kind: str) -> Driver:
    """The one driver of a kind. Imports are inside: a kind that is not used loads nothing."""
    if kind in ("subnet", "firewall", "address"):
        from .compute import ComputeDriver

        return ComputeDriver(kind)
    if kind in _GOOGLE:
        return _google(kind)
    from . import kube_objects

    special = {
        "secret": kube_objects.SecretDriver,
        "daemonset": kube_objects.DaemonSetDriver,
        "pvc": kube_objects.ClaimDriver,
        "pv": kube_objects.VolumeDriver,
    }
    if kind == "raycluster":
        from .rayclusters import RayClusterDriver

        return RayClusterDriver()
    if kind == "job":
        from .jobs import JobDriver

        return JobDriver()
    return special.get(kind, kube_objects.KubeDriver)()


_GOOGLE = {"project", "api", "iam_binding", "network", "cluster", "node_pool", "lustre", "peering"}


def _google(kind: str) -> Driver:
    from . import compute, gke, iam, lustre, peering, project

    made: dict[str, type[Driver]] = {
        "project": project.ProjectDriver,
        "api": project.ApiDriver,
        "iam_binding": iam.IamBindingDriver,
        "network": compute.NetworkDriver,
        "cluster": gke.ClusterDriver,
        "node_pool": gke.NodePoolDriver,
        "lustre": lustre.LustreDriver,
        "peering": peering.PeeringDriver,
    }
    return made[kind]()
