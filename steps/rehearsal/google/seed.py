"""The world as it is before anybody has done anything."""

from __future__ import annotations

from ..contract import World
from . import cloudbilling, cloudresourcemanager, ground, serviceusage

PROJECT, NUMBER = "my-project", "123456789012"
CALLER = "rehearsal-user@example.com"


def seed(world: World) -> None:
    """Project my-project (billing on, a new project's APIs), and the ground that compute and GKE stand on."""
    record = cloudresourcemanager.add(world, PROJECT, NUMBER, CALLER, name=PROJECT, hidden=True)
    record.extra["billing"] = cloudbilling.ACCOUNT
    serviceusage.seed(world, PROJECT)
    ground.seed(world)
