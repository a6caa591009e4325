"""Provisioning models: where GPU machines come from, and what each model needs of the node pool and the pods."""

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
    """One provisioning model.

    `price`, `waiting` and `preemption` are one clause each, with their `source`. `quota_id` is the Cloud Quotas
    quota that it counts against, `node_label` the label that GKE sets on such nodes, `min_gke_version` the
    oldest GKE version that supports it.
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
    billed_at_list_price: bool = True  # False: the machine's list price is not what it costs

    @property
    def description(self) -> str:
        return f"price: {self.price}; waiting time: {self.waiting}; preemption: {self.preemption}"


_PREEMPTIBLE = "PREEMPTIBLE-GPUS-PER-GPU-FAMILY-per-project-region"
PROVISIONING_MODELS: Mapping[str, ProvisioningModel] = {
    "reservation": ProvisioningModel(
        "billed through the reservation until it ends, whether used or not",
        "none while the reservation has free machines",
        "none until the reservation ends",
        "https://cloud.google.com/compute/docs/instances/reservations-overview, as of 2026-06",
    ),
    "flex_start": ProvisioningModel(
        "Dynamic Workload Scheduler price, below the list price, billed only while machines are running",
        "queued until machines are available, which can take minutes to days",
        "machines are stopped after at most seven days and are not repaired",
        "https://cloud.google.com/kubernetes-engine/docs/concepts/dws, as of 2026-11",
        _PREEMPTIBLE,
        {"flexStart": True, "reservationAffinity": _NONE},
        auto_repair=False,
        node_label="cloud.google.com/gke-flex-start",
        min_gke_version="1.32.2-gke.1652000",
        billed_at_list_price=False,
    ),
    "spot": ProvisioningModel(
        "current spot price, about 40% to 50% below the list price, billed only while machines are running",
        "none, unless there is a stockout",
        "machines can be preempted at any time with 30 seconds' notice, and the run resumes from its last checkpoint",
        "https://cloud.google.com/compute/docs/instances/spot; prices as of 2026-10-13",
        _PREEMPTIBLE,
        {"spot": True},
        node_label="cloud.google.com/gke-spot",
        billed_at_list_price=False,
    ),
    "on_demand": ProvisioningModel(
        "list price, billed only while machines are running",
        "none, but stockouts are common because these machines are rarely available without a reservation",
        "none",
        "https://cloud.google.com/compute/all-pricing",
    ),
}
CHOICES = tuple(PROVISIONING_MODELS)


def provisioning_model(answers: Answers) -> ProvisioningModel:
    return PROVISIONING_MODELS[answers.quotas.capacity]


def is_reserved(answers: Answers) -> bool:
    return bool(answers.quotas.capacity == "reservation")


def pool_config(answers: Answers) -> dict[str, object]:
    """Return the part of the node pool's config that selects the model, as GKE JSON."""
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
    """Return the reservation as a node pool's `reservationAffinity` expects it."""
    return affinity_value(answers.quotas.reservation, answers.project.project_id)


def pool_flags(answers: Answers) -> list[tuple[str, object]]:
    """Return the gcloud flags that select the model."""
    chosen = answers.quotas.capacity
    if is_reserved(answers):
        return [("reservation-affinity", "specific"), ("reservation", reservation_affinity(answers))]
    if chosen == "flex_start":
        return [("flex-start", True), ("reservation-affinity", "none"), ("no-enable-autorepair", True)]
    return [("spot", True)] if chosen == "spot" else []


def node_selector(answers: Answers) -> dict[str, str]:
    """Return the node selector that keeps workers off other node pools with the same GPU."""
    label = provisioning_model(answers).node_label
    return {label: "true"} if label else {}


def tolerations(answers: Answers) -> list[dict[str, str]]:
    """Return tolerations for the taint that Google recommends for such nodes (key: the node label)."""
    label = provisioning_model(answers).node_label
    return [{"key": label, "operator": "Exists"}] if label else []
