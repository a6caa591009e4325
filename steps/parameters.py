"""Rules that the training parameters must keep, as NeMo RL v0.5.0 enforces them (nemo-rl.md C2; R numbers are its).

Each would end a run after minutes of set-up, so each is said before a machine is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .recipes import GPUS_PER_NODE, recipe
from .step import Answers, Finding


@dataclass(frozen=True)
class Layout:
    """The GPUs of a run: who trains, who generates."""

    nodes: int
    train_gpus: int
    generation_gpus: int
    tensor_parallel: int
    vllm_tensor_parallel: int
    batch: int  # prompts x generations
    train_batch: int  # train_global_batch_size


def layout(answers: Answers) -> Layout:
    mine, nodes = answers["grpo"], answers["quotas"]["gpu_nodes"]
    batch = mine["num_prompts_per_step"] * mine["num_generations_per_prompt"]
    whole = nodes * GPUS_PER_NODE
    generating = (
        whole
        if mine["colocated"]
        else (GPUS_PER_NODE // 2 if nodes == 1 else mine["generation_nodes"] * GPUS_PER_NODE)
    )
    training = whole if mine["colocated"] else whole - generating
    recipe_batch = int(recipe(mine["recipe"])["train_global_batch_size"])
    return Layout(
        nodes,
        training,
        generating,
        mine["tensor_parallel"],
        mine["vllm_tensor_parallel"],
        batch,
        recipe_batch if batch % recipe_batch == 0 else batch,
    )


Rule = Callable[[Layout, Any], tuple[str, str] | None]  # (what is wrong, what to do), None when kept


def _r1(run: Layout, mine: Any) -> tuple[str, str] | None:
    if run.train_gpus >= 1:
        return None
    return (
        f"{run.nodes} GPU nodes leave none for training when {mine['generation_nodes']} generate",
        "set quotas.gpu_nodes higher, grpo.generation_nodes lower, or grpo.colocated=true",
    )


def _r3(run: Layout, mine: Any) -> tuple[str, str] | None:
    if run.train_gpus < 1 or run.train_gpus % run.tensor_parallel == 0:
        return None
    return (
        f"{run.train_gpus} training GPUs cannot be parted by a tensor parallel size of {run.tensor_parallel}",
        f"set grpo.tensor_parallel={_divisor_below(run.train_gpus, run.tensor_parallel)}",
    )


def _r4(run: Layout, mine: Any) -> tuple[str, str] | None:
    heads = recipe(mine["recipe"])["kv_heads"]
    if heads is None or heads % run.tensor_parallel == 0:
        return None
    return (
        f"{mine['model']} has {heads} key-value heads, not a multiple of a tensor parallel size of {run.tensor_parallel}",
        f"set grpo.tensor_parallel={_divisor_below(heads, run.tensor_parallel)}",
    )


def _r5(run: Layout, mine: Any) -> tuple[str, str] | None:
    if run.generation_gpus % run.vllm_tensor_parallel == 0:
        return None
    return (
        f"{run.generation_gpus} generating GPUs cannot be parted by a vLLM tensor parallel size of {run.vllm_tensor_parallel}",
        f"set grpo.vllm_tensor_parallel={_divisor_below(run.generation_gpus, run.vllm_tensor_parallel)}",
    )


def _r7(run: Layout, mine: Any) -> tuple[str, str] | None:
    copies = max(1, run.train_gpus // run.tensor_parallel)
    if run.train_batch % copies == 0 and run.batch % copies == 0:
        return None
    return (
        f"a batch of {run.batch} answers cannot be parted among {copies} copies of the model",
        f"set grpo.num_prompts_per_step to a multiple of {copies}",
    )


def _r17(run: Layout, mine: Any) -> tuple[str, str] | None:
    if mine["num_generations_per_prompt"] >= 2:
        return None
    return (
        "one generation a prompt is no group: every advantage is 0 and nothing is learned",
        "set grpo.num_generations_per_prompt=16",
    )


def _r19(run: Layout, mine: Any) -> tuple[str, str] | None:
    if mine["num_prompts_per_step"] <= _GSM8K_ROWS:
        return None
    return (
        f"{mine['num_prompts_per_step']} prompts a step are more than the {_GSM8K_ROWS:,} of GSM8K: there would be no step at all",
        f"set grpo.num_prompts_per_step to at most {_GSM8K_ROWS}",
    )


_GSM8K_ROWS = 7473
RULES: dict[str, Rule] = {"R1": _r1, "R3": _r3, "R4": _r4, "R5": _r5, "R7": _r7, "R17": _r17, "R19": _r19}


def _divisor_below(whole: int, wanted: int) -> int:
    """The largest divisor of `whole` that is not above `wanted`."""
    return max(d for d in range(1, min(whole, wanted) + 1) if whole % d == 0)


def broken_rules(answers: Answers) -> Iterator[Finding]:
    """One blocking finding for each rule that the answers break."""
    run, mine = layout(answers), answers["grpo"]
    for name, rule in RULES.items():
        broken = rule(run, mine)
        if broken:
            yield Finding("block", broken[0], f"rule {name} of NeMo RL v0.5.0", broken[1])
