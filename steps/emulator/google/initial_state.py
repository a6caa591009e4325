"""The initial state of the emulator."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import ResourceStore
from grpo_wizard.steps.emulator.google.billing import accounts
from grpo_wizard.steps.emulator.google.compute import initial_reservations
from grpo_wizard.steps.emulator.google.resourcemanager import projects
from grpo_wizard.steps.emulator.google.serviceusage import services

PROJECT, NUMBER = "my-project", "123456789012"
CALLER = "rehearsal-user@example.com"


def create_initial_state(store: ResourceStore) -> None:
    """Create project my-project (with billing and a new project's APIs) and the fixtures of Compute and GKE."""
    record = projects.add_project(store, PROJECT, NUMBER, CALLER, name=PROJECT, hidden=True)
    record.extra["billing"] = accounts.ACCOUNT
    services.add_default_apis(store, PROJECT)
    initial_reservations.add_reservations(store)
