"""The GRPO recipes of NeMo RL v0.5.0, and what follows from one: model, parallel sizes, checkpoint size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.answers import InvalidValue
from grpo_wizard.steps.core.catalog import GPUS_PER_NODE as GPUS_PER_NODE

# fp32 weights and two Adam moments, inferred from the layout of NeMo RL's checkpoints.
_CHECKPOINT_BYTES_PER_PARAMETER = 12


@dataclass(frozen=True)
class ModelShape:
    """The shape of a model, from its config.json. None: unknown. `params_b` is in units of 1e9."""

    params_b: float | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    vlm: bool = False


@cache
def recipes_by_name() -> dict[str, dict[str, Any]]:
    """All recipes by name, those for the fewest GPUs first: the order in which they are offered."""
    rows = catalog.load("recipes")["recipes"]
    ordered = sorted(rows, key=lambda row: (row["nodes"] * row["gpus_per_node"], row["recipe"]))
    return {row["recipe"]: row for row in ordered}


def parse_recipe(raw: object) -> str:
    """Parse a recipe's name, given with or without its directory and `.yaml`."""
    name = str(raw).strip().rpartition("/")[2].removesuffix(".yaml")
    if name not in recipes_by_name():
        raise InvalidValue(
            "must be a NeMo RL v0.5.0 GRPO recipe, such as grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long"
        )
    return name


def recipe(name: str) -> dict[str, Any]:
    return recipes_by_name()[name]


@cache
def model(name: str) -> ModelShape:
    """The shape of a model by its name on Hugging Face; all None if the catalog does not have it."""
    return ModelShape(**catalog.load("recipes")["models"].get(name, {}))


def tensor_parallel(name: str) -> int:
    """The recipe's tensor parallel size. If it is meant for 4 GPUs per node it is doubled, as in the tutorial, where the key-value heads allow it."""
    row = recipe(name)
    doubled, heads = int(row["tensor_parallel"]) * 2, model(row["model"]).kv_heads
    fits = heads is not None and heads % doubled == 0
    return doubled if row["gpus_per_node"] == GPUS_PER_NODE // 2 and fits else int(row["tensor_parallel"])


def checkpoint_gb(name: str) -> int:
    """The approximate size of one step_N checkpoint in GB; 0 if the model's size is unknown."""
    size = model(recipe(name)["model"]).params_b
    return round(size * _CHECKPOINT_BYTES_PER_PARAMETER) if size else 0


def published_recipes(nodes: int) -> list[str]:
    """Recipes published for at most `nodes` nodes of eight GPUs, the largest first."""
    whole = nodes * GPUS_PER_NODE
    fits = [row for row in recipes_by_name().values() if row["nodes"] * row["gpus_per_node"] <= whole]
    return [row["recipe"] for row in sorted(fits, key=lambda row: -row["nodes"] * row["gpus_per_node"])]
