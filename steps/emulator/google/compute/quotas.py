"""Compute's quotas: limits from the fixtures, usage computed from the store.

As at Google, B200 and H200 have no metric here.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON, ApiError, ResourceStore
from grpo_wizard.steps.emulator.drills.active import is_active
from grpo_wizard.steps.emulator.google.shared.fixtures import load_fixtures, machine_types, zones
from grpo_wizard.steps.emulator.google.shared.self_links import COMPUTE, CONTAINER

_KIND_BY_METRIC = {"NETWORKS": "network", "SUBNETWORKS": "subnet", "FIREWALLS": "firewall"}


def project_quotas(store: ResourceStore, project: str) -> list[JSON]:
    """Return `quotas` of projects.get."""
    limits = load_fixtures()["quotas"]["project"]
    return [_quota(metric, limit, _usage(store, project, metric)) for metric, limit in limits.items()]


def region_quotas(store: ResourceStore, project: str, region: str) -> list[JSON]:
    """Return `quotas` of regions.get."""
    used = cpus_in_use(store, project, region)
    used["INSTANCES"] = used["IN_USE_ADDRESSES"] = _nodes(store, project, region)
    return [
        _quota(metric, limit, limit if _is_exhausted_by_drill(metric) else used.get(metric, 0))
        for metric, limit in load_fixtures()["quotas"]["region"].items()
    ]


def _is_exhausted_by_drill(metric: str) -> bool:
    """The drill quota-short: other workloads use the whole quota."""
    return metric.endswith("CPUS") and is_active("quota-short")


def _quota(metric: str, limit: float, usage: float) -> JSON:
    return {"metric": metric, "limit": float(limit), "usage": float(usage)}


def _usage(store: ResourceStore, project: str, metric: str) -> float:
    if metric in _KIND_BY_METRIC:
        return len(store.all(COMPUTE, _KIND_BY_METRIC[metric], project=project))
    if metric == "CPUS_ALL_REGIONS":
        return sum(cpus_in_use(store, project, "").values())
    return 0


def require_quota(store: ResourceStore, project: str, metric: str) -> None:
    """Raise an error if a project-wide resource's quota is used up."""
    limit = load_fixtures()["quotas"]["project"][metric]
    if _usage(store, project, metric) + 1 > limit:
        raise ApiError(
            403,
            f"Quota '{metric}' exceeded.  Limit: {limit:.1f} globally.",
            "PERMISSION_DENIED",
            "quotaExceeded",
        )


def cpu_metric(machine: str) -> str:
    """Return the CPU quota of a machine type; "" for accelerator machines, which have none here."""
    family = machine.split("-")[0].upper()
    metric = f"{family}_CPUS"
    return metric if metric in load_fixtures()["quotas"]["region"] else ""


def cpus_in_use(store: ResourceStore, project: str, region: str) -> dict[str, float]:
    """Return the CPUs in use by metric in a region ("" = all), from the node pools' sizes."""
    used: dict[str, float] = {}
    for pool in store.all(CONTAINER, "node_pool", project=project):
        machine = pool.body.get("config", {}).get("machineType", "")
        for zone, count in pool.extra.get("sizes", {}).items():
            if cpu_metric(machine) and region in ("", zones().get(zone)):
                cpus = machine_types(zone).get(machine, {}).get("guestCpus", 0)
                used[cpu_metric(machine)] = used.get(cpu_metric(machine), 0) + cpus * count
    return used


def _nodes(store: ResourceStore, project: str, region: str) -> int:
    """Return the nodes in a region; each has an external address (private clusters are not emulated)."""
    pools = store.all(CONTAINER, "node_pool", project=project)
    sizes = [item for pool in pools for item in pool.extra.get("sizes", {}).items()]
    return sum(count for zone, count in sizes if zones().get(zone) == region)


def check_cpus(store: ResourceStore, project: str, region: str, machine: str, cpus: float) -> None:
    """Raise an error if a cluster or pool needs more CPUs than the region's quota has left.

    GKE's text, as quoted in public reports.
    """
    metric = cpu_metric(machine)
    if not metric or not cpus:
        return
    limit = float(load_fixtures()["quotas"]["region"][metric])
    left = (
        0.0 if _is_exhausted_by_drill(metric) else limit - cpus_in_use(store, project, region).get(metric, 0)
    )
    if cpus > left:
        raise ApiError(
            403,
            f'Insufficient regional quota to satisfy request: resource "{metric}": request requires '
            f"'{cpus:.1f}' and is "
            f"short '{cpus - left:.1f}'. project has a quota of '{limit:.1f}' with '{left:.1f}' available. "
            "View and manage "
            f"quotas at https://console.cloud.google.com/iam-admin/quotas?usage=USED&project={project}.",
            "PERMISSION_DENIED",
        )
