"""Load the handlers of all emulated services."""

from __future__ import annotations

import importlib
import pkgutil

from grpo_wizard.steps.emulator import external, google


def load_handlers() -> None:
    """Import every module of the service packages; modules register their handlers when imported."""
    for package in (google, external):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
