"""Step 4, Cluster: GKE, its CPU pool, the GPU pool, the NCCL RDMA installer, and the device networks that pods ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from . import catalogue, parse
from .manifests.multinetwork import device_networks, node_networks, subnet_ids
from .manifests.nccl import nccl_installer
from .naming import api_id, gcloud, resource_id, workload_pool
from .reservation import affinity_value
from .step import Answers, Check, Field, Finding, Resource, Step, Usual, World

_CPU_MACHINES = tuple(catalogue.load("machines")["cpu_machines"])
_ZONES_PER_REGION = 3  # GKE spreads a regional cluster over three zones (tutorial-defects 8)
_VERSION = parse.text(r"1\.\d{2}(\.\d+(-gke\.\d+)?)?", "a version such as 1.35 or 1.35.2-gke.1842000")

# gcloud adds these when nothing is said; the wizard sends the same (gcloud-wire.md §4).
_SCOPES = [
    f"https://www.googleapis.com/auth/{scope}"
    for scope in (
        "devstorage.read_only",
        "logging.write",
        "monitoring",
        "service.management.readonly",
        "servicecontrol",
        "trace.append",
    )
]
_POOL_DEFAULTS: dict[str, Any] = {
    "management": {"autoRepair": True, "autoUpgrade": True},
    "upgradeSettings": {"maxSurge": 1},
}
# `--addons=A,B` switches every other add-on off (gcloud-wire.md §4).
_OTHER_ADDONS_OFF = {
    name: {"disabled": True}
    for name in (
        "httpLoadBalancing",
        "horizontalPodAutoscaling",
        "kubernetesDashboard",
        "networkPolicyConfig",
    )
}

FIELDS = (
    Field(
        "cluster_name",
        "Cluster",
        "The GKE cluster's name.",
        parse.cluster_name,
        "nemo-cluster",
        env=("CLUSTER_NAME",),
    ),
    Field(
        "cpu_machine_type",
        "CPU machine type",
        "Carries the Ray head: 64 CPUs and 500 GB.",
        parse.choice(_CPU_MACHINES),
        "n2-highmem-80",
        kind="choice",
        choices=_CPU_MACHINES,
    ),
    Field(
        "cpu_max_nodes",
        "CPU nodes at most",
        "The CPU pool grows to this many in each of its zones.",
        parse.integer(1, 100),
        5,
        kind="integer",
        advanced=True,
    ),
    Field(
        "one_cpu_node",
        "One CPU node",
        "Keep the CPU pool in one zone. Without it a regional cluster starts one node in each of three zones.",
        parse.switch,
        True,
        kind="switch",
        advanced=True,
    ),
    Field(
        "version",
        "GKE version",
        "1.35 takes the newest patch of 1.35; empty takes the channel's default.",
        parse.optional(_VERSION),
        "1.35",
        advanced=True,
        optional=True,
    ),
    Field(
        "gpu_pool",
        "GPU pool",
        "The node pool of the GPU machines.",
        parse.cluster_name,
        "gpu-pool",
        advanced=True,
    ),
    Field(
        "gpu_boot_disk",
        "GPU boot disk",
        "Disk type of the GPU nodes; H200 machines take hyperdisk-balanced only. Empty: GKE's default.",
        parse.optional(parse.choice(("hyperdisk-balanced", "pd-ssd", "pd-balanced"))),
        lambda a: catalogue.gpu(a["quotas"]["gpu_type"])["boot_disk"],
        advanced=True,
        optional=True,
    ),
)


def _cluster(answers: Answers) -> Resource:
    mine, place, network = answers["cluster"], answers["project"], answers["networks"]["network"]
    csi = {"enabled": True} | ({"enableLegacyLustrePort": True} if answers["lustre"]["legacy_port"] else {})
    pool = {
        "name": "default-pool",
        "initialNodeCount": 1,
        "autoscaling": {"enabled": True, "minNodeCount": 1, "maxNodeCount": mine["cpu_max_nodes"]},
        "config": {"machineType": mine["cpu_machine_type"], "oauthScopes": _SCOPES},
        **_POOL_DEFAULTS,
    }
    spec: dict[str, Any] = {
        "name": mine["cluster_name"],
        "network": network,
        "addonsConfig": {
            **_OTHER_ADDONS_OFF,
            "lustreCsiDriverConfig": csi,
            "rayOperatorConfig": {"enabled": True},
        },
        "ipAllocationPolicy": {"createSubnetwork": False, "useIpAliases": True},
        "networkConfig": {"datapathProvider": "ADVANCED_DATAPATH", "enableMultiNetworking": True},
        "workloadIdentityConfig": {"workloadPool": workload_pool(place["project_id"])},
        "nodePools": [pool],
    }
    spec |= {"locations": [place["zone"]]} if mine["one_cpu_node"] else {}
    spec |= {"initialClusterVersion": mine["version"]} if mine["version"] else {}
    return Resource(
        "cluster",
        "cluster",
        mine["cluster_name"],
        spec,
        {"project": place["project_id"], "location": place["region"]},
        (api_id("container"), resource_id("networks", "network", network)),
        _cluster_command(answers),
        Usual(480, 1560, "9 m 07 s and 26 m seen in public reports (google-cloud.md §5)"),
        _cluster_price(answers),
        watch=(
            "network",
            "networkConfig.datapathProvider",
            "networkConfig.enableMultiNetworking",
            "addonsConfig.rayOperatorConfig.enabled",
            "addonsConfig.lustreCsiDriverConfig.enabled",
            "workloadIdentityConfig.workloadPool",
        ),
    )


def _cluster_price(answers: Answers) -> float | None:
    mine = answers["cluster"]
    node = catalogue.usd_per_hour(mine["cpu_machine_type"], answers["project"]["region"])
    nodes = 1 if mine["one_cpu_node"] else _ZONES_PER_REGION
    return (
        None
        if node is None
        else round(node * nodes + float(catalogue.load("prices")["gke_cluster"]["usd"]), 4)
    )


def _cluster_command(answers: Answers) -> str:
    mine, place = answers["cluster"], answers["project"]
    return gcloud(
        "container clusters create",
        {
            "location": place["region"],
            "node-locations": place["zone"] if mine["one_cpu_node"] else None,
            "cluster-version": mine["version"] or None,
            "workload-pool": workload_pool(place["project_id"]),
            "enable-dataplane-v2": True,
            "enable-ip-alias": True,
            "enable-multi-networking": True,
            "addons": "RayOperator,LustreCsiDriver",
            "enable-legacy-lustre-port": answers["lustre"]["legacy_port"],
            "machine-type": mine["cpu_machine_type"],
            "num-nodes": 1,
            "min-nodes": 1,
            "max-nodes": mine["cpu_max_nodes"],
            "enable-autoscaling": True,
            "network": answers["networks"]["network"],
        },
        mine["cluster_name"],
    )


def _gpu_pool(answers: Answers) -> Resource:
    mine, place, quotas = answers["cluster"], answers["project"], answers["quotas"]
    reservation = affinity_value(quotas["reservation"], place["project_id"])
    config: dict[str, Any] = {
        "machineType": quotas["machine_type"],
        "oauthScopes": _SCOPES,
        "accelerators": [
            {
                "acceleratorCount": "8",
                "acceleratorType": quotas["gpu_type"],
                "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
            }
        ],
        "reservationAffinity": {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [reservation],
        },
    }
    config |= {"diskType": mine["gpu_boot_disk"]} if mine["gpu_boot_disk"] else {}
    networks = node_networks(answers)
    spec = {
        "name": mine["gpu_pool"],
        "initialNodeCount": 0,
        "locations": [place["zone"]],
        "config": config,
        "autoscaling": {"enabled": True, "totalMaxNodeCount": quotas["gpu_nodes"]},
        "networkConfig": {
            "additionalNodeNetworkConfigs": [{"network": n, "subnetwork": s} for n, s in networks]
        },
        **_POOL_DEFAULTS,
    }
    cluster = resource_id("cluster", "cluster", mine["cluster_name"])
    price = catalogue.usd_per_hour(quotas["machine_type"], place["region"])
    return Resource(
        "cluster",
        "node_pool",
        mine["gpu_pool"],
        spec,
        {"project": place["project_id"], "location": place["region"], "cluster": mine["cluster_name"]},
        (cluster, *subnet_ids(answers)),
        _pool_command(answers, reservation, networks),
        Usual(240, 2100, "4 m and 35 m seen in public reports (google-cloud.md §5)"),
        None if price is None else round(price * quotas["gpu_nodes"], 4),
        "starts with 0 nodes; the workers ask for them",
        watch=(
            "config.machineType",
            "config.accelerators",
            "config.reservationAffinity",
            "networkConfig.additionalNodeNetworkConfigs",
        ),
    )


def _pool_command(answers: Answers, reservation: str, networks: Sequence[tuple[str, str]]) -> str:
    mine, place, quotas = answers["cluster"], answers["project"], answers["quotas"]
    flags: list[tuple[str, object]] = [
        ("cluster", mine["cluster_name"]),
        ("location", place["region"]),
        ("node-locations", place["zone"]),
        ("machine-type", quotas["machine_type"]),
        ("accelerator", f"type={quotas['gpu_type']},count=8,gpu-driver-version=DEFAULT"),
        ("disk-type", mine["gpu_boot_disk"] or None),
        ("reservation-affinity", "specific"),
        ("reservation", reservation),
        ("enable-autoscaling", True),
        ("num-nodes", 0),
        ("total-max-nodes", quotas["gpu_nodes"]),
        *(("additional-node-network", f"network={n},subnetwork={s}") for n, s in networks),
    ]
    return gcloud("container node-pools create", flags, mine["gpu_pool"])


def _resources(answers: Answers) -> Sequence[Resource]:
    mine, place = answers["cluster"], answers["project"]
    where = {"project": place["project_id"], "location": place["region"], "cluster": mine["cluster_name"]}
    cluster = resource_id("cluster", "cluster", mine["cluster_name"])
    installer = nccl_installer()
    daemonset = Resource(
        "cluster",
        "daemonset",
        installer["metadata"]["name"],
        installer,
        where | {"namespace": installer["metadata"]["namespace"]},
        (cluster,),
        "kubectl apply -f nccl-rdma-installer.yaml",
    )
    return [_cluster(answers), _gpu_pool(answers), daemonset, *device_networks(answers, where, cluster)]


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

STEP = Step(
    "cluster", "Cluster", "GKE with a CPU pool and a GPU pool that starts empty.", FIELDS, CHECKS, _resources
)
