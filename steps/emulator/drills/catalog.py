"""The drills by name: what happens, when it becomes visible, and which real failure each reproduces.

Data only, standard library only. `inferred` names what no public report confirms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Drill:
    """A failure that can be switched on in a rehearsal. `source` links reports of the real failure."""

    name: str
    title: str
    happens: str
    felt: str
    mends: str  # how to recover once the drill has ended
    source: str
    inferred: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the drill as JSON."""
        return asdict(self)


_GITHUB = "https://github.com/"
DRILL_CATALOG: tuple[Drill, ...] = (
    Drill(
        "stock-out",
        "Zone out of capacity",
        "Creating a node pool fails after 35 minutes (divided by --speed) with GCE_STOCKOUT and leaves the pool in the ERROR state. "
        "If the pool already exists, no new nodes are added and the workers stay pending.",
        "when the GPU pool is created, or when the workers need nodes; no check can detect it earlier",
        "Run apply again to delete and re-create the pool, or wait about ten minutes for it to recover.",
        f"{_GITHUB}NVIDIA/aicr/issues/2764, {_GITHUB}NVIDIA/aicr/issues/2065",
        "that a pool of 0 nodes fails in the same way, and how long recovery takes",
    ),
    Drill(
        "quota-short",
        "Regional CPU quota exhausted",
        "Other workloads in the project use up the region's entire CPU quota. Checks report that no CPUs are left, and "
        "creating a cluster or node pool fails with an error that states the numbers.",
        "during `check`; otherwise, when the cluster is created",
        "Run apply again to resume.",
        f"{_GITHUB}kaiwaehner/hivemq-mqtt-tensorflow-kafka-realtime-iot-machine-learning-training-inference/issues/48",
    ),
    Drill(
        "reservation-gone",
        "Reservation deleted",
        "The project's reservations have been deleted, so no new node can use them. "
        "Nodes that are already running are not affected.",
        "during `check`; otherwise, when the workers need nodes",
        "Run apply again to resume; an apply that is still running will continue on its own.",
        f"{_GITHUB}GoogleCloudPlatform/cluster-toolkit/pull/5043, {_GITHUB}AI-Hypercomputer/xpk/pull/1057",
        "the text of the autoscaler's event",
    ),
    Drill(
        "api-disabled",
        "Kubernetes Engine API disabled",
        "Every call to container.googleapis.com fails with SERVICE_DISABLED, as it does in the first few minutes after the "
        "API has been enabled.",
        "at the next call to GKE; apply will retry for 15 minutes (divided by --speed)",
        "Run apply again to resume; an apply that is still waiting will continue on its own.",
        f"{_GITHUB}terraform-google-modules/terraform-google-project-factory/issues/753",
    ),
    Drill(
        "org-policy",
        "Organization policies deny the deployment",
        "compute.restrictVpcPeering denies the peering that Lustre needs, and compute.requireShieldedVm denies the GKE nodes. "
        "Operations that need them fail with an error that names the constraint.",
        "during `check`; otherwise, when the peering, the cluster or a node pool is created",
        "Run apply again to resume. A cluster left in the ERROR state will be re-created only with --replace.",
        f"{_GITHUB}hashicorp-education/learn-terraform-provision-gke-cluster/issues/8, "
        f"{_GITHUB}GoogleCloudPlatform/terraform-google-secure-cicd/issues/70",
        "that a pool of 0 nodes is denied too",
    ),
    Drill(
        "no-quota-project",
        "Credentials without a quota project",
        "Resource Manager, Cloud Quotas, Cloud Billing and Organization Policy reject user credentials without a quota "
        "project. gcloud's own calls succeed.",
        "during `check`",
        "Run `gcloud auth application-default set-quota-project PROJECT`. Ending the drill has the same effect.",
        "https://docs.cloud.google.com/docs/authentication/adc-troubleshooting/user-creds",
        "which APIs besides Cloud Quotas reject such credentials",
    ),
    Drill(
        "token-expired",
        "Access token expired",
        "Google rejects the token once with a 401 error. The client fetches a new token and continues.",
        "at the next call to Google, as a short delay",
        "No action is needed; the client has already recovered.",
        f"{_GITHUB}hashicorp/terraform-provider-google/issues/8521",
    ),
    Drill(
        "expired-credentials",
        "Credentials expired",
        "Google and the cluster reject the token with a 401 error, and refreshing it fails (invalid_grant), "
        "so the user must sign in again. Ending the drill has the same effect as signing in.",
        "at the next call",
        "Run apply again to resume.",
        f"{_GITHUB}hashicorp/terraform-provider-google/issues/8521",
    ),
    Drill(
        "lustre-mount",
        "Lustre mount failure",
        "New pods cannot mount the volume because the file system is not responding.",
        "when the Ray head starts",
        "The pods will start on their own.",
        f"{_GITHUB}GoogleCloudPlatform/lustre-csi-driver/issues/104",
    ),
    Drill(
        "image-gone",
        "Ray image missing from its registry",
        "Pods stay in ImagePullBackOff. Nodes that have already pulled the image keep using it.",
        "when a node pulls the image",
        "The pods will start on their own.",
        f"{_GITHUB}NVIDIA/nim-deploy/issues/42",
    ),
    Drill(
        "pool-maximum",
        "GPU node pool at its maximum size",
        "The pool's maximum size is one node less than the workers need, so one worker stays pending.",
        "when the workers need nodes",
        "The last node will be added automatically.",
        f"{_GITHUB}kubernetes/autoscaler/issues/1607",
    ),
    Drill(
        "worker-preempted",
        "Worker node preempted",
        "The first node with a ready worker is preempted, and the zone has no capacity for another.",
        "as soon as a worker is ready, or at any later time",
        "A new node and a new pod will start on their own.",
        f"{_GITHUB}ray-project/ray/pull/63364",
    ),
    Drill(
        "head-lost",
        "Ray head node unreachable",
        "The head's node becomes NotReady, but the RayCluster's state stays ready.",
        "as soon as the head is ready, or at any later time",
        "The node will report its status again and the head will become ready.",
        f"{_GITHUB}ray-project/kuberay/issues/3388",
        "that the RayCluster's state stays ready (its conditions latch)",
    ),
)
DRILL_NAMES = tuple(drill.name for drill in DRILL_CATALOG)


def unknown_drill_error(names: Iterable[str]) -> str:
    """Return an error text for the first unknown name; empty where all are known."""
    for name in names:
        if name not in DRILL_NAMES:
            meant = get_close_matches(name, DRILL_NAMES, 1)
            hint = f" (did you mean {meant[0]}?)" if meant else ""
            return f"Unknown drill {name!r}{hint}. Available drills: {', '.join(DRILL_NAMES)}."
    return ""
