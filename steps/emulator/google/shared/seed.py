"""The initial state of the emulator."""

from __future__ import annotations

from grpo_wizard.steps.emulator.google.billing import accounts
from grpo_wizard.steps.emulator.google.resourcemanager import projects
from grpo_wizard.steps.emulator.google.serviceusage import services
from grpo_wizard.steps.emulator.google.shared import initial_reservations
from grpo_wizard.steps.emulator.server.context import ResourceStore

PROJECT, NUMBER = "my-project", "123456789012"
CALLER = "rehearsal-user@example.com"


def create_initial_state(world: ResourceStore) -> None:
    """Create project my-project (with billing and a new project's APIs) and the fixtures of Compute and GKE."""
    record = projects.add_project(world, PROJECT, NUMBER, CALLER, name=PROJECT, hidden=True)
    record.extra["billing"] = accounts.ACCOUNT
    services.add_default_apis(world, PROJECT)
    initial_reservations.add_reservations(world)
