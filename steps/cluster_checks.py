"""Step 4, Cluster: what must hold."""

from __future__ import annotations

import re
from collections.abc import Iterable

from . import catalogue
from .catalogue import ZONES_PER_REGION as _ZONES_PER_REGION
from .step import Answers, Check, Finding, World


def _version_order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _version_floor(answers: Answers, world: World) -> Iterable[Finding]:
    floors = [
        catalogue.gpu(answers["quotas"]["gpu_type"])["gke_floor"],
        catalogue.load("machines")["gke_floor"]["version"],
    ]
    floor = max(floors, key=_version_order)
    served = world.ask(
        "gke_versions", project=answers["project"]["project_id"], location=answers["project"]["region"]
    )
    wanted = answers["cluster"]["version"] or served["default"]
    newest = max(
        (v for v in served["valid"] if v == wanted or v.startswith(wanted + ".")),
        key=_version_order,
        default=None,
    )
    if newest is None:
        yield Finding(
            "block",
            f"GKE {wanted} is not served in {answers['project']['region']}",
            f"served: {', '.join(served['valid'][:6])}",
            f"set cluster.version={'.'.join(served['valid'][0].split('.')[:2])}",
        )
    elif _version_order(newest) < _version_order(floor):
        yield Finding(
            "block",
            f"GKE {newest} is older than {floor}",
            "GPUDirect RDMA and Lustre need it",
            "set cluster.version=1.35",
        )
    else:
        yield Finding("pass", f"GKE {newest}, at or above {floor}")


def _head_fits(answers: Answers, world: World) -> Iterable[Finding]:
    machines = catalogue.load("machines")
    machine, head = machines["cpu_machines"][answers["cluster"]["cpu_machine_type"]], machines["head"]
    # GKE keeps about 6 % of memory and a CPU for itself; 500 GB asked of 640 GB leave room for it.
    fits = machine["cpus"] > head["cpus"] and machine["memory_gb"] * 0.93 > head["memory_gb"]
    yield (
        Finding("pass", "the Ray head fits the CPU machine")
        if fits
        else Finding(
            "block",
            f"the Ray head asks for {head['cpus']} CPUs and {head['memory_gb']} GB",
            "",
            "set cluster.cpu_machine_type=n2-highmem-80",
        )
    )


def _cpu_quota(answers: Answers, world: World) -> Iterable[Finding]:
    mine, region = answers["cluster"], answers["project"]["region"]
    quota = world.ask(
        "region_quota", project=answers["project"]["project_id"], region=region, metric="N2_CPUS"
    )
    cpus = catalogue.load("machines")["cpu_machines"][mine["cpu_machine_type"]]["cpus"] * (
        1 if mine["one_cpu_node"] else _ZONES_PER_REGION
    )
    if quota is None:
        yield Finding("warn", f"the N2_CPUS quota of {region} could not be read")
    elif quota["limit"] - quota["usage"] < cpus:
        yield Finding(
            "block",
            f"CPUs: n2 needs {cpus}, {quota['limit'] - quota['usage']:.0f} are left in {region}",
            f"N2_CPUS quota is {quota['limit']:.0f}",
            "ask for more: https://console.cloud.google.com/iam-admin/quotas?project="
            + answers["project"]["project_id"],
        )
    else:
        yield Finding("pass", f"{cpus} n2 CPUs fit the quota of {quota['limit']:.0f} in {region}")


CHECKS = (
    Check("version", "GKE version", _version_floor, ("cluster.version", "quotas.gpu_type", "project.region")),
    Check("head", "The head fits its machine", _head_fits, ("cluster.cpu_machine_type",)),
    Check(
        "cpu_quota",
        "CPU quota",
        _cpu_quota,
        ("cluster.cpu_machine_type", "cluster.one_cpu_node", "project.region"),
    ),
)
