"""Questions and answers of step 2, Quotas and reservation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.steps.core import catalog, validators
from grpo_wizard.steps.core.answers import StepAnswers, question
from grpo_wizard.steps.gcp import provisioning
from grpo_wizard.steps.gcp.reservations import validate_reservation

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


_GPUS = tuple(catalog.load("machines")["gpus"])


def _machine_types(answers: Answers) -> str:
    return str(catalog.gpu_spec(answers.quotas.gpu_type)["machine_types"][0])


class QuotasAnswers(StepAnswers, step="quotas"):
    """The machines, how many, and where they come from."""

    gpu_type: str = question(
        label="GPU",
        help="The GPU type of the nodes.",
        parse=validators.choice(_GPUS),
        default="nvidia-b200",
        env=("GPU_TYPE",),
        kind="choice",
        choices=_GPUS,
    )
    machine_type: str = question(
        label="Machine type",
        help="The machine type with eight of these GPUs.",
        parse=validators.choice([m for g in _GPUS for m in catalog.gpu_spec(g)["machine_types"]]),
        default=_machine_types,
        env=("MACHINE_TYPE",),
        kind="choice",
        choices=tuple(m for g in _GPUS for m in catalog.gpu_spec(g)["machine_types"]),
    )
    gpu_nodes: int = question(
        label="GPU nodes",
        help="Number of machines with eight GPUs each; also the maximum size of the GPU pool.",
        parse=validators.integer(1, 64),
        default=2,
        env=("REPLICA_COUNT",),
        kind="integer",
    )
    capacity: str = question(
        label="Provisioning model",
        help="Where the machines come from: a reservation, flex_start (queued), spot (can be preempted) or on_demand (often unavailable).",
        parse=validators.choice(provisioning.CHOICES),
        default="reservation",
        kind="choice",
        choices=provisioning.CHOICES,
    )
    reservation: str = question(
        label="Reservation",
        help="The reservation's name, or projects/P/reservations/N, optionally with /reservationBlocks/B.",
        parse=validators.optional(validate_reservation),
        default=lambda a: None if a.quotas.capacity == "reservation" else "",
        env=("RESERVATION",),
        choices_from="reservations",
        shown_when=lambda a: bool(a.quotas.capacity == "reservation"),
    )
