"""The deliberate differences from Google's tutorial: one table for Review, `plan` and `export`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.answers import AnswerValue, fields_read

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference, with what the tutorial does and why that fails.

    `answer` reads the answer that controls it, and `tutorial_value` turns it off; None: it cannot be turned off.
    `resource_kinds` are the `step.kind` of the resources that it changes; empty if it changes how the wizard works.
    """

    name: str
    what: str
    why: str
    answer: Callable[[Answers], AnswerValue] | None = None
    tutorial_value: AnswerValue = ""
    resource_kinds: tuple[str, ...] = ()

    @property
    def opt_out(self) -> tuple[str, AnswerValue] | None:
        """(step.field, the tutorial's value) that turns it off."""
        if self.answer is None:
            return None
        [key] = fields_read(self.answer)
        return key, self.tutorial_value

    def is_enabled(self, answers: Answers) -> bool:
        """Raises NotAnswered if it depends on a missing answer."""
        return self.answer is None or self.answer(answers) != self.tutorial_value

    @property
    def opt_out_setting(self) -> str | None:
        """The setting that turns it off, as `--set` accepts it, for example `networks.mtu=0`."""
        if self.opt_out is None:
            return None
        value = self.opt_out[1]
        return f"{self.opt_out[0]}={str(value).lower() if isinstance(value, bool) else value}"


