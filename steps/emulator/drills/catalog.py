"""The drills by name: what happens, when it is felt, and which real failure each stands for. Data only, standard library only.

`inferred` says what of it nobody has recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Drill:
    """One trouble that can be rehearsed. Sentences for people; `source` is where the real one was seen."""

    name: str
    title: str
    happens: str
    felt: str
    mends: str  # what follows when it has ended
    source: str
    inferred: str = ""

    def to_json(self) -> dict[str, str]:
        """As JSON."""
        return asdict(self)


_GITHUB = "https://github.com/"
DRILL_CATALOG: tuple[Drill, ...] = (
    Drill(
        "stock-out",
        "The zone has no machines left",
        "Making a node pool ends after 35 minutes (divided by the speed) with GCE_STOCKOUT and leaves it in ERROR. "
        "Where the pool stands already, no new machine comes and the workers wait.",
        "when the GPU pool is made, or when the workers ask for machines; no check can see it before",
        "Apply again: the pool is deleted and made anew. Left alone it mends by itself after some ten minutes.",
        f"{_GITHUB}NVIDIA/aicr/issues/2764, {_GITHUB}NVIDIA/aicr/issues/2065",
        "that a pool of 0 nodes fails so too, and how long it takes to mend",
    ),
    Drill(
        "quota-short",
        "The CPU quota of the region is used up",
        "Others in the project use every CPU of the region's quotas: checks see none left, and making a cluster or pool "
        "is refused with the numbers.",
        "by check at once; when the cluster is made",
        "Apply again goes on.",
        f"{_GITHUB}kaiwaehner/hivemq-mqtt-tensorflow-kafka-realtime-iot-machine-learning-training-inference/issues/48",
    ),
    Drill(
        "reservation-gone",
        "The reservation is gone",
        "Somebody deleted the project's reservations: they are not found, and no machine comes from them. "
        "Machines that run already stay.",
        "by check at once; when the workers ask for machines",
        "Apply again goes on; an apply under way goes on by itself.",
        f"{_GITHUB}GoogleCloudPlatform/cluster-toolkit/pull/5043, {_GITHUB}AI-Hypercomputer/xpk/pull/1057",
        "the autoscaler's words for it",
    ),
    Drill(
        "api-disabled",
        "Kubernetes Engine's API is off",
        "Every call to container.googleapis.com is refused with SERVICE_DISABLED, although it was enabled: as in the "
        "minutes after that.",
        "at the next call to GKE; apply waits for it a quarter of an hour (divided by the speed)",
        "Apply again goes on; an apply that still waits goes on by itself.",
        f"{_GITHUB}terraform-google-modules/terraform-google-project-factory/issues/753",
    ),
    Drill(
        "org-policy",
        "Organisation policies forbid it",
        "compute.restrictVpcPeering forbids the peering that Lustre needs, compute.requireShieldedVm GKE's machines: "
        "what needs them ends with an error that names the constraint.",
        "by check at once; when the peering, the cluster or a pool is made",
        "Apply again goes on. A cluster that was left in ERROR is made anew only with --replace.",
        f"{_GITHUB}hashicorp-education/learn-terraform-provision-gke-cluster/issues/8, "
        f"{_GITHUB}GoogleCloudPlatform/terraform-google-secure-cicd/issues/70",
        "that a pool of 0 nodes is refused too",
    ),
    Drill(
        "no-quota-project",
        "The sign-in names no quota project",
        "Resource Manager, Cloud Quotas, Cloud Billing and Organisation Policy refuse a person's credentials that name no "
        "project to count their calls on; gcloud's own calls pass.",
        "by check at once",
        "gcloud auth application-default set-quota-project PROJECT, which is what ending the drill stands for.",
        "https://docs.cloud.google.com/docs/authentication/adc-troubleshooting/user-creds",
        "which APIs refuse besides Cloud Quotas",
    ),
    Drill(
        "token-expired",
        "The access token runs out",
        "Google refuses the token once with 401; the client fetches a new one by itself and goes on.",
        "at the next call to Google; nothing is to be seen but a short wait",
        "Nothing was lost.",
        f"{_GITHUB}hashicorp/terraform-provider-google/issues/8521",
    ),
    Drill(
        "expired-credentials",
        "The sign-in has expired",
        "Google and the cluster refuse the token with 401, and a new one is refused too (invalid_grant): only signing in "
        "again helps, which is what ending the drill stands for.",
        "at the next call",
        "Apply again goes on by looking.",
        f"{_GITHUB}hashicorp/terraform-provider-google/issues/8521",
    ),
    Drill(
        "lustre-mount",
        "Lustre cannot be mounted",
        "No new pod can mount the volume: the file system does not answer.",
        "when the Ray head starts",
        "The pods start by themselves.",
        f"{_GITHUB}GoogleCloudPlatform/lustre-csi-driver/issues/104",
    ),
    Drill(
        "image-gone",
        "The Ray image is gone from its registry",
        "Pods stay in ImagePullBackOff; nodes that have the image already keep it.",
        "when a node pulls the image",
        "The pods start by themselves.",
        f"{_GITHUB}NVIDIA/nim-deploy/issues/42",
    ),
    Drill(
        "pool-maximum",
        "The GPU pool is at its maximum",
        "The pool may have one node less than the workers need; one of them waits.",
        "when the workers ask for machines",
        "The last machine comes by itself.",
        f"{_GITHUB}kubernetes/autoscaler/issues/1607",
    ),
    Drill(
        "worker-preempted",
        "A worker's machine is taken back",
        "The cloud takes the first machine with a ready worker, and the zone has no other.",
        "when a worker is ready; later too",
        "A new machine and a new pod come by themselves.",
        f"{_GITHUB}ray-project/ray/pull/63364",
    ),
    Drill(
        "head-lost",
        "The Ray head's machine falls silent",
        "Its node is NotReady; the RayCluster still says ready.",
        "when the head is ready; later too",
        "The node posts again and the head is back.",
        f"{_GITHUB}ray-project/kuberay/issues/3388",
        "that the RayCluster goes on saying ready (its conditions latch)",
    ),
)
DRILL_NAMES = tuple(drill.name for drill in DRILL_CATALOG)


def unknown_drill_error(names: Iterable[str]) -> str:
    """One sentence about the first name that is no drill's; empty where all are known."""
    for name in names:
        if name not in DRILL_NAMES:
            meant = get_close_matches(name, DRILL_NAMES, 1)
            hint = f" (did you mean {meant[0]}?)" if meant else ""
            return f"No drill is called {name!r}{hint}; there are: {', '.join(DRILL_NAMES)}."
    return ""
