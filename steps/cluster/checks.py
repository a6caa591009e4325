"""Step 4, Cluster: what must hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.existing import check_existing, owner_label_of
from grpo_wizard.steps.core.model import Check, CheckFinding, CloudReader
from grpo_wizard.steps.gcp import provisioning
from grpo_wizard.steps.gcp.naming import workload_pool
from grpo_wizard.steps.gcp.quota import QuotaRequirement, check_quota

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

ClusterBody = Mapping[str, Any]
_BOOT_DISK_GB = 100  # GKE's boot disk, pd-balanced: it counts as SSD
_HEAD_POOL = "default-pool"


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _minimum_version(answers: Answers) -> str:
    floors = [
        catalog.gpu_spec(answers.quotas.gpu_type)["gke_floor"],
        catalog.load("machines")["gke_floor"]["version"],
        provisioning.provisioning_model(answers).min_gke_version,
    ]
    return str(max(filter(None, floors), key=version_key))


def _gke_version(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    if answers.cluster.use_existing:
        return  # what runs there is looked at by the check of the cluster itself
    floor, place = _minimum_version(answers), answers.project
    served = world.ask("gke_versions", project=place.project_id, location=place.region)
    wanted = answers.cluster.version or served["default"]
    newest = max(
        (v for v in served["valid"] if v == wanted or v.startswith(wanted + ".")),
        key=version_key,
        default=None,
    )
    if newest is None:
        yield CheckFinding(
            "block",
            f"GKE {wanted} is not served in {place.region}",
            f"served: {', '.join(served['valid'][:6])}",
            f"set cluster.version={'.'.join(served['valid'][0].split('.')[:2])}",
        )
    elif version_key(newest) < version_key(floor):
        yield CheckFinding(
            "block",
            f"GKE {newest} is older than {floor}",
            "GPUDirect RDMA and Lustre need it",
            "set cluster.version=1.35",
        )
    else:
        yield CheckFinding("pass", f"GKE {newest}, at or above {floor}")


def fits_ray_head(cpus: float, memory_gb: float) -> bool:
    """GKE keeps about 6 % of memory and a CPU for itself; 500 GB asked of 640 GB leave room for it."""
    head = catalog.load("machines")["head"]
    return bool(cpus > head["cpus"] and memory_gb * 0.93 > head["memory_gb"])


def _ray_head_fits(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    machines = catalog.load("machines")
    machine, head = machines["cpu_machines"][answers.cluster.cpu_machine_type], machines["head"]
    yield (
        CheckFinding("pass", "the Ray head fits the CPU machine")
        if fits_ray_head(machine["cpus"], machine["memory_gb"])
        else CheckFinding(
            "block",
            f"the Ray head asks for {head['cpus']} CPUs and {head['memory_gb']} GB",
            "",
            "set cluster.cpu_machine_type=n2-highmem-80",
        )
    )


def _cpu_machine(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    """Of the zone that carries the GPU nodes; without one_cpu_node GKE chooses the zones."""
    mine, place = answers.cluster, answers.project
    name = mine.cpu_machine_type
    if mine.use_existing or not mine.one_cpu_node:
        return
    if world.ask("machine_type", project=place.project_id, zone=place.zone, name=name) is None:
        others = [name for name in catalog.load("machines")["cpu_machines"] if name != mine.cpu_machine_type]
        yield CheckFinding(
            "block",
            f"{place.zone} has no {name}, which carries the Ray head",
            "",
            f"set cluster.cpu_machine_type to one of {', '.join(others)}, or cluster.one_cpu_node=false",
        )
    else:
        yield CheckFinding("pass", f"{place.zone} has {name}")


def _find_cluster(answers: Answers, world: CloudReader) -> ClusterBody | None:
    place = answers.project
    listed = world.ask("clusters", project=place.project_id, location=place.region)
    return next((c for c in listed if c.get("name") == answers.cluster.cluster_name), None)


def _region_quotas(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    """What the nodes count against, of what is not running yet."""
    mine, place = answers.cluster, answers.project
    try:
        there = _find_cluster(answers, world) is not None or mine.use_existing
    except WizardError:
        there = False  # GKE's API is not on yet: no cluster either
    nodes = 0 if there else 1 if mine.one_cpu_node else catalog.ZONES_PER_REGION
    cpus = nodes * catalog.load("machines")["cpu_machines"][mine.cpu_machine_type]["cpus"]
    every = nodes + answers.quotas.gpu_nodes
    machines = f"{nodes} {mine.cpu_machine_type}"
    needs = (
        QuotaRequirement("N2_CPUS", cpus, machines),
        QuotaRequirement("INSTANCES", every, "CPU and GPU nodes"),
        QuotaRequirement("IN_USE_ADDRESSES", every, "an address for each node"),
        QuotaRequirement("SSD_TOTAL_GB", every * _BOOT_DISK_GB, "the nodes' boot disks"),
    )
    project = place.project_id
    rows = world.ask("quotas", project=project, region=place.region)
    yield from check_quota(needs, rows, place.region, project)
    all_regions = QuotaRequirement("CPUS_ALL_REGIONS", cpus, machines)
    yield from check_quota((all_regions,), world.ask("quotas", project=project), "the project", project)


def _existing_cluster(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine, found = answers.cluster, _find_cluster(answers, world)
    name = mine.cluster_name
    if mine.use_existing:
        yield from _check_existing_cluster(answers, found)
    elif found is None:
        yield CheckFinding("pass", f"no cluster {name} is there yet")
    else:
        mark = owner_label_of(found, "resourceLabels")
        wrong = [*_incompatibilities(answers, found)] if found.get("status") == "RUNNING" else []
        if wrong and not (mark and mark == world.ask("lineage")):
            yield CheckFinding(
                "block",
                f"another cluster {name} is there already and cannot carry the run",
                "; ".join(wrong),
                "set cluster.cluster_name to another name",
            )
        else:
            yield from check_existing(
                f"cluster {name}", str(found.get("status")), mark, "cluster.cluster_name", answers, world
            )
    pool = _find_pool(found, mine.gpu_pool)
    if pool is not None:
        mark = owner_label_of(pool, "config.resourceLabels")
        yield from check_existing(
            f"node pool {mine.gpu_pool}", str(pool.get("status")), mark, "cluster.gpu_pool", answers, world
        )


def _find_pool(cluster: ClusterBody | None, name: str) -> ClusterBody | None:
    pools = (cluster or {}).get("nodePools", [])
    return next((pool for pool in pools if pool.get("name") == name), None)


def _check_existing_cluster(answers: Answers, cluster: ClusterBody | None) -> Iterable[CheckFinding]:
    """The cluster that shall be used as it is: everything that cannot be added to it afterwards must be there."""
    name, place = answers.cluster.cluster_name, answers.project
    if cluster is None:
        yield CheckFinding(
            "block",
            f"cluster {name} is not there in {place.region}",
            "cluster.use_existing says it is",
            f"gcloud container clusters list --project={place.project_id}",
        )
        return
    wrong = [*_incompatibilities(answers, cluster)]
    for text in wrong:
        yield CheckFinding(
            "block", f"cluster {name} cannot carry the run: {text}", "", "use another cluster, or a new one"
        )
    if not wrong:
        yield CheckFinding("pass", f"cluster {name} is there and is used as it is: {cluster.get('status')}")


def _incompatibilities(answers: Answers, cluster: ClusterBody) -> Iterable[str]:
    networking, addons = cluster.get("networkConfig", {}), cluster.get("addonsConfig", {})
    floor, version = _minimum_version(answers), str(cluster.get("currentMasterVersion", ""))
    if cluster.get("status") not in ("RUNNING", "RECONCILING"):
        yield f"it is {cluster.get('status')}"
    if version_key(version) < version_key(floor):
        yield f"GKE {version} is older than {floor}"
    if not networking.get("enableMultiNetworking"):
        yield "multi-networking is off"
    if networking.get("datapathProvider") != "ADVANCED_DATAPATH":
        yield "it has no Dataplane V2"
    for addon, title in (
        ("rayOperatorConfig", "Ray operator"),
        ("lustreCsiDriverConfig", "Lustre CSI driver"),
    ):
        if not addons.get(addon, {}).get("enabled"):
            yield f"the {title} add-on is off"
    if cluster.get("workloadIdentityConfig", {}).get("workloadPool") != workload_pool(
        answers.project.project_id
    ):
        yield "it has no Workload Identity of this project"
    if str(cluster.get("network", "")).rpartition("/")[2] != answers.networks.network:
        yield f"it is in network {cluster.get('network')}, not in {answers.networks.network}"
    if _find_pool(cluster, _HEAD_POOL) is None:
        yield f"it has no node pool {_HEAD_POOL} for the Ray head"


def _node_upgrades(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine = answers.cluster
    days = mine.maintenance_exclusion_days
    if days and not mine.use_existing:
        yield CheckFinding("pass", f"GKE upgrades no node by itself for {days} days")
    else:
        yield CheckFinding(
            "info",
            "GKE may upgrade nodes during the run",
            "auto-upgrade is on, as the release channel wants it; a node that is upgraded ends the job on it",
            "set cluster.maintenance_exclusion_days=7",
        )


_CPU_FIELDS = ("cluster.cpu_machine_type", "cluster.one_cpu_node", "cluster.use_existing")
CHECKS = (
    Check(
        "version",
        "GKE version",
        _gke_version,
        ("cluster.version", "quotas.gpu_type", "quotas.capacity", "project.region"),
    ),
    Check("head", "The head fits its machine", _ray_head_fits, ("cluster.cpu_machine_type",)),
    Check("cpu_machine", "The zone has the head's machine", _cpu_machine, (*_CPU_FIELDS, "project.zone")),
    Check(
        "cpu_quota",
        "Quotas of the region",
        _region_quotas,
        (*_CPU_FIELDS, "quotas.gpu_nodes", "project.region"),
    ),
    Check(
        "there",
        "Cluster and pool of these names",
        _existing_cluster,
        (
            "cluster.cluster_name",
            "cluster.gpu_pool",
            "cluster.use_existing",
            "project.region",
            "networks.network",
        ),
    ),
    Check("upgrades", "Upgrades during the run", _node_upgrades, ("cluster.maintenance_exclusion_days",)),
)
