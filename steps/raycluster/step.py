"""Step 6, RayCluster: the token Secret, the head and the GPU workers, and their network policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core.model import DurationEstimate, Resource, Step
from grpo_wizard.steps.gcp.naming import gcloud_command, resource_id
from grpo_wizard.steps.manifests import access
from grpo_wizard.steps.manifests.fluentbit import fluentbit_config
from grpo_wizard.steps.manifests.multinetwork import device_names
from grpo_wizard.steps.manifests.raycluster import raycluster
from grpo_wizard.steps.manifests.storage import PVC_NAME
from grpo_wizard.steps.raycluster.answers import RayclusterAnswers
from grpo_wizard.steps.raycluster.checks import CHECKS

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _kubernetes_objects(answers: Answers) -> list[tuple[str, dict[str, Any]]]:
    """(kind, manifest) of every object that the RayCluster depends on."""
    objects = [
        ("secret", access.token_secret(answers)),
        ("configmap", access.release_config_map(answers)),
        ("service_account", access.service_account(answers)),
        ("role", access.role(answers)),
        ("role_binding", access.role_binding(answers)),
    ]
    objects += (
        [("network_policy", access.network_policy(answers))] if answers.raycluster.network_policy else []
    )
    return objects + ([("configmap", fluentbit_config(answers))] if answers.raycluster.fluentbit else [])


def _namespace(name: str, parent: Mapping[str, str], cluster: str) -> list[Resource]:
    if name == "default":
        return []
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return [
        Resource(
            step="raycluster",
            kind="namespace",
            name=name,
            spec=manifest,
            parent=parent,
            depends_on=(cluster,),
            command=f"kubectl create namespace {name}",
        )
    ]


def _log_writers(answers: Answers) -> list[Resource]:
    """The roles that let fluent-bit write logs. With Workload Identity Federation it acts as its pod's ServiceAccount: the head has its own, the workers use the default one."""
    if not answers.raycluster.fluentbit:
        return []
    return [
        _log_writer(answers, account, who)
        for account, who in ((access.service_account_name(answers), "head"), ("default", "workers"))
    ]


def _log_writer(answers: Answers, account: str, who: str) -> Resource:
    project, role = answers.project, "roles/logging.logWriter"
    member = f"principal://KSA/{answers.raycluster.namespace}/{account}"
    return Resource(
        step="raycluster",
        kind="iam_binding",
        name=f"{role}/{who}",
        spec={"role": role, "member": member},
        parent={"project": project.project_id},
        depends_on=(resource_id("project", "api", "cloudresourcemanager.googleapis.com"),),
        command=gcloud_command(
            "projects add-iam-policy-binding", {"member": member, "role": role}, project.project_id
        ),
        retain_on_destroy=True,
        note="kept by destroy because other workloads may use it",
    )


def _resources(answers: Answers) -> Sequence[Resource]:
    project, ray = answers.project, answers.raycluster
    cluster_parent = {
        "project": project.project_id,
        "location": project.region,
        "cluster": answers.cluster.cluster_name,
    }
    cluster = resource_id("cluster", "cluster", answers.cluster.cluster_name)
    namespace = _namespace(ray.namespace, cluster_parent, cluster)
    parent = cluster_parent | {"namespace": ray.namespace}
    base = (cluster, *(r.id for r in namespace))
    objects = [
        Resource(
            step="raycluster",
            kind=kind,
            name=body["metadata"]["name"],
            spec=body,
            parent=parent,
            depends_on=base,
            command=f"kubectl apply -f {kind}.yaml",
        )
        for kind, body in _kubernetes_objects(answers)
    ]
    needs = (
        *(r.id for r in objects),
        resource_id("lustre", "pvc", PVC_NAME),
        resource_id("cluster", "node_pool", answers.cluster.gpu_pool),
        resource_id("cluster", "daemonset", "nccl-rdma-installer"),
        *(resource_id("cluster", "device_network", name) for name in device_names()),
    )
    cluster_object = Resource(
        step="raycluster",
        kind="raycluster",
        name=ray.raycluster_name,
        spec=raycluster(answers),
        parent=parent,
        depends_on=needs,
        command="kubectl apply -f raycluster.yaml",
        expected_duration=DurationEstimate(
            300,
            1800,
            "4 to 35 minutes for the nodes: https://github.com/NVIDIA/aicr/issues/2764; there is no published figure for the image pull",
        ),
        note=f"the head starts first, then {_count_workers(answers.quotas.gpu_nodes)}; "
        + format_release_note(answers),
        adopt_paths=("spec.workerGroupSpecs",),
    )
    return [*namespace, *objects, *_log_writers(answers), cluster_object]


def _count_workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"


def format_release_note(answers: Answers) -> str:
    """What happens to the GPU nodes after the job, in one clause."""
    job = answers.grpo
    limit = f"{job.max_hours:g} h at the latest" if job.max_hours else ""
    if job.after_job == "keep":
        return "the GPU nodes will be kept after the job" + (f" but released after {limit}" if limit else "")
    released = f"released {job.release_minutes:g} min after the job ends" + (
        f" or after {limit}" if limit else ""
    )
    return f"the GPU nodes will be {released} (a reservation will still be billed)"


STEP = Step(
    answers=RayclusterAnswers,
    title="RayCluster",
    purpose="The Ray head and its GPU workers.",
    checks=CHECKS,
    resources=_resources,
)
