"""Step 2, Quotas and reservation: which machines, how many, and who has kept them. Creates nothing; the GPU pool uses it."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_wizard.steps.core import catalog, validators
from grpo_wizard.steps.core.model import Answers, Field, Resource, Step
from grpo_wizard.steps.gcp import provisioning
from grpo_wizard.steps.gcp.reservations import validate_reservation
from grpo_wizard.steps.quotas.checks import CHECKS

_GPUS = tuple(catalog.load("machines")["gpus"])


def _machine_types(answers: Answers) -> str:
    return str(catalog.gpu_spec(answers["quotas"]["gpu_type"])["machine_types"][0])


FIELDS = (
    Field(
        "gpu_type",
        "GPU",
        "The accelerator that you have reserved.",
        validators.choice(_GPUS),
        "nvidia-b200",
        env=("GPU_TYPE",),
        kind="choice",
        choices=_GPUS,
    ),
    Field(
        "machine_type",
        "Machine type",
        "Eight of these GPUs in one machine.",
        validators.choice([m for g in _GPUS for m in catalog.gpu_spec(g)["machine_types"]]),
        _machine_types,
        env=("MACHINE_TYPE",),
        kind="choice",
        choices=tuple(m for g in _GPUS for m in catalog.gpu_spec(g)["machine_types"]),
    ),
    Field(
        "gpu_nodes",
        "GPU nodes",
        "Machines with eight GPUs each; also the pool's maximum.",
        validators.integer(1, 64),
        2,
        env=("REPLICA_COUNT",),
        kind="integer",
    ),
    Field(
        "capacity",
        "Capacity",
        "Where the machines come from: a reservation; flex_start queues for them; spot may lose them; on_demand has no promise.",
        validators.choice(provisioning.CHOICES),
        "reservation",
        kind="choice",
        choices=provisioning.CHOICES,
    ),
    Field(
        "reservation",
        "Reservation",
        "Its name, or projects/P/reservations/N, …/reservationBlocks/B.",
        validators.optional(validate_reservation),
        lambda a: None if a["quotas"]["capacity"] == "reservation" else "",
        env=("RESERVATION",),
        choices_from="reservations",
        shown_when=lambda a: bool(a["quotas"]["capacity"] == "reservation"),
    ),
)


def _resources(answers: Answers) -> Sequence[Resource]:
    return []


STEP = Step(
    "quotas",
    "Quotas and reservation",
    "Which machines, and who has kept them for you.",
    FIELDS,
    CHECKS,
    _resources,
)
