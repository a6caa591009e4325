"""The world that a caller finds: its reservations.

Zones, machine types, accelerators and RoCE profiles are the catalogue's own.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.google.compute.reservations import seed as seed_reservation
from grpo_wizard.steps.emulator.google.shared.fixtures import ground
from grpo_wizard.steps.emulator.server.context import World


def seed(world: World, project: str = "my-project") -> None:
    """Puts the catalogue's reservations into a fresh world."""
    for one in ground()["reservations"]:
        seed_reservation(world, project, one["name"], one["zone"], one["machine"], one["count"])
