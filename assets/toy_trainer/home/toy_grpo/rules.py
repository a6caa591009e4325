"""The layout of a run on its GPUs, and NeMo RL v0.5.0's checks of it with its error texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Layout:
    """The GPUs of the configuration. The toy always uses three actors on CPUs."""

    nodes: int
    gpus_per_node: int
    colocated: bool
    train_nodes: int
    train_gpus: int
    generation_nodes: int
    generation_gpus: int

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


def layout(config: dict[str, Any]) -> Layout:
    """Return the layout. Raises AssertionError or ValueError as NeMo RL does."""
    nodes, per_node = config["cluster"]["num_nodes"], config["cluster"]["gpus_per_node"]
    colocated = config["policy"]["generation"]["colocated"]
    if colocated["enabled"]:
        found = Layout(nodes, per_node, True, nodes, nodes * per_node, nodes, nodes * per_node)
    elif nodes == 1:
        taken = colocated["resources"]["gpus_per_node"]
        assert taken and 0 < taken < per_node, (
            "policy.generation.colocated.resources.gpus_per_node must be > 0 and below cluster.gpus_per_node"
        )
        found = Layout(1, per_node, False, 1, per_node - taken, 1, taken)
    else:
        taken, each = colocated["resources"]["num_nodes"], colocated["resources"]["gpus_per_node"]
        assert taken and taken > 0, (
            "policy.generation.colocated.resources.num_nodes must be > 0 "
            "when cluster.num_nodes > 1 and inference is non-colocated"
        )
        assert each == per_node, (
            "policy.generation.colocated.resources.gpus_per_node must be equal to cluster.gpus_per_node"
        )
        found = Layout(
            nodes, per_node, False, nodes - taken, (nodes - taken) * per_node, taken, taken * per_node
        )
    _check(config, found)
    return found


def _check(config: dict[str, Any], found: Layout) -> None:
    policy, grpo = config["policy"], config["grpo"]
    tp, cp = policy["dtensor_cfg"]["tensor_parallel_size"], policy["dtensor_cfg"]["context_parallel_size"]
    if policy["dtensor_cfg"]["enabled"] and found.train_gpus % (tp * cp) != 0:
        raise ValueError(
            f"World size ({found.train_gpus}) must be divisible by PP * CP * TP (1 * {cp} * {tp})"
        )
    vllm = (
        policy["generation"]["vllm_cfg"]["tensor_parallel_size"]
        * policy["generation"]["vllm_cfg"]["pipeline_parallel_size"]
    )
    assert found.generation_gpus % vllm == 0, (
        f"World size ({found.generation_gpus}) must be a multiple of the vLLM parallel size ({vllm})"
    )
    total, batch = (
        grpo["num_prompts_per_step"] * grpo["num_generations_per_prompt"],
        policy["train_global_batch_size"],
    )
    assert total % batch == 0, f"Total batch size ({total}) is not a multiple of batch_size ({batch})"
    name = config["checkpointing"]["metric_name"]
    if config["checkpointing"]["enabled"] and name is not None:
        assert name.startswith(("train:", "val:")), f"metric_name={name} must start with 'val:' or 'train:'"
