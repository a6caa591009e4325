"""The GRPO recipes of NeMo RL v0.5.0 and what follows from one: model, parallelism, size of a checkpoint."""

from __future__ import annotations

from functools import cache
from typing import Any

from . import catalogue
from .step import Refused

GPUS_PER_NODE = 8
# fp32 weights and the two Adam moments: 12 bytes a parameter (nemo-rl.md B3 #13, inferred from the layout).
_CHECKPOINT_BYTES_PER_PARAMETER = 12


@cache
def by_name() -> dict[str, dict[str, Any]]:
    return {row["recipe"]: row for row in catalogue.load("recipes")["recipes"]}


def parse_recipe(raw: Any) -> str:
    """A recipe's name, with or without its folder and `.yaml`."""
    name = str(raw).strip().rpartition("/")[2].removesuffix(".yaml")
    if name not in by_name():
        raise Refused(
            "a GRPO recipe of NeMo RL v0.5.0, such as grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long"
        )
    return name


def recipe(name: str) -> dict[str, Any]:
    return by_name()[name]


def tensor_parallel(name: str) -> int:
    """The recipe's own where it is meant for 8 GPUs a node; doubled from 4, as the tutorial does, where the key-value heads allow it."""
    row = recipe(name)
    doubled = int(row["tensor_parallel"]) * 2
    fits = row["kv_heads"] is not None and row["kv_heads"] % doubled == 0
    return doubled if row["gpus_per_node"] == GPUS_PER_NODE // 2 and fits else int(row["tensor_parallel"])


def checkpoint_gb(name: str) -> int:
    """About how much one step_N takes, in GB; 0 when the model's size is unknown."""
    size = recipe(name)["params_b"]
    return round(size * _CHECKPOINT_BYTES_PER_PARAMETER) if size else 0
