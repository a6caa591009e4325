"""The emulated Google services, Hugging Face and W&B. Modules register their handlers when imported."""

from __future__ import annotations

import importlib
import pkgutil


def load_handlers() -> None:
    """Import every module of this package, so that all handlers are registered."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
