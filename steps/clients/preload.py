"""Import the SDKs before they are used, in a background thread: they take seconds of CPU, and the first screen must not wait."""

from __future__ import annotations

import gc
from importlib import import_module

# The slowest last: compute alone takes 4 s of CPU, and the wizard's first queries go to the others.
SDK_MODULES = (
    "google.oauth2.credentials",
    "google.auth.transport.requests",
    "google.cloud.resourcemanager_v3",
    "google.cloud.service_usage_v1",
    "google.cloud.billing_v1",
    "aiohttp",
    "google.cloud.cloudquotas_v1",
    "google.cloud.container_v1",
    "google.cloud.lustre_v1",
    "google.cloud.compute_v1",
)


def preload_sdks() -> None:
    """Import all SDKs, without garbage collections: full ones would stop every thread for a tenth of a second."""
    gc.disable()
    try:
        for name in SDK_MODULES:
            import_module(name)
    finally:
        gc.freeze()
        gc.enable()
