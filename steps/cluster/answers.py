"""Questions and answers of step 4, Cluster."""

from __future__ import annotations

from grpo_wizard.steps.core import catalog, validators
from grpo_wizard.steps.core.answers import StepAnswers, question

_CPU_MACHINES = tuple(catalog.load("machines")["cpu_machines"])
_VERSION = validators.text(r"1\.\d{2}(\.\d+(-gke\.\d+)?)?", "a version such as 1.35 or 1.35.2-gke.1842000")


class ClusterAnswers(StepAnswers, step="cluster"):
    """The GKE cluster and its two node pools."""

    cluster_name: str = question(
        label="Cluster",
        help="The GKE cluster's name.",
        parse=validators.cluster_name,
        default="nemo-cluster",
        env=("CLUSTER_NAME",),
        choices_from="clusters",
    )
    cpu_machine_type: str = question(
        label="CPU machine type",
        help="Carries the Ray head: 64 CPUs and 500 GB.",
        parse=validators.choice(_CPU_MACHINES),
        default="n2-highmem-80",
        kind="choice",
        choices=_CPU_MACHINES,
    )
    cpu_max_nodes: int = question(
        label="CPU nodes at most",
        help="The CPU pool grows to this many in each of its zones.",
        parse=validators.integer(1, 100),
        default=5,
        kind="integer",
        advanced=True,
    )
    one_cpu_node: bool = question(
        label="One CPU node",
        help="Keep the CPU pool in one zone. Without it a regional cluster starts one node in each of three zones.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    version: str = question(
        label="GKE version",
        help="1.35 takes the newest patch of 1.35; empty takes the channel's default.",
        parse=validators.optional(_VERSION),
        default="1.35",
        choices_from="versions",
        advanced=True,
        optional=True,
    )
    gpu_pool: str = question(
        label="GPU pool",
        help="The node pool of the GPU machines.",
        parse=validators.cluster_name,
        default="gpu-pool",
        advanced=True,
    )
    gpu_boot_disk: str = question(
        label="GPU boot disk",
        help="Disk type of the GPU nodes; H200 machines take hyperdisk-balanced only. Empty: GKE's default.",
        parse=validators.optional(validators.choice(("hyperdisk-balanced", "pd-ssd", "pd-balanced"))),
        default=lambda a: catalog.gpu_spec(a.quotas.gpu_type)["boot_disk"],
        advanced=True,
        optional=True,
    )
    use_existing: bool = question(
        label="Use an existing cluster",
        help="The cluster of that name is there already: it is used, never changed and never deleted.",
        parse=validators.switch,
        default=False,
        kind="switch",
        advanced=True,
    )
    node_service_account: str = question(
        label="Nodes' service account",
        help="Whom the nodes act as, instead of the project's default account.",
        parse=validators.optional(validators.service_account),
        default="",
        advanced=True,
        optional=True,
    )
    placement_policy: str = question(
        label="Placement policy",
        help="The resource policy that the reservation was made with, where it was made with one.",
        parse=validators.optional(validators.resource_name),
        default="",
        advanced=True,
        optional=True,
    )
    maintenance_exclusion_days: int = question(
        label="No upgrades for",
        help="Days from the cluster's creation in which GKE upgrades no node by itself; 0 leaves GKE free to.",
        parse=validators.integer(0, 180, unit="days"),
        default=0,
        kind="integer",
        unit="days",
        advanced=True,
    )
