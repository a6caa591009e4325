"""Step 4, Cluster: GKE with a CPU pool and a GPU pool, the NCCL RDMA installer, and the device networks of the pods."""

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


# The scopes that gcloud adds when none are given: https://cloud.google.com/sdk/gcloud/reference/container/clusters/create
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
# `gcloud container clusters create --addons=A,B` disables every other add-on; these are the ones it sends.
_DISABLED_ADDONS = {
    name: {"disabled": True}
    for name in (
        "httpLoadBalancing",
        "horizontalPodAutoscaling",
        "kubernetesDashboard",
        "networkPolicyConfig",
    )
}

MAINTENANCE_EXCLUSION = "grpo-run"


def _cluster(answers: Answers) -> Resource:
    cluster_answers, project, network = answers.cluster, answers.project, answers.networks.network
    csi = {"enabled": True} | ({"enableLegacyLustrePort": True} if answers.lustre.legacy_port else {})
    pool = {
        "name": "default-pool",
        "initialNodeCount": 1,
        "autoscaling": {"enabled": True, "minNodeCount": 1, "maxNodeCount": cluster_answers.cpu_max_nodes},
        "config": {
            "machineType": cluster_answers.cpu_machine_type,
            **_node_identity(answers),
        },
        **_POOL_DEFAULTS,
    }
    spec: dict[str, Any] = {
        "name": cluster_answers.cluster_name,
        "network": network,
        "addonsConfig": {
            **_DISABLED_ADDONS,
            "lustreCsiDriverConfig": csi,
            "rayOperatorConfig": {"enabled": True},
        },
        "ipAllocationPolicy": {"createSubnetwork": False, "useIpAliases": True},
        "networkConfig": {"datapathProvider": "ADVANCED_DATAPATH", "enableMultiNetworking": True},
        "workloadIdentityConfig": {"workloadPool": workload_pool(project.project_id)},
        "nodePools": [pool],
    }
    spec |= {"subnetwork": subnet} if (subnet := answers.networks.subnetwork) else {}
    spec |= {"maintenanceExclusionDays": days} if (days := cluster_answers.maintenance_exclusion_days) else {}
    spec |= {"locations": [project.zone]} if cluster_answers.one_cpu_node else {}
    spec |= {"initialClusterVersion": cluster_answers.version} if cluster_answers.version else {}
    return Resource(
        step="cluster",
        kind="cluster",
        name=cluster_answers.cluster_name,
        spec=spec,
        parent={"project": project.project_id, "location": project.region},
        depends_on=_cluster_dependencies(answers),
        command=_cluster_command(answers),
        expected_duration=DurationEstimate(
            480, 1560, "9 to 26 minutes in public reports: https://github.com/NVIDIA/aicr/issues/2764"
        ),
        usd_per_hour=0.0 if cluster_answers.use_existing else _cluster_price(answers),
        note="existing resource; used as is, never changed or deleted"
        if cluster_answers.use_existing
        else "",
        data_source=cluster_answers.use_existing,
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
    """The nodes' service account and scopes. A custom account is limited by its roles, so it gets all scopes, as with gcloud."""
    account = answers.cluster.node_service_account
    return (
        {"serviceAccount": account, "oauthScopes": _CUSTOM_ACCOUNT_SCOPES}
        if account
        else {"oauthScopes": _DEFAULT_SCOPES}
    )


def _cluster_dependencies(answers: Answers) -> tuple[str, ...]:
    cluster_answers = answers.networks
    needs = (api_id("container"), resource_id("networks", "network", cluster_answers.network))
    return (
        (*needs, resource_id("networks", "subnet", cluster_answers.subnetwork))
        if cluster_answers.subnetwork
        else needs
    )


def _cluster_price(answers: Answers) -> float | None:
    cluster_answers = answers.cluster
    node = catalog.list_price(cluster_answers.cpu_machine_type, answers.project.region)
    nodes = 1 if cluster_answers.one_cpu_node else catalog.ZONES_PER_REGION
    return (
        None if node is None else round(node * nodes + float(catalog.load("prices")["gke_cluster"]["usd"]), 4)
    )


def _cluster_command(answers: Answers) -> str:
    cluster_answers, project = answers.cluster, answers.project
    if cluster_answers.use_existing:
        return gcloud_command(
            "container clusters describe", {"location": project.region}, cluster_answers.cluster_name
        )
    command = gcloud_command(
        "container clusters create",
        {
            "location": project.region,
            "node-locations": project.zone if cluster_answers.one_cpu_node else None,
            "cluster-version": cluster_answers.version or None,
            "workload-pool": workload_pool(project.project_id),
            "enable-dataplane-v2": True,
            "enable-ip-alias": True,
            "enable-multi-networking": True,
            "addons": "RayOperator,LustreCsiDriver",
            "enable-legacy-lustre-port": answers.lustre.legacy_port,
            "machine-type": cluster_answers.cpu_machine_type,
            "num-nodes": 1,
            "min-nodes": 1,
            "max-nodes": cluster_answers.cpu_max_nodes,
            "enable-autoscaling": True,
            "network": answers.networks.network,
            "subnetwork": answers.networks.subnetwork or None,
            "service-account": cluster_answers.node_service_account or None,
        },
        cluster_answers.cluster_name,
    )
    return command + (
        f" && {_exclusion_command(answers)}" if cluster_answers.maintenance_exclusion_days else ""
    )


def _exclusion_command(answers: Answers) -> str:
    cluster_answers = answers.cluster
    flags = {
        "location": answers.project.region,
        "add-maintenance-exclusion-name": MAINTENANCE_EXCLUSION,
        "add-maintenance-exclusion-end": f"P{cluster_answers.maintenance_exclusion_days}D",
        "add-maintenance-exclusion-scope": "no_minor_or_node_upgrades",
    }
    return gcloud_command("container clusters update", flags, cluster_answers.cluster_name)


def _gpu_pool(answers: Answers) -> Resource:
    cluster, project, quotas = answers.cluster, answers.project, answers.quotas
    model = provisioning.provisioning_model(answers)
    price = catalog.list_price(quotas.machine_type, project.region) if model.billed_at_list_price else None
    return Resource(
        step="cluster",
        kind="node_pool",
        name=cluster.gpu_pool,
        spec=_gpu_pool_spec(answers),
        parent={
            "project": project.project_id,
            "location": project.region,
            "cluster": cluster.cluster_name,
        },
        depends_on=(resource_id("cluster", "cluster", cluster.cluster_name), *subnet_ids(answers)),
        command=_pool_command(answers, node_networks(answers)),
        expected_duration=DurationEstimate(
            240, 2100, "4 to 35 minutes in public reports: https://github.com/NVIDIA/aicr/issues/2764"
        ),
        usd_per_hour=None if price is None else round(price * quotas.gpu_nodes, 4),
        note="starts with 0 nodes and scales up for the Ray workers"
        + ("" if provisioning.is_reserved(answers) else f" ({quotas.capacity}: {model.price})"),
        adopt_paths=(
            "config.machineType",
            "config.accelerators",
            "config.reservationAffinity",
            "config.spot",
            "config.flexStart",
            "networkConfig.additionalNodeNetworkConfigs",
        ),
    )


def _gpu_pool_spec(answers: Answers) -> dict[str, object]:
    cluster, quotas = answers.cluster, answers.quotas
    config: dict[str, object] = {
        "machineType": quotas.machine_type,
        "accelerators": [
            {
                "acceleratorCount": str(catalog.GPUS_PER_NODE),
                "acceleratorType": quotas.gpu_type,
                "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
            }
        ],
        **provisioning.pool_config(answers),
        **_node_identity(answers),
    }
    config |= {"diskType": cluster.gpu_boot_disk} if cluster.gpu_boot_disk else {}
    placement = {"placementPolicy": {"policyName": cluster.placement_policy}}
    return {
        "name": cluster.gpu_pool,
        "initialNodeCount": 0,
        "locations": [answers.project.zone],
        "config": config,
        "autoscaling": {"enabled": True, "totalMaxNodeCount": quotas.gpu_nodes},
        "networkConfig": {
            "additionalNodeNetworkConfigs": [
                {"network": network, "subnetwork": subnet} for network, subnet in node_networks(answers)
            ]
        },
        **_POOL_DEFAULTS,
        "management": {
            "autoRepair": provisioning.provisioning_model(answers).auto_repair,
            "autoUpgrade": True,
        },
        **(placement if cluster.placement_policy else {}),
    }


def _pool_command(answers: Answers, networks: Sequence[tuple[str, str]]) -> str:
    cluster_answers, project, quotas = answers.cluster, answers.project, answers.quotas
    flags: list[tuple[str, object]] = [
        ("cluster", cluster_answers.cluster_name),
        ("location", project.region),
        ("node-locations", project.zone),
        ("machine-type", quotas.machine_type),
        ("accelerator", f"type={quotas.gpu_type},count=8,gpu-driver-version=DEFAULT"),
        ("disk-type", cluster_answers.gpu_boot_disk or None),
        *provisioning.pool_flags(answers),
        ("service-account", cluster_answers.node_service_account or None),
        ("placement-policy", cluster_answers.placement_policy or None),
        ("enable-autoscaling", True),
        ("num-nodes", 0),
        ("total-max-nodes", quotas.gpu_nodes),
        *(("additional-node-network", f"network={n},subnetwork={s}") for n, s in networks),
    ]
    return gcloud_command("container node-pools create", flags, cluster_answers.gpu_pool)


def _resources(answers: Answers) -> Sequence[Resource]:
    cluster_answers, project = answers.cluster, answers.project
    parent = {
        "project": project.project_id,
        "location": project.region,
        "cluster": cluster_answers.cluster_name,
    }
    cluster = resource_id("cluster", "cluster", cluster_answers.cluster_name)
    installer = nccl_installer()
    daemonset = Resource(
        step="cluster",
        kind="daemonset",
        name=installer["metadata"]["name"],
        spec=installer,
        parent=parent | {"namespace": installer["metadata"]["namespace"]},
        depends_on=(cluster,),
        command="kubectl apply -f nccl-rdma-installer.yaml",
    )
    return [_cluster(answers), _gpu_pool(answers), daemonset, *device_networks(answers, parent, cluster)]


STEP = Step(
    answers=ClusterAnswers,
    title="Cluster",
    purpose="A GKE cluster with a CPU pool and a GPU pool that starts empty.",
    checks=CHECKS,
    resources=_resources,
)
