"""What is deliberately done better than the tutorial.

One table that Review, `plan`, `export` and the README draw from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


@dataclass(frozen=True)
class Difference:
    """One row. `switch` is (step.field, the value that switches it off), None where there is no way back.

    `where` are the `step.kind` of the resources in which it shows; empty for what shows in how the
    wizard works.
    """

    name: str
    what: str
    why: str
    opt_out: tuple[str, Any] | None = None
    resource_kinds: tuple[str, ...] = ()

    def is_enabled(self, answers: Answers) -> bool:
        if self.opt_out is None:
            return True
        step, _, field = self.opt_out[0].partition(".")
        return bool(getattr(answers.of(step), field) != self.opt_out[1])

    @property
    def opt_out_setting(self) -> str | None:
        """As `--set` takes it, for instance `networks.mtu=0`."""
        if self.opt_out is None:
            return None
        value = self.opt_out[1]
        return f"{self.opt_out[0]}={str(value).lower() if isinstance(value, bool) else value}"


_PODS = "raycluster.raycluster"

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "one_cpu_node",
        "one CPU node, in the GPU nodes' zone",
        "in a regional cluster the tutorial's one node is one in each of three zones; one carries the head",
        ("cluster.one_cpu_node", False),
        ("cluster.cluster",),
    ),
    Difference(
        "gke_version",
        "GKE 1.35 instead of whatever the channel serves",
        "the tutorial names no version, and RDMA and Lustre each need a minimum",
        ("cluster.version", ""),
        ("cluster.cluster",),
    ),
    Difference(
        "mtu",
        "an MTU of 8896 in the cluster's network",
        "the tutorial leaves 1460; Managed Lustre is about 10 % faster with large frames",
        ("networks.mtu", 0),
        ("networks.network",),
    ),
    Difference(
        "narrow_firewall",
        "the gVNIC rule admits its own subnet only",
        "the tutorial's 192.168.0.0/16 spans the RDMA ranges too, where such a rule cannot reach",
        ("networks.narrow_firewall", False),
        ("networks.firewall",),
    ),
    Difference(
        "lustre_firewall",
        "a firewall rule for Lustre's port, from its own range only",
        "the tutorial has none, so that mounting depends on rules that others made",
        ("lustre.firewall", False),
        ("lustre.firewall",),
    ),
    Difference(
        "lustre_port",
        "Lustre on port 988, without the legacy port",
        "both of the tutorial's flags are deprecated and hold cluster and instance to port 6988",
        ("lustre.legacy_port", True),
        ("cluster.cluster", "lustre.lustre"),
    ),
    Difference(
        "rdma_interfaces",
        "worker pods ask for the gVNIC and the eight RDMA cards",
        "the tutorial's chart drops the annotations, so that its pods have no RDMA card",
        ("raycluster.rdma_interfaces", False),
        (_PODS,),
    ),
    Difference(
        "own_start_command",
        "annotation ray.io/overwrite-container-cmd: our start script runs as it is written",
        "without it KubeRay flattens the script, loses `set -e` and prints every variable to the log",
        ("raycluster.overwrite_container_cmd", False),
        (_PODS,),
    ),
    Difference(
        "network_policy",
        "only the RayCluster's own pods may reach its pods",
        "Ray takes jobs from anyone in the cluster who can reach it; the tutorial has no policy",
        ("raycluster.network_policy", False),
        ("raycluster.network_policy",),
    ),
    Difference(
        "fluentbit_off",
        "logs are not shipped unless asked for",
        "the tutorial always ships them, without the role that lets fluent-bit write",
        ("raycluster.fluentbit", True),
        (_PODS,),
    ),
    Difference(
        "fluentbit_pinned",
        "a pinned fluent-bit with its role, that reads where Ray writes and leaves runtime_env files alone",
        "the tutorial takes :latest, gives it no Google identity, and shows it an empty folder on the head",
        None,
        (_PODS, "raycluster.configmap", "raycluster.iam_binding"),
    ),
    Difference(
        "final_number_answers",
        "gold answers are the numbers behind ####",
        "with the tutorial's raw answer column every reward is 0 and nothing is learned",
        ("grpo.final_number_answers", False),
        ("grpo.job",),
    ),
    Difference(
        "ownership_marks",
        "everything bears this deployment's mark",
        "the tutorial knows its things by name only, and so cannot tell them from somebody else's",
        ("project.ownership_marks", False),
        (
            "networks.network",
            "networks.subnet",
            "networks.firewall",
            "lustre.address",
            "cluster.cluster",
            "cluster.node_pool",
            "lustre.lustre",
        ),
    ),
    Difference(
        "owned_cleanup",
        "clean-up deletes what this deployment made, and nothing else",
        "the tutorial's filter network:NAME also hits other networks' rules, and its loops may never end",
    ),
    Difference(
        "shared_peering",
        "clean-up takes only our range out of the peering",
        "the tutorial deletes the whole connection while Lustre may still use it",
        None,
        ("lustre.peering",),
    ),
    Difference(
        "release_after_job",
        "the GPU nodes go when the job has ended",
        "the tutorial keeps them until somebody remembers",
        ("grpo.after_job", "keep"),
        (
            _PODS,
            "raycluster.configmap",
            "raycluster.service_account",
            "raycluster.role",
            "raycluster.role_binding",
        ),
    ),
    Difference(
        "time_limit",
        "the job is stopped after a limit, whatever happens",
        "the tutorial's run may hang for ever on machines that cost",
        ("grpo.max_hours", 0),
        (_PODS,),
    ),
    Difference(
        "missing_apis",
        "all APIs that are used are enabled first",
        "the tutorial enables three and fails at Lustre or at the peering",
        None,
        ("project.api",),
    ),
    Difference(
        "secrets_as_files",
        "tokens are one Kubernetes Secret, mounted as files",
        "the tutorial's script echoes them; as environment they show in Ray's state API and logs",
        None,
        ("raycluster.secret", _PODS),
    ),
    Difference(
        "ray_job",
        "the run is a Ray job",
        "the tutorial's kubectl exec ends with the terminal, and nobody can ask how it went",
        None,
        ("grpo.job",),
    ),
    Difference(
        "no_git_pull",
        "the code is that of the image, on head and workers alike",
        "the tutorial pulls main on the head only, from which its script has been removed",
        None,
        ("grpo.job",),
    ),
    Difference(
        "resume_guard",
        "a folder that already holds the last step is said before the job starts",
        "run again, the tutorial sets everything up, takes no step and ends with success",
        None,
        ("grpo.job",),
    ),
    Difference(
        "hf_home",
        "models and data are kept on Lustre",
        "the tutorial keeps them on each node's own disk: downloaded on every node, lost with the pod",
        None,
        ("grpo.job",),
    ),
    Difference(
        "h200_boot_disk",
        "H200 nodes boot from hyperdisk-balanced",
        "their machine takes no other, and the tutorial's command names none",
        ("cluster.gpu_boot_disk", ""),
        ("cluster.node_pool",),
    ),
    Difference(
        "gpu_follows",
        "node selector and NCCL tuner follow the chosen GPU",
        "the tutorial's chart stays on B200, so that H200 workers stay Pending",
        None,
        (_PODS,),
    ),
    Difference(
        "no_installs",
        "nothing is installed when a pod starts",
        "the tutorial's apt-get and pip lines need the net at every start and fail on this image",
        None,
        (_PODS,),
    ),
    Difference(
        "wait_for_gib",
        "an init container waits, at most 15 minutes, for NCCL's plug-in and the driver",
        "both land on a new node at the same time as the worker, which would otherwise start without them",
        None,
        (_PODS,),
    ),
    Difference(
        "worker_limit",
        "at most as many workers as there are GPU nodes",
        "the tutorial's chart sets no limit: more replicas than machines stay Pending",
        None,
        (_PODS,),
    ),
    Difference(
        "no_unused_volume",
        "no second volume in memory that nothing mounts",
        "the tutorial's chart gives each worker one that it never uses",
        None,
        (_PODS,),
    ),
    Difference(
        "pull_if_absent",
        "images are pulled only where they are absent",
        "the tutorial pulls a very large image anew at each restart",
        None,
        (_PODS,),
    ),
)


def rows(answers: Answers) -> list[dict[str, Any]]:
    """The table for these answers: name, what, why, on, and switch (`step.field=value` turns it off)."""
    return [
        {
            "name": d.name,
            "what": d.what,
            "why": d.why,
            "on": d.is_enabled(answers),
            "switch": d.opt_out_setting,
        }
        for d in DIFFERENCES
    ]


def opt_out_answers() -> dict[str, dict[str, Any]]:
    """Answers that, laid over others, switch off all that can be."""
    answers: dict[str, dict[str, Any]] = {}
    for difference in DIFFERENCES:
        if difference.opt_out is not None:
            step, _, field = difference.opt_out[0].partition(".")
            answers.setdefault(step, {})[field] = difference.opt_out[1]
    return answers


def differences_for(answers: Answers, step: str, kind: str) -> Iterator[Difference]:
    """Differences that are on and show in resources of this step and kind."""
    for difference in DIFFERENCES:
        if f"{step}.{kind}" in difference.resource_kinds and difference.is_enabled(answers):
            yield difference