_PODS = "raycluster.raycluster"

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        name="one_cpu_node",
        what="one CPU node, in the same zone as the GPU nodes",
        why="the tutorial's node count applies to each of three zones, but the Ray head needs only one node",
        answer=lambda a: a.cluster.one_cpu_node,
        tutorial_value=False,
        resource_kinds=("cluster.cluster",),
    ),
    Difference(
        name="gke_version",
        what="GKE 1.35 instead of the release channel's default",
        why="the tutorial does not set a version, but RDMA and Lustre each require a minimum version",
        answer=lambda a: a.cluster.version,
        tutorial_value="",
        resource_kinds=("cluster.cluster",),
    ),
    Difference(
        name="mtu",
        what="MTU 8896 on the cluster's network",
        why="the tutorial keeps the default of 1460, but Managed Lustre is about 10% faster with jumbo frames",
        answer=lambda a: a.networks.mtu,
        tutorial_value=0,
        resource_kinds=("networks.network",),
    ),
    Difference(
        name="narrow_firewall",
        what="the gVNIC firewall rule allows traffic only from its own subnet",
        why="the tutorial's rule for 192.168.0.0/16 also covers the RDMA ranges, where such a rule has no effect",
        answer=lambda a: a.networks.narrow_firewall,
        tutorial_value=False,
        resource_kinds=("networks.firewall",),
    ),
    Difference(
        name="lustre_firewall",
        what="a firewall rule that allows the Lustre port only from the Lustre range",
        why="the tutorial does not create one, so mounting depends on rules created elsewhere",
        answer=lambda a: a.lustre.firewall,
        tutorial_value=False,
        resource_kinds=("lustre.firewall",),
    ),
    Difference(
        name="lustre_port",
        what="Lustre on port 988 instead of the legacy port",
        why="both legacy flags in the tutorial are deprecated and tie the cluster and the instance to port 6988",
        answer=lambda a: a.lustre.legacy_port,
        tutorial_value=True,
        resource_kinds=("cluster.cluster", "lustre.lustre"),
    ),
    Difference(
        name="rdma_interfaces",
        what="worker pods request the gVNIC and the eight RDMA interfaces",
        why="the tutorial's chart drops the annotations, so its pods have no RDMA interfaces",
        answer=lambda a: a.raycluster.rdma_interfaces,
        tutorial_value=False,
        resource_kinds=(_PODS,),
    ),
    Difference(
        name="own_start_command",
        what="the annotation ray.io/overwrite-container-cmd, so that the start script runs as written",
        why="without it, KubeRay flattens the script, drops `set -e` and prints every variable to the log",
        answer=lambda a: a.raycluster.overwrite_container_cmd,
        tutorial_value=False,
        resource_kinds=(_PODS,),
    ),
    Difference(
        name="network_policy",
        what="only the RayCluster's own pods may connect to its pods",
        why="Ray accepts jobs from anyone who can connect to it, and the tutorial has no NetworkPolicy",
        answer=lambda a: a.raycluster.network_policy,
        tutorial_value=False,
        resource_kinds=("raycluster.network_policy",),
    ),
    Difference(
        name="fluentbit_off",
        what="logs are shipped only if requested",
        why="the tutorial always runs fluent-bit, but without the role that it needs to write logs",
        answer=lambda a: a.raycluster.fluentbit,
        tutorial_value=True,
        resource_kinds=(_PODS,),
    ),
    Difference(
        name="fluentbit_pinned",
        what="a pinned version of fluent-bit with its own IAM role that reads Ray's log folder but skips runtime_env files",
        why="the tutorial runs fluent-bit:latest without a Google identity and mounts an empty folder on the head",
        resource_kinds=(_PODS, "raycluster.configmap", "raycluster.iam_binding"),
    ),
    Difference(
        name="final_number_answers",
        what="gold answers are the numbers after ####",
        why="with the tutorial's raw answer column, every reward is 0 and the model learns nothing",
        answer=lambda a: a.grpo.final_number_answers,
        tutorial_value=False,
        resource_kinds=("grpo.job",),
    ),
    Difference(
        name="ownership_marks",
        what="every resource is labelled with the deployment ID",
        why="the tutorial identifies its resources only by name and cannot distinguish them from other resources",
        answer=lambda a: a.project.ownership_marks,
        tutorial_value=False,
        resource_kinds=(
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
        name="owned_cleanup",
        what="cleanup deletes only what this deployment created",
        why="the tutorial's filter network:NAME also matches rules in other networks, and its cleanup loops may never end",
    ),
    Difference(
        name="shared_peering",
        what="cleanup removes only this deployment's range from the peering",
        why="the tutorial deletes the entire connection while Lustre may still be using it",
        resource_kinds=("lustre.peering",),
    ),
    Difference(
        name="release_after_job",
        what="GPU nodes are released after the job ends",
        why="the tutorial keeps them until they are deleted manually",
        answer=lambda a: a.grpo.after_job,
        tutorial_value="keep",
        resource_kinds=(
            _PODS,
            "raycluster.configmap",
            "raycluster.service_account",
            "raycluster.role",
            "raycluster.role_binding",
        ),
    ),
    Difference(
        name="time_limit",
        what="the job is always stopped after a time limit",
        why="if a run hangs in the tutorial, its GPU nodes are billed indefinitely",
        answer=lambda a: a.grpo.max_hours,
        tutorial_value=0,
        resource_kinds=(_PODS,),
    ),
    Difference(
        name="missing_apis",
        what="all required APIs are enabled first",
        why="the tutorial enables only three, so creating the peering or Lustre fails",
        resource_kinds=("project.api",),
    ),
    Difference(
        name="secrets_as_files",
        what="tokens are stored in one Kubernetes Secret and mounted as files",
        why="the tutorial's script prints them, and environment variables appear in Ray's state API and logs",
        resource_kinds=("raycluster.secret", _PODS),
    ),
    Difference(
        name="ray_job",
        what="the run is submitted as a Ray job",
        why="the tutorial's kubectl exec ends when the terminal closes and leaves no record of the result",
        resource_kinds=("grpo.job",),
    ),
    Difference(
        name="no_git_pull",
        what="the head and the workers run the code in the image",
        why="the tutorial pulls main on the head only, but main no longer contains its script",
        resource_kinds=("grpo.job",),
    ),
    Difference(
        name="resume_guard",
        what="a checkpoint folder that already contains the final step is reported before the job starts",
        why="when run again, the tutorial sets everything up, trains no steps and reports success",
        resource_kinds=("grpo.job",),
    ),
    Difference(
        name="hf_home",
        what="models and data are cached on Lustre",
        why="the tutorial caches them on local disks, so every node downloads them and they are lost with the pod",
        resource_kinds=("grpo.job",),
    ),
    Difference(
        name="h200_boot_disk",
        what="H200 nodes boot from hyperdisk-balanced",
        why="their machine type supports no other boot disk type, but the tutorial's command does not set one",
        answer=lambda a: a.cluster.gpu_boot_disk,
        tutorial_value="",
        resource_kinds=("cluster.node_pool",),
    ),
    Difference(
        name="gpu_follows",
        what="the node selector and the NCCL tuner match the selected GPU",
        why="the tutorial's chart is hard-coded for B200, so H200 workers stay Pending",
        resource_kinds=(_PODS,),
    ),
    Difference(
        name="no_installs",
        what="no packages are installed when a pod starts",
        why="the tutorial's apt-get and pip commands need network access at every start and fail in this image",
        resource_kinds=(_PODS,),
    ),
    Difference(
        name="wait_for_gib",
        what="an init container waits up to 15 minutes for the NCCL plug-in and the GPU driver",
        why="both are still being installed when the worker starts on a new node, so it would run without them",
        resource_kinds=(_PODS,),
    ),
    Difference(
        name="worker_limit",
        what="at most one worker per GPU node",
        why="the tutorial's chart sets no limit, so surplus replicas stay Pending",
        resource_kinds=(_PODS,),
    ),
    Difference(
        name="no_unused_volume",
        what="no unused in-memory volume",
        why="the tutorial's chart gives each worker a second in-memory volume that nothing mounts",
        resource_kinds=(_PODS,),
    ),
    Difference(
        name="pull_if_absent",
        what="images are pulled only if they are not already present",
        why="the tutorial pulls a very large image again on every restart",
        resource_kinds=(_PODS,),
    ),
)


def rows(answers: Answers) -> list[dict[str, str | bool | None]]:
    """Return the table for these answers: name, what, why, on, and switch (`step.field=value` turns it off)."""
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


def opt_out_answers() -> dict[str, dict[str, AnswerValue]]:
    """Return answers that turn off every difference that can be turned off."""
    answers: dict[str, dict[str, AnswerValue]] = {}
    for difference in DIFFERENCES:
        if difference.opt_out is not None:
            step, _, field = difference.opt_out[0].partition(".")
            answers.setdefault(step, {})[field] = difference.opt_out[1]
    return answers


def differences_for(answers: Answers, step: str, kind: str) -> Iterator[Difference]:
    """Yield the enabled differences that change resources of this step and kind."""
    for difference in DIFFERENCES:
        if f"{step}.{kind}" in difference.resource_kinds and difference.is_enabled(answers):
            yield difference
