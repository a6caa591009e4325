"""Where the GPU machines come from: four ways, what each means, and what it asks of the node pool and of the pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_wizard.steps.core.model import Answers
from grpo_wizard.steps.gcp.reservations import affinity_value

_NONE = {"consumeReservationType": "NO_RESERVATION"}


@dataclass(frozen=True)
class Capacity:
    """One way. `price`, `waiting` and `loss` are one clause each; `quota` is the Cloud Quotas id that it counts against.

    `label` is what GKE writes on such nodes; `floor` the GKE version that it needs, with `source`.
    """

    price: str
    waiting: str
    loss: str
    source: str
    quota: str = "GPUS-PER-GPU-FAMILY-per-project-region"
    config: Mapping[str, Any] = field(default_factory=dict)
    repair: bool = True
    label: str = ""
    floor: str = ""
    list_price: bool = True  # whether the list price of the machine is what it costs

    @property
    def meaning(self) -> str:
        return f"price: {self.price}; waiting: {self.waiting}; loss: {self.loss}"


_PREEMPTIBLE = "PREEMPTIBLE-GPUS-PER-GPU-FAMILY-per-project-region"
CAPACITIES: Mapping[str, Capacity] = {
    "reservation": Capacity(
        "billed by the reservation, used or not, until it ends",
        "none while it has machines free",
        "none before it ends",
        "Compute Engine reservations (google-cloud.md 3.5, read 2026-06)",
    ),
    "flex_start": Capacity(
        "Dynamic Workload Scheduler's, below the list price; only while machines run",
        "queued until machines come free, minutes to days",
        "machines end after seven days at the latest, and are not repaired",
        "https://cloud.google.com/kubernetes-engine/docs/concepts/dws, read 2026-11",
        _PREEMPTIBLE,
        {"flexStart": True, "reservationAffinity": _NONE},
        repair=False,
        label="cloud.google.com/gke-flex-start",
        floor="1.32.2-gke.1652000",
        list_price=False,
    ),
    "spot": Capacity(
        "the spot price of the day, about 40 to 50 % below the list price; only while machines run",
        "none, or a stock-out",
        "machines may be taken back at any time, 30 s after a notice: the run goes on from its last checkpoint",
        "Compute Engine Spot VMs; prices google-cloud.md 3.7, stamped 2026-10-13",
        _PREEMPTIBLE,
        {"spot": True},
        label="cloud.google.com/gke-spot",
        list_price=False,
    ),
    "on_demand": Capacity(
        "the list price, only while machines run",
        "none, or a stock-out: these machines are rarely free without a reservation",
        "none",
        "Compute Engine on-demand machines",
    ),
}
CHOICES = tuple(CAPACITIES)


def capacity(answers: Answers) -> Capacity:
    return CAPACITIES[answers["quotas"]["capacity"]]


def is_reserved(answers: Answers) -> bool:
    return bool(answers["quotas"]["capacity"] == "reservation")


def pool_config(answers: Answers) -> dict[str, Any]:
    """What the node pool's config says of it, in GKE's JSON."""
    if not is_reserved(answers):
        return dict(capacity(answers).config)
    return {
        "reservationAffinity": {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [reservation(answers)],
        }
    }


def reservation(answers: Answers) -> str:
    """The value that a node pool takes."""
    return affinity_value(answers["quotas"]["reservation"], answers["project"]["project_id"])


def pool_flags(answers: Answers) -> list[tuple[str, object]]:
    """The same for gcloud."""
    chosen = answers["quotas"]["capacity"]
    if is_reserved(answers):
        return [("reservation-affinity", "specific"), ("reservation", reservation(answers))]
    if chosen == "flex_start":
        return [("flex-start", True), ("reservation-affinity", "none"), ("no-enable-autorepair", True)]
    return [("spot", True)] if chosen == "spot" else []


def node_selector(answers: Answers) -> dict[str, str]:
    """Keeps the workers on these nodes, should the cluster have others with the same GPU."""
    label = capacity(answers).label
    return {label: "true"} if label else {}


def tolerations(answers: Answers) -> list[dict[str, str]]:
    """Administrators taint such nodes with their own label, as Google's pages advise."""
    label = capacity(answers).label
    return [{"key": label, "operator": "Exists"}] if label else []
