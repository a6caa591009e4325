"""The world that a caller finds: its reservations.

Zones, machine types, accelerators and RoCE profiles are the catalogue's own.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.google.compute.reservations import add_reservation as seed_reservation
from grpo_wizard.steps.emulator.google.shared.fixtures import load_fixtures
from grpo_wizard.steps.emulator.server.context import ResourceStore


def add_reservations(world: ResourceStore, project: str = "my-project") -> None:
    """Puts the catalogue's reservations into a fresh world."""
    for one in load_fixtures()["reservations"]:
        seed_reservation(world, project, one["name"], one["zone"], one["machine"], one["count"])
