"""Facts with their source and date, read once from assets/catalog: machines, prices, recipes, Lustre tiers."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

ZONES_PER_REGION = 3  # a regional GKE cluster spreads its nodes over three zones by default
GPUS_PER_NODE = 8  # of every machine type in the catalog


@cache
def load(name: str) -> dict[str, Any]:
    """The catalog `name` (machines, prices, …) from the assets."""
    document: dict[str, Any] = json.loads(read_asset(f"catalog/{name}.json"))
    return document


def read_asset(path: str) -> str:
    """The text of a file in the assets, by its path there."""
    return resources.files("grpo_wizard.assets").joinpath(path).read_text("utf-8")


def gpu_spec(gpu_type: str) -> dict[str, Any]:
    """The catalog entry of an accelerator type."""
    found: dict[str, Any] = load("machines")["gpus"][gpu_type]
    return found


def list_price(machine_type: str, region: str) -> float | None:
    """USD per hour of one machine; None when no source gives a price."""
    known = load("prices")["on_demand"].get(machine_type, {}).get("usd", {})
    return known.get(region)
