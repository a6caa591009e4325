"""Questions and answers of step 4, Cluster."""

from __future__ import annotations

from grpo_wizard.steps.core import catalog, validators
from grpo_wizard.steps.core.answers import StepAnswers, question

_CPU_MACHINES = tuple(catalog.load("machines")["cpu_machines"])
_VERSION = validators.text(
    r"1\.\d{2}(\.\d+(-gke\.\d+)?)?", "must be a version such as 1.35 or 1.35.2-gke.1842000"
)


class ClusterAnswers(StepAnswers, step="cluster"):
    """The GKE cluster and its two node pools."""

    cluster_name: str = question(
        label="Cluster",
        help="The name of the GKE cluster.",
        parse=validators.cluster_name,
        default="nemo-cluster",
        env=("CLUSTER_NAME",),
        choices_from="clusters",
    )
    cpu_machine_type: str = question(
        label="CPU machine type",
        help="Runs the Ray head, which requests 64 CPUs and 500 GB of memory.",
        parse=validators.choice(_CPU_MACHINES),
        default="n2-highmem-80",
        kind="choice",
        choices=_CPU_MACHINES,
    )
    cpu_max_nodes: int = question(
        label="Maximum CPU nodes",
        help="The CPU pool scales up to this many nodes in each of its zones.",
        parse=validators.integer(1, 100),
        default=5,
        kind="integer",
        advanced=True,
    )
    one_cpu_node: bool = question(
        label="One CPU node",
        help="Keep the CPU pool in one zone. Otherwise, a regional cluster starts one node in each of three zones.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    version: str = question(
        label="GKE version",
        help="1.35 selects the newest 1.35 patch. Empty: the release channel's default.",
        parse=validators.optional(_VERSION),
        default="1.35",
        choices_from="versions",
        advanced=True,
        optional=True,
    )
    gpu_pool: str = question(
        label="GPU pool",
        help="The node pool for the GPU machines.",
        parse=validators.cluster_name,
        default="gpu-pool",
        advanced=True,
    )
    gpu_boot_disk: str = question(
        label="GPU boot disk",
        help="Boot disk type for the GPU nodes. H200 machines support only hyperdisk-balanced. Empty: GKE's default.",
        parse=validators.optional(validators.choice(("hyperdisk-balanced", "pd-ssd", "pd-balanced"))),
        default=lambda a: catalog.gpu_spec(a.quotas.gpu_type)["boot_disk"],
        advanced=True,
        optional=True,
    )
    use_existing: bool = question(
        label="Use an existing cluster",
        help="Use the existing cluster with this name. It will never be changed or deleted.",
        parse=validators.switch,
        default=False,
        kind="switch",
        advanced=True,
    )
    node_service_account: str = question(
        label="Node service account",
        help="The service account for the nodes. If empty, the project's default service account is used.",
        parse=validators.optional(validators.service_account),
        default="",
        advanced=True,
        optional=True,
    )
    placement_policy: str = question(
        label="Placement policy",
        help="The reservation's placement policy, if it was created with one.",
        parse=validators.optional(validators.resource_name),
        default="",
        advanced=True,
        optional=True,
    )
    maintenance_exclusion_days: int = question(
        label="Maintenance exclusion",
        help="Number of days after cluster creation during which GKE will not upgrade nodes automatically. 0: none.",
        parse=validators.integer(0, 180, unit="days"),
        default=0,
        kind="integer",
        unit="days",
        advanced=True,
    )
