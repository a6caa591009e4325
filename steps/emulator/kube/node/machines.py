"""A pool's nodes: machine size, resources that GKE reserves, labels and taints."""

from __future__ import annotations

import re
from fractions import Fraction

from grpo_wizard.steps.emulator.context import JSON

# vCPU and GiB of the accelerator machine types (https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines,
# 2026-11-30).
_ACCELERATED = {
    "a4-highgpu-8g": (224, 3968),
    "a3-ultragpu-8g": (224, 2952),
    "a3-megagpu-8g": (208, 1872),
    "a3-highgpu-8g": (208, 1872),
    "a2-highgpu-1g": (12, 85),
    "a2-highgpu-8g": (96, 680),
    "g2-standard-4": (4, 16),
}
_GIB_PER_CPU = {"standard": 4.0, "highmem": 8.0, "highcpu": 1.0}
_SMALL = {"e2-micro": (2, 1.0), "e2-small": (2, 2.0), "e2-medium": (2, 4.0)}
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}


def machine_size(machine: str) -> tuple[int, float]:
    """Return a machine type's vCPU and GiB; e2-medium's for an unknown one."""
    known = {**_ACCELERATED, **_SMALL}
    if machine in known:
        return known[machine]
    found = re.match(r"^[a-z]\w+-(standard|highmem|highcpu)-(\d+)", machine)
    return (int(found[2]), int(found[2]) * _GIB_PER_CPU[found[1]]) if found else _SMALL["e2-medium"]


def _reserved_cpu(cores: int) -> int:
    """Return the millicores that GKE reserves: 6 % of the 1st, 1 % of the 2nd, 0.5 % of the next 2, 0.25 % of the rest."""
    return int(60 + 10 * (cores > 1) + 5 * min(max(cores - 2, 0), 2) + 2.5 * max(cores - 4, 0))


def _reserved_memory(gib: float) -> float:
    """Return the MiB that GKE reserves, with the eviction threshold of 100 MiB.

    Source: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes, 2026-11-30.
    """
    kept, left = 100.0, gib
    for span, share in ((4, 0.25), (4, 0.2), (8, 0.1), (112, 0.06), (float("inf"), 0.02)):
        part = min(left, span)
        kept, left = kept + part * 1024 * share, left - part
    return kept


def accelerators(pool: JSON) -> tuple[str, int]:
    """Return type and number of GPUs per node; ("", 0) without GPUs."""
    found = pool.get("config", {}).get("accelerators") or []
    return (found[0]["acceleratorType"], int(found[0]["acceleratorCount"])) if found else ("", 0)


def gke_installs_driver(pool: JSON) -> bool:
    """Return whether GKE installs the GPU driver."""
    wanted = (pool["config"].get("accelerators") or [{}])[0].get("gpuDriverInstallationConfig") or {}
    return bool(wanted.get("gpuDriverVersion") != "INSTALLATION_DISABLED")


def node_resources(pool: JSON) -> tuple[JSON, JSON]:
    """Return capacity and allocatable, before the GPUs are advertised."""
    cores, gib = machine_size(pool["config"].get("machineType", "e2-medium"))
    disk = int(pool["config"].get("diskSizeGb") or 100)
    capacity = {
        "cpu": str(cores),
        "memory": f"{int(gib * 1024 * 1024 * 0.985)}Ki",
        "pods": str((pool.get("maxPodsConstraint") or {}).get("maxPodsPerNode", 110)),
        "ephemeral-storage": f"{disk * 978 * 1024}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }
    free = int(capacity["memory"][:-2]) - int(_reserved_memory(gib) * 1024)
    return capacity, {
        **capacity,
        "cpu": f"{cores * 1000 - _reserved_cpu(cores)}m",
        "memory": f"{free}Ki",
        "ephemeral-storage": str(int(disk * 978 * 1024 * 1024 * 0.9)),
    }


def node_labels(pool: JSON, name: str, zone: str) -> dict[str, str]:
    """Return the labels of a GKE node."""
    config = pool["config"]
    machine, region = config.get("machineType", "e2-medium"), zone.rsplit("-", 1)[0]
    gpu, count = accelerators(pool)
    marks = (
        {
            "cloud.google.com/gke-accelerator": gpu,
            "cloud.google.com/gke-accelerator-count": str(count),
            "cloud.google.com/gke-gpu": "true",
        }
        if gpu
        else {}
    )
    if config.get("spot"):
        marks["cloud.google.com/gke-spot"] = "true"
    if config.get("flexStart"):
        marks["cloud.google.com/gke-flex-start"] = "true"
    affinity = config.get("reservationAffinity") or {}
    if affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION" and affinity.get("values"):
        marks["cloud.google.com/reservation-name"] = (
            affinity["values"][0].split("/reservations/")[-1].split("/")[0]
        )
        marks["cloud.google.com/reservation-affinity"] = "specific"
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": machine,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/gke-nodepool": pool["name"],
        "cloud.google.com/gke-os-distribution": "cos",
        "cloud.google.com/gke-provisioning": "spot" if config.get("spot") else "standard",
        "cloud.google.com/machine-family": machine.split("-")[0],
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "iam.gke.io/gke-metadata-server-enabled": "true",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine,
        "topology.gke.io/zone": zone,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
        **marks,
        **(config.get("labels") or {}),
    }


def node_taints(pool: JSON) -> list[JSON]:
    """Return the pool's taints and GKE's taint on GPU nodes."""
    found = [
        {"key": t["key"], "value": t.get("value", ""), "effect": _EFFECTS.get(t["effect"], t["effect"])}
        for t in pool["config"].get("taints") or ()
    ]
    if accelerators(pool)[0] and not any(t["key"] == "nvidia.com/gpu" for t in found):
        found.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
    return found


def parse_amounts(listed: JSON) -> dict[str, Fraction]:
    """Return the quantities of a resource list as numbers."""
    from grpo_wizard.steps.emulator.kube.api.quantities import parse_quantity

    return {key: parse_quantity(value) for key, value in listed.items()}
