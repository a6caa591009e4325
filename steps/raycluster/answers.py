"""Questions and answers of step 6, RayCluster."""

from __future__ import annotations

from grpo_wizard.steps.core import validators
from grpo_wizard.steps.core.answers import StepAnswers, question

_image = validators.text(
    r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?",
    "must be a container image such as nvcr.io/nvidia/nemo-rl:v0.5.0",
)


class RayclusterAnswers(StepAnswers, step="raycluster"):
    """The Ray head and its GPU workers."""

    raycluster_name: str = question(
        label="RayCluster",
        help="The name of the RayCluster in Kubernetes.",
        parse=validators.cluster_name,
        default="ray-cluster-kuberay",
    )
    namespace: str = question(
        label="Namespace",
        help="The Kubernetes namespace for the Ray pods.",
        parse=validators.kubernetes_name,
        default="default",
        env=("NAMESPACE",),
    )
    image: str = question(
        label="Image",
        help="The NeMo RL container image. The supported version is v0.5.0.",
        parse=_image,
        default="nvcr.io/nvidia/nemo-rl:v0.5.0",
    )
    rdma_interfaces: bool = question(
        label="RDMA interfaces",
        help="Attach the gVNIC and the eight RDMA interfaces to the worker pods.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    network_policy: bool = question(
        label="NetworkPolicy",
        help="Allow only this RayCluster's own pods to connect to its pods.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    overwrite_container_cmd: bool = question(
        label="Custom start command",
        help="Prevent KubeRay from rewriting the start script, because KubeRay's version prints every environment variable.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    fluentbit: bool = question(
        label="Ship logs",
        help="Run a fluent-bit sidecar that sends Ray's logs to Cloud Logging.",
        parse=validators.switch,
        default=False,
        kind="switch",
        advanced=True,
    )
