"""Where the GPU machines come from: four ways, what each means, and what it asks of the node pool and of the pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.gcp.reservations import affinity_value

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_NONE = {"consumeReservationType": "NO_RESERVATION"}


@dataclass(frozen=True)
class ProvisioningModel:
    """One way. `price`, `waiting` and `loss` are one clause each; `quota` is the Cloud Quotas id that it counts against.

    `label` is what GKE writes on such nodes; `floor` the GKE version that it needs, with `source`.
    """

    price: str
    waiting: str
    preemption: str
    source: str
    quota_id: str = "GPUS-PER-GPU-FAMILY-per-project-region"
    node_config: Mapping[str, Any] = field(default_factory=dict)
    auto_repair: bool = True
    node_label: str = ""
    min_gke_version: str = ""
    billed_at_list_price: bool = True  # whether the list price of the machine is what it costs

    @property
    def description(self) -> str:
        return f"price: {self.price}; waiting: {self.waiting}; loss: {self.preemption}"


_PREEMPTIBLE = "PREEMPTIBLE-GPUS-PER-GPU-FAMILY-per-project-region"
PROVISIONING_MODELS: Mapping[str, ProvisioningModel] = {
    "reservation": ProvisioningModel(
        "billed by the reservation, used or not, until it ends",
        "none while it has machines free",
        "none before it ends",
        "Compute Engine reservations (google-cloud.md 3.5, read 2026-06)",
    ),
    "flex_start": ProvisioningModel(
        "Dynamic Workload Scheduler's, below the list price; only while machines run",
        "queued until machines come free, minutes to days",
        "machines end after seven days at the latest, and are not repaired",
        "https://cloud.google.com/kubernetes-engine/docs/concepts/dws, read 2026-11",
        _PREEMPTIBLE,
        {"flexStart": True, "reservationAffinity": _NONE},
        auto_repair=False,
        node_label="cloud.google.com/gke-flex-start",
        min_gke_version="1.32.2-gke.1652000",
        billed_at_list_price=False,
    ),
    "spot": ProvisioningModel(
        "the spot price of the day, about 40 to 50 % below the list price; only while machines run",
        "none, or a stock-out",
        "machines may be taken back at any time, 30 s after a notice: the run goes on from its last checkpoint",
        "Compute Engine Spot VMs; prices google-cloud.md 3.7, stamped 2026-10-13",
        _PREEMPTIBLE,
        {"spot": True},
        node_label="cloud.google.com/gke-spot",
        billed_at_list_price=False,
    ),
    "on_demand": ProvisioningModel(
        "the list price, only while machines run",
        "none, or a stock-out: these machines are rarely free without a reservation",
        "none",
        "Compute Engine on-demand machines",
    ),
}
CHOICES = tuple(PROVISIONING_MODELS)


def provisioning_model(answers: Answers) -> ProvisioningModel:
    return PROVISIONING_MODELS[answers.quotas.capacity]


def is_reserved(answers: Answers) -> bool:
    return bool(answers.quotas.capacity == "reservation")


def pool_config(answers: Answers) -> dict[str, Any]:
    """What the node pool's config says of it, in GKE's JSON."""
    if not is_reserved(answers):
        return dict(provisioning_model(answers).node_config)
    return {
        "reservationAffinity": {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [reservation_affinity(answers)],
        }
    }


def reservation_affinity(answers: Answers) -> str:
    """The value that a node pool takes."""
    return affinity_value(answers.quotas.reservation, answers.project.project_id)


def pool_flags(answers: Answers) -> list[tuple[str, object]]:
    """The same for gcloud."""
    chosen = answers.quotas.capacity
    if is_reserved(answers):
        return [("reservation-affinity", "specific"), ("reservation", reservation_affinity(answers))]
    if chosen == "flex_start":
        return [("flex-start", True), ("reservation-affinity", "none"), ("no-enable-autorepair", True)]
    return [("spot", True)] if chosen == "spot" else []


def node_selector(answers: Answers) -> dict[str, str]:
    """Keeps the workers on these nodes, should the cluster have others with the same GPU."""
    label = provisioning_model(answers).node_label
    return {label: "true"} if label else {}


def tolerations(answers: Answers) -> list[dict[str, str]]:
    """Administrators taint such nodes with their own label, as Google's pages advise."""
    label = provisioning_model(answers).node_label
    return [{"key": label, "operator": "Exists"}] if label else []
