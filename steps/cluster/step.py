"""Step 4, Cluster: GKE, its CPU pool, the GPU pool, the NCCL RDMA installer, and the device networks that pods ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.cluster.answers import ClusterAnswers
from grpo_wizard.steps.cluster.checks import CHECKS
from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.model import DurationEstimate, Resource, Step
from grpo_wizard.steps.gcp import provisioning
from grpo_wizard.steps.gcp.naming import api_id, gcloud_command, resource_id, workload_pool
from grpo_wizard.steps.manifests.multinetwork import device_networks, node_networks, subnet_ids
from grpo_wizard.steps.manifests.nccl import nccl_installer

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


# gcloud adds these when nothing is said; the wizard sends the same (gcloud-wire.md §4).
_DEFAULT_SCOPES = [
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
_CUSTOM_ACCOUNT_SCOPES = [
    f"https://www.googleapis.com/auth/{scope}" for scope in ("cloud-platform", "userinfo.email")
]
_POOL_DEFAULTS: dict[str, Any] = {
    "management": {"autoRepair": True, "autoUpgrade": True},
    "upgradeSettings": {"maxSurge": 1},
}
# `--addons=A,B` switches every other add-on off (gcloud-wire.md §4).
_DISABLED_ADDONS = {
    name: {"disabled": True}
    for name in (
        "httpLoadBalancing",
        "horizontalPodAutoscaling",
        "kubernetesDashboard",
        "networkPolicyConfig",
    )
}

MAINTENANCE_EXCLUSION = "grpo-run"  # name of the maintenance exclusion


def _cluster(answers: Answers) -> Resource:
    mine, place, network = answers.cluster, answers.project, answers.networks.network
    csi = {"enabled": True} | ({"enableLegacyLustrePort": True} if answers.lustre.legacy_port else {})
    pool = {
        "name": "default-pool",
        "initialNodeCount": 1,
        "autoscaling": {"enabled": True, "minNodeCount": 1, "maxNodeCount": mine.cpu_max_nodes},
        "config": {
            "machineType": mine.cpu_machine_type,
            **_node_identity(answers),
        },
        **_POOL_DEFAULTS,
    }
    spec: dict[str, Any] = {
        "name": mine.cluster_name,
        "network": network,
        "addonsConfig": {
            **_DISABLED_ADDONS,
            "lustreCsiDriverConfig": csi,
            "rayOperatorConfig": {"enabled": True},
        },
        "ipAllocationPolicy": {"createSubnetwork": False, "useIpAliases": True},
        "networkConfig": {"datapathProvider": "ADVANCED_DATAPATH", "enableMultiNetworking": True},
        "workloadIdentityConfig": {"workloadPool": workload_pool(place.project_id)},
        "nodePools": [pool],
    }
    spec |= {"subnetwork": subnet} if (subnet := answers.networks.subnetwork) else {}
    spec |= {"maintenanceExclusionDays": days} if (days := mine.maintenance_exclusion_days) else {}
    spec |= {"locations": [place.zone]} if mine.one_cpu_node else {}
    spec |= {"initialClusterVersion": mine.version} if mine.version else {}
    return Resource(
        step="cluster",
        kind="cluster",
        name=mine.cluster_name,
        spec=spec,
        parent={"project": place.project_id, "location": place.region},
        depends_on=_cluster_dependencies(answers),
        command=_cluster_command(answers),
        expected_duration=DurationEstimate(
            480, 1560, "9 m 07 s and 26 m seen in public reports (google-cloud.md §5)"
        ),
        usd_per_hour=0.0 if mine.use_existing else _cluster_price(answers),
        note="named by you: used, never changed and never deleted" if mine.use_existing else "",
        data_source=mine.use_existing,
        adopt_paths=(
            "network",
            "networkConfig.datapathProvider",
            "networkConfig.enableMultiNetworking",
            "addonsConfig.rayOperatorConfig.enabled",
            "addonsConfig.lustreCsiDriverConfig.enabled",
            "workloadIdentityConfig.workloadPool",
        ),
    )


def _node_identity(answers: Answers) -> dict[str, object]:
    """Whom the nodes act as, and how far: an account of one's own is limited by its roles, as gcloud has it."""
    account = answers.cluster.node_service_account
    return (
        {"serviceAccount": account, "oauthScopes": _CUSTOM_ACCOUNT_SCOPES}
        if account
        else {"oauthScopes": _DEFAULT_SCOPES}
    )


def _cluster_dependencies(answers: Answers) -> tuple[str, ...]:
    mine = answers.networks
    needs = (api_id("container"), resource_id("networks", "network", mine.network))
    return (*needs, resource_id("networks", "subnet", mine.subnetwork)) if mine.subnetwork else needs


def _cluster_price(answers: Answers) -> float | None:
    mine = answers.cluster
    node = catalog.list_price(mine.cpu_machine_type, answers.project.region)
    nodes = 1 if mine.one_cpu_node else catalog.ZONES_PER_REGION
    return (
        None if node is None else round(node * nodes + float(catalog.load("prices")["gke_cluster"]["usd"]), 4)
    )


