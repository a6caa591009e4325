"""The reservations of the initial state, from the fixtures."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import ResourceStore
from grpo_wizard.steps.emulator.google.compute.reservations import add_reservation as seed_reservation
from grpo_wizard.steps.emulator.google.shared.fixtures import load_fixtures


def add_reservations(store: ResourceStore, project: str = "my-project") -> None:
    """Add the fixtures' reservations to the initial state."""
    for one in load_fixtures()["reservations"]:
        seed_reservation(store, project, one["name"], one["zone"], one["machine"], one["count"])
