"""Checks of step 4, Cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.cloud_reader import CloudReader, GkeCluster
from grpo_wizard.steps.core.existing import check_existing
from grpo_wizard.steps.core.model import Check, CheckFinding
from grpo_wizard.steps.gcp import provisioning
from grpo_wizard.steps.gcp.naming import workload_pool
from grpo_wizard.steps.gcp.quota import QuotaRequirement, check_quota

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_BOOT_DISK_GB = 100  # GKE's boot disk, pd-balanced: it counts as SSD
_HEAD_POOL = "default-pool"
_MAX_VERSIONS_LISTED = 6


def version_key(version: str) -> tuple[int, ...]:
    """A version's numbers, to compare with."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _minimum_version(answers: Answers) -> str:
    minimums = [
        catalog.gpu_spec(answers.quotas.gpu_type)["gke_floor"],
        catalog.load("machines")["gke_floor"]["version"],
        provisioning.provisioning_model(answers).min_gke_version,
    ]
    return str(max(filter(None, minimums), key=version_key))


def _gke_version(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    if answers.cluster.use_existing:
        return  # the check of the cluster itself compares its version
    minimum, region = _minimum_version(answers), answers.project.region
    served = reader.gke_versions(project=answers.project.project_id, location=region)
    wanted = answers.cluster.version or served.default
    matching = (v for v in served.valid if v == wanted or v.startswith(wanted + "."))
    newest = max(matching, key=version_key, default=None)
    if newest is None:
        yield CheckFinding(
            "block",
            detail=f"GKE {wanted} is not available in {region}. Available versions: {', '.join(served.valid[:_MAX_VERSIONS_LISTED])}.",
            fix=f"Set cluster.version={'.'.join(served.valid[0].split('.')[:2])}.",
        )
    elif version_key(newest) < version_key(minimum):
        yield CheckFinding(
            "block",
            detail=f"GKE {newest} is older than {minimum}, the minimum version for GPUDirect RDMA and Lustre.",
            fix="Set cluster.version=1.35.",
        )
    else:
        yield CheckFinding("pass", detail=f"GKE {newest} meets the required minimum, {minimum}.")


def fits_ray_head(cpus: float, memory_gb: float) -> bool:
    """Whether a machine can run the Ray head. GKE reserves about 6 % of memory and one CPU for itself."""
    head = catalog.load("machines")["head"]
    return bool(cpus > head["cpus"] and memory_gb * 0.93 > head["memory_gb"])


def _ray_head_fits(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    machines, name = catalog.load("machines"), answers.cluster.cpu_machine_type
    machine, head = machines["cpu_machines"][name], machines["head"]
    needs = f"the Ray head, which requests {head['cpus']} CPUs and {head['memory_gb']} GB of memory"
    if fits_ray_head(machine["cpus"], machine["memory_gb"]):
        yield CheckFinding("pass", detail=f"{name} is large enough for {needs}.")
    else:
        yield CheckFinding(
            "block",
            detail=f"{name} is too small for {needs}.",
            fix="Set cluster.cpu_machine_type=n2-highmem-80.",
        )


def _cpu_machine(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    """In the zone of the GPU nodes; without one_cpu_node GKE chooses the zones."""
    zone, name = answers.project.zone, answers.cluster.cpu_machine_type
    if answers.cluster.use_existing or not answers.cluster.one_cpu_node:
        return
    if reader.has_machine_type(project=answers.project.project_id, zone=zone, name=name):
        yield CheckFinding("pass", detail=f"{zone} offers {name}.")
        return
    others = [other for other in catalog.load("machines")["cpu_machines"] if other != name]
    yield CheckFinding(
        "block",
        detail=f"{zone} does not offer {name}, which runs the Ray head.",
        fix=f"Set cluster.cpu_machine_type to one of {', '.join(others)}, or set cluster.one_cpu_node=false.",
    )


def _find_cluster(answers: Answers, reader: CloudReader) -> GkeCluster | None:
    project, name = answers.project, answers.cluster.cluster_name
    clusters = reader.clusters(project=project.project_id, location=project.region)
    return next((cluster for cluster in clusters if cluster.name == name), None)


def _cluster_exists(answers: Answers, reader: CloudReader) -> bool:
    try:
        return answers.cluster.use_existing or _find_cluster(answers, reader) is not None
    except WizardError:
        return False  # GKE's API is not enabled yet: there is no cluster either


def _region_quotas(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    """What the nodes that are not running yet count against."""
    cluster, project, region = answers.cluster, answers.project.project_id, answers.project.region
    cpu_nodes = 1 if cluster.one_cpu_node else catalog.ZONES_PER_REGION
    if _cluster_exists(answers, reader):
        cpu_nodes = 0
    cpus = cpu_nodes * catalog.load("machines")["cpu_machines"][cluster.cpu_machine_type]["cpus"]
    nodes, machines = cpu_nodes + answers.quotas.gpu_nodes, f"{cpu_nodes} × {cluster.cpu_machine_type}"
    yield from check_quota(
        requirements=(
            QuotaRequirement("N2_CPUS", cpus, machines),
            QuotaRequirement("INSTANCES", nodes, "the CPU and GPU nodes"),
            QuotaRequirement("IN_USE_ADDRESSES", nodes, "the IP addresses of the nodes"),
            QuotaRequirement("SSD_TOTAL_GB", nodes * _BOOT_DISK_GB, "the nodes' boot disks"),
        ),
        quotas=reader.region_quotas(project=project, region=region),
        scope=region,
        project=project,
    )
    yield from check_quota(
        requirements=(QuotaRequirement("CPUS_ALL_REGIONS", cpus, machines),),
        quotas=reader.quotas(project=project),
        scope="the project",
        project=project,
    )


def _existing_cluster(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    found, name = _find_cluster(answers, reader), answers.cluster.cluster_name
    if answers.cluster.use_existing:
        yield from _check_named_cluster(answers, found)
    elif found is None:
        yield CheckFinding("pass", detail=f"Cluster {name} does not exist yet.")
    else:
        yield from _check_same_name(answers, found, reader)
    pool = found.node_pool(answers.cluster.gpu_pool) if found else None
    if pool is not None:
        yield from check_existing(
            resource=f"node pool {pool.name}",
            state=pool.status,
            owner_label=pool.owner_label,
            setting="cluster.gpu_pool",
            answers=answers,
            reader=reader,
        )


def _check_same_name(answers: Answers, cluster: GkeCluster, reader: CloudReader) -> Iterable[CheckFinding]:
    """A cluster of the wanted name, which may be this deployment's or someone else's."""
    problems = [*_incompatibilities(answers, cluster)] if cluster.status == "RUNNING" else []
    managed = cluster.owner_label and cluster.owner_label == reader.deployment_id
    if problems and not managed:
        yield CheckFinding(
            "block",
            detail=f"A cluster named {cluster.name} already exists but cannot be used: {'; '.join(problems)}.",
            fix="Set cluster.cluster_name to a different name.",
        )
        return
    yield from check_existing(
        resource=f"cluster {cluster.name}",
        state=cluster.status,
        owner_label=cluster.owner_label,
        setting="cluster.cluster_name",
        answers=answers,
        reader=reader,
    )


def _check_named_cluster(answers: Answers, cluster: GkeCluster | None) -> Iterable[CheckFinding]:
    """The cluster that is used as it is: it must have everything that cannot be added afterwards."""
    name, project = answers.cluster.cluster_name, answers.project
    if cluster is None:
        yield CheckFinding(
            "block",
            detail=f"Cluster {name} does not exist in {project.region}, but cluster.use_existing is set.",
            fix=f"gcloud container clusters list --project={project.project_id}",
        )
        return
    problems = [*_incompatibilities(answers, cluster)]
    for problem in problems:
        yield CheckFinding(
            "block",
            detail=f"Cluster {name} cannot be used: {problem}.",
            fix="Use another cluster, or create one (cluster.use_existing=false).",
        )
    if not problems:
        yield CheckFinding("pass", detail=f"Cluster {name} is {cluster.status} and will be used as is.")


def _incompatibilities(answers: Answers, cluster: GkeCluster) -> Iterator[str]:
    """What keeps a cluster from running the job, one clause each."""
    minimum, network = _minimum_version(answers), answers.networks.network
    if cluster.status not in ("RUNNING", "RECONCILING"):
        yield f"its status is {cluster.status}"
    if version_key(cluster.version) < version_key(minimum):
        yield f"its GKE version, {cluster.version}, is older than {minimum}"
    if not cluster.multi_networking:
        yield "multi-networking is disabled"
    if not cluster.dataplane_v2:
        yield "Dataplane V2 is disabled"
    if not cluster.ray_operator:
        yield "the Ray operator add-on is disabled"
    if not cluster.lustre_csi_driver:
        yield "the Lustre CSI driver add-on is disabled"
    if cluster.workload_pool != workload_pool(answers.project.project_id):
        yield "it does not use this project's workload identity pool"
    if cluster.network != network:
        yield f"it is in network {cluster.network}, not {network}"
    if cluster.node_pool(_HEAD_POOL) is None:
        yield f"it has no {_HEAD_POOL} node pool for the Ray head"


def _node_upgrades(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    days = answers.cluster.maintenance_exclusion_days
    if days and not answers.cluster.use_existing:
        yield CheckFinding(
            "pass", detail=f"GKE will not upgrade nodes automatically for {days} days after cluster creation."
        )
    else:
        yield CheckFinding(
            "info",
            detail="GKE may upgrade nodes during the run because the release channel requires auto-upgrade. "
            "Upgrading a node ends the job running on it.",
            fix="Set cluster.maintenance_exclusion_days=7.",
        )


CHECKS = (
    Check(
        id="version",
        title="GKE version",
        run=_gke_version,
        needs=lambda a: (
            a.cluster.version,
            a.cluster.use_existing,
            a.quotas.gpu_type,
            a.quotas.capacity,
            a.project.region,
        ),
    ),
    Check(
        id="head",
        title="Ray head machine size",
        run=_ray_head_fits,
        needs=lambda a: a.cluster.cpu_machine_type,
    ),
    Check(
        id="cpu_machine",
        title="Ray head machine type",
        run=_cpu_machine,
        needs=lambda a: (
            a.cluster.cpu_machine_type,
            a.cluster.one_cpu_node,
            a.cluster.use_existing,
            a.project.zone,
        ),
    ),
    Check(
        id="cpu_quota",
        title="Compute quotas",
        run=_region_quotas,
        needs=lambda a: (
            a.cluster.cpu_machine_type,
            a.cluster.one_cpu_node,
            a.cluster.use_existing,
            a.cluster.cluster_name,
            a.quotas.gpu_nodes,
            a.project.region,
        ),
    ),
    Check(
        id="there",
        title="Existing cluster",
        run=_existing_cluster,
        needs=lambda a: (
            a.cluster.cluster_name,
            a.cluster.gpu_pool,
            a.cluster.use_existing,
            a.project.region,
            a.networks.network,
        ),
    ),
    Check(
        id="upgrades",
        title="Node upgrades",
        run=_node_upgrades,
        needs=lambda a: (a.cluster.maintenance_exclusion_days, a.cluster.use_existing),
    ),
)