def _cluster_command(answers: Answers) -> str:
    mine, place = answers.cluster, answers.project
    if mine.use_existing:
        return gcloud_command("container clusters describe", {"location": place.region}, mine.cluster_name)
    made = gcloud_command(
        "container clusters create",
        {
            "location": place.region,
            "node-locations": place.zone if mine.one_cpu_node else None,
            "cluster-version": mine.version or None,
            "workload-pool": workload_pool(place.project_id),
            "enable-dataplane-v2": True,
            "enable-ip-alias": True,
            "enable-multi-networking": True,
            "addons": "RayOperator,LustreCsiDriver",
            "enable-legacy-lustre-port": answers.lustre.legacy_port,
            "machine-type": mine.cpu_machine_type,
            "num-nodes": 1,
            "min-nodes": 1,
            "max-nodes": mine.cpu_max_nodes,
            "enable-autoscaling": True,
            "network": answers.networks.network,
            "subnetwork": answers.networks.subnetwork or None,
            "service-account": mine.node_service_account or None,
        },
        mine.cluster_name,
    )
    return made + (f" && {_exclusion_command(answers)}" if mine.maintenance_exclusion_days else "")


def _exclusion_command(answers: Answers) -> str:
    mine = answers.cluster
    flags = {
        "location": answers.project.region,
        "add-maintenance-exclusion-name": MAINTENANCE_EXCLUSION,
        "add-maintenance-exclusion-end": f"P{mine.maintenance_exclusion_days}D",
        "add-maintenance-exclusion-scope": "no_minor_or_node_upgrades",
    }
    return gcloud_command("container clusters update", flags, mine.cluster_name)


def _gpu_pool(answers: Answers) -> Resource:
    mine, place, quotas = answers.cluster, answers.project, answers.quotas
    config: dict[str, Any] = {
        "machineType": quotas.machine_type,
        "accelerators": [
            {
                "acceleratorCount": "8",
                "acceleratorType": quotas.gpu_type,
                "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
            }
        ],
        **provisioning.pool_config(answers),
        **_node_identity(answers),
    }
    config |= {"diskType": mine.gpu_boot_disk} if mine.gpu_boot_disk else {}
    networks, chosen = node_networks(answers), provisioning.provisioning_model(answers)
    spec = {
        "name": mine.gpu_pool,
        "initialNodeCount": 0,
        "locations": [place.zone],
        "config": config,
        "autoscaling": {"enabled": True, "totalMaxNodeCount": quotas.gpu_nodes},
        "networkConfig": {
            "additionalNodeNetworkConfigs": [{"network": n, "subnetwork": s} for n, s in networks]
        },
        **_POOL_DEFAULTS,
        "management": {"autoRepair": chosen.auto_repair, "autoUpgrade": True},
    }
    spec |= {"placementPolicy": {"policyName": policy}} if (policy := mine.placement_policy) else {}
    cluster = resource_id("cluster", "cluster", mine.cluster_name)
    listed = catalog.list_price(quotas.machine_type, place.region)
    price = listed if chosen.billed_at_list_price else None
    return Resource(
        step="cluster",
        kind="node_pool",
        name=mine.gpu_pool,
        spec=spec,
        parent={"project": place.project_id, "location": place.region, "cluster": mine.cluster_name},
        depends_on=(cluster, *subnet_ids(answers)),
        command=_pool_command(answers, networks),
        expected_duration=DurationEstimate(
            240, 2100, "4 m and 35 m seen in public reports (google-cloud.md §5)"
        ),
        usd_per_hour=None if price is None else round(price * quotas.gpu_nodes, 4),
        note="starts with 0 nodes; the workers ask for them"
        + ("" if provisioning.is_reserved(answers) else f" ({quotas.capacity}: {chosen.price})"),
        adopt_paths=(
            "config.machineType",
            "config.accelerators",
            "config.reservationAffinity",
            "config.spot",
            "config.flexStart",
            "networkConfig.additionalNodeNetworkConfigs",
        ),
    )


def _pool_command(answers: Answers, networks: Sequence[tuple[str, str]]) -> str:
    mine, place, quotas = answers.cluster, answers.project, answers.quotas
    flags: list[tuple[str, object]] = [
        ("cluster", mine.cluster_name),
        ("location", place.region),
        ("node-locations", place.zone),
        ("machine-type", quotas.machine_type),
        ("accelerator", f"type={quotas.gpu_type},count=8,gpu-driver-version=DEFAULT"),
        ("disk-type", mine.gpu_boot_disk or None),
        *provisioning.pool_flags(answers),
        ("service-account", mine.node_service_account or None),
        ("placement-policy", mine.placement_policy or None),
        ("enable-autoscaling", True),
        ("num-nodes", 0),
        ("total-max-nodes", quotas.gpu_nodes),
        *(("additional-node-network", f"network={n},subnetwork={s}") for n, s in networks),
    ]
    return gcloud_command("container node-pools create", flags, mine.gpu_pool)


def _resources(answers: Answers) -> Sequence[Resource]:
    mine, place = answers.cluster, answers.project
    where = {"project": place.project_id, "location": place.region, "cluster": mine.cluster_name}
    cluster = resource_id("cluster", "cluster", mine.cluster_name)
    installer = nccl_installer()
    daemonset = Resource(
        step="cluster",
        kind="daemonset",
        name=installer["metadata"]["name"],
        spec=installer,
        parent=where | {"namespace": installer["metadata"]["namespace"]},
        depends_on=(cluster,),
        command="kubectl apply -f nccl-rdma-installer.yaml",
    )
    return [_cluster(answers), _gpu_pool(answers), daemonset, *device_networks(answers, where, cluster)]


STEP = Step(
    answers=ClusterAnswers,
    title="Cluster",
    purpose="GKE with a CPU pool and a GPU pool that starts empty.",
    checks=CHECKS,
    resources=_resources,
)
