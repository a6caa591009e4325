"""Google's services, and the two others that the wizard asks.

Each module registers its handlers when it is imported.
"""

from __future__ import annotations

import importlib
import pkgutil


def load_handlers() -> None:
    """Imports every module here, so that all handlers are known."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
