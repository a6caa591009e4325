"""Facts with source and date, read once from assets/catalog: machines, prices."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

ZONES_PER_REGION = 3  # GKE spreads a regional cluster over three zones (tutorial-defects 8)


@cache
def load(name: str) -> dict[str, Any]:
    """The catalogue `name` (machines, prices) as it stands in the assets."""
    document: dict[str, Any] = json.loads(read_asset(f"catalog/{name}.json"))
    return document


def read_asset(path: str) -> str:
    """Text of a file in the assets, by its path there."""
    return resources.files("grpo_wizard.assets").joinpath(path).read_text("utf-8")


def gpu_spec(gpu_type: str) -> dict[str, Any]:
    """What is known of an accelerator type."""
    found: dict[str, Any] = load("machines")["gpus"][gpu_type]
    return found


def list_price(machine_type: str, region: str) -> float | None:
    """List price of one machine, None when no source gives one."""
    known = load("prices")["on_demand"].get(machine_type, {}).get("usd", {})
    return known.get(region)
