"""Step 7, GRPO: the recipe, the data, the parameters, and the job itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from . import parse
from .naming import resource_id
from .parameters import broken_rules
from .recipes import GPUS_PER_NODE, by_name, checkpoint_gb, parse_recipe, recipe, tensor_parallel
from .step import Answers, Check, Field, Finding, Refused, Resource, Step, Usual, World
from .training.entrypoint import entrypoint, hydra_quote

_path = parse.text(r"/data/[^\x00-\x1f'\"\\]{1,200}", "a path below /data, where Lustre is mounted")
_dataset = parse.text(r"openai/gsm8k", "openai/gsm8k, the tutorial's data set")
_model = parse.text(r"[A-Za-z0-9][\w.-]*/[\w.-]+", "a model on Hugging Face such as google/gemma-3-27b-it")
_OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w.@/-]*(=.*)?", re.DOTALL)


def _override(raw: Any) -> str:
    value = str(raw).strip()
    if not _OVERRIDE.fullmatch(value) or "\n" in value:
        raise Refused("Hydra overrides such as grpo.val_period=5 or +data.shuffle=false")
    return value


def _overrides(raw: Any) -> list[str]:
    items = raw if isinstance(raw, list) else str(raw).split()
    return [_override(item) for item in items]


def _mine(answers: Answers) -> Any:
    return answers["grpo"]


FIELDS = (
    Field(
        "recipe",
        "Recipe",
        "The configuration of NeMo RL v0.5.0 that everything starts from.",
        parse_recipe,
        "grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long",
        kind="choice",
        choices=tuple(by_name()),
    ),
    Field(
        "model",
        "Model",
        "From Hugging Face; the recipe's own unless you say otherwise.",
        _model,
        lambda a: recipe(_mine(a)["recipe"])["model"],
        advanced=True,
    ),
    Field("dataset", "Data set", "GSM8K, prepared to final-number answers.", _dataset, "openai/gsm8k"),
    Field("max_num_steps", "Steps", "How many GRPO steps.", parse.integer(1, 1_000_000), 10, kind="integer"),
    Field(
        "num_prompts_per_step",
        "Prompts a step",
        "Each gives one group.",
        parse.integer(1, 65536),
        16,
        kind="integer",
    ),
    Field(
        "num_generations_per_prompt",
        "Generations a prompt",
        "The group that advantages are relative to; 2 or more, better 3.",
        parse.integer(1, 4096),
        32,
        kind="integer",
    ),
    Field(
        "colocated",
        "Colocated",
        "Generate on the GPUs that train. Off: one node generates, the others train.",
        parse.switch,
        False,
        kind="switch",
    ),
    Field(
        "checkpoint_dir",
        "Checkpoints",
        "A folder on Lustre. A run in a folder that holds step_N goes on from there.",
        _path,
        "/data/nemo_rl_gemma3_27b",
    ),
    Field("wandb", "Weights & Biases", "Log there too; needs the key.", parse.switch, False, kind="switch"),
    Field(
        "seed",
        "Seed",
        "Decides the order of prompts and the sampling.",
        parse.integer(0, 2**31 - 1),
        42,
        kind="integer",
    ),
    Field(
        "after_job",
        "After the job",
        "release: the GPU nodes go some minutes after the job has ended. keep: they stay.",
        parse.choice(("release", "keep")),
        "release",
        kind="choice",
        choices=("release", "keep"),
    ),
    Field(
        "release_minutes",
        "Release after",
        "Minutes between the job's end and the release.",
        parse.number(0, 10080),
        30,
        kind="number",
        unit="minutes",
    ),
    Field(
        "max_hours",
        "At most",
        "Hours after which the job is stopped and the GPU nodes are released, whatever happens; 0: no limit.",
        parse.number(0, 8760),
        24,
        kind="number",
        unit="hours",
    ),
    Field(
        "job_name",
        "Job name",
        "Names the run in logs and in Weights & Biases.",
        parse.cluster_name,
        lambda a: _name_of(_mine(a)["checkpoint_dir"]),
        advanced=True,
    ),
    Field(
        "generation_nodes",
        "Generation nodes",
        "Nodes that generate when not colocated.",
        parse.integer(1, 63),
        1,
        kind="integer",
        advanced=True,
        shown_when=lambda a: not _mine(a)["colocated"],
    ),
    Field(
        "tensor_parallel",
        "Tensor parallel (training)",
        "GPUs that share one copy of the model while training.",
        parse.integer(1, 64),
        lambda a: tensor_parallel(_mine(a)["recipe"]),
        kind="integer",
        advanced=True,
    ),
    Field(
        "vllm_tensor_parallel",
        "Tensor parallel (generation)",
        "GPUs that share one copy of the model while generating.",
        parse.integer(1, 64),
        lambda a: _vllm_parallel(_mine(a)),
        kind="integer",
        advanced=True,
    ),
    Field(
        "gpu_memory_utilization",
        "vLLM memory",
        "Share of a GPU's memory for generation.",
        parse.number(0.05, 0.98),
        lambda a: recipe(_mine(a)["recipe"])["vllm_memory"] if _mine(a)["colocated"] else 0.9,
        kind="number",
        advanced=True,
    ),
    Field(
        "final_number_answers",
        "Final-number answers",
        "Give NeMo RL only the number behind ####. With the raw column every reward is 0.",
        parse.switch,
        True,
        kind="switch",
        advanced=True,
    ),
    Field(
        "checkpoint_gb",
        "Size of a checkpoint",
        "In GB, to see whether Lustre has room; 0: unknown.",
        parse.integer(0, 100_000),
        lambda a: checkpoint_gb(_mine(a)["recipe"]),
        kind="integer",
        unit="GB",
        advanced=True,
    ),
    Field(
        "overrides",
        "More overrides",
        "Further Hydra overrides, parted by blanks.",
        _overrides,
        [],
        advanced=True,
        optional=True,
    ),
)


def _name_of(checkpoint_dir: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", checkpoint_dir.rstrip("/").rpartition("/")[2].lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"run-{plain}")[:40].rstrip("-")


def _vllm_parallel(mine: Any) -> int:
    row = recipe(mine["recipe"])
    return (
        int(row["vllm_tensor_parallel"])
        if mine["colocated"] or (row["params_b"] or 0) < 20
        else GPUS_PER_NODE
    )


def overrides(answers: Answers) -> list[str]:
    """The Hydra overrides, unquoted, in the tutorial's order; paths are on Lustre."""
    mine, nodes = _mine(answers), answers["quotas"]["gpu_nodes"]
    batch = mine["num_prompts_per_step"] * mine["num_generations_per_prompt"]
    listed: list[tuple[str, Any]] = [
        ("cluster.num_nodes", nodes),
        ("cluster.gpus_per_node", GPUS_PER_NODE),
        ("grpo.max_num_steps", mine["max_num_steps"]),
        ("grpo.seed", mine["seed"]),
        ("grpo.num_prompts_per_step", mine["num_prompts_per_step"]),
        ("grpo.num_generations_per_prompt", mine["num_generations_per_prompt"]),
        ("policy.model_name", mine["model"]),
        ("checkpointing.checkpoint_dir", mine["checkpoint_dir"]),
        ("logger.log_dir", f"/data/logs/{mine['job_name']}"),
        ("logger.tensorboard_enabled", False),
        ("logger.wandb_enabled", mine["wandb"]),
        ("logger.wandb.name", mine["job_name"]),
        ("policy.dtensor_cfg.tensor_parallel_size", mine["tensor_parallel"]),
        ("policy.generation.colocated.enabled", mine["colocated"]),
        ("policy.generation.vllm_cfg.tensor_parallel_size", mine["vllm_tensor_parallel"]),
        ("policy.generation.vllm_cfg.gpu_memory_utilization", mine["gpu_memory_utilization"]),
    ]
    if (
        batch < recipe(mine["recipe"])["train_global_batch_size"]
        or batch % recipe(mine["recipe"])["train_global_batch_size"]
    ):
        listed.append(("policy.train_global_batch_size", batch))  # R6: the batch must be a multiple of it
    if not mine["colocated"]:
        alone = nodes == 1
        listed += [
            ("policy.generation.colocated.resources.num_nodes", None if alone else mine["generation_nodes"]),
            (
                "policy.generation.colocated.resources.gpus_per_node",
                GPUS_PER_NODE // 2 if alone else GPUS_PER_NODE,
            ),
        ]
    return [_hydra(key, value) for key, value in listed] + list(mine["overrides"])


def _hydra(key: str, value: Any) -> str:
    return f"{key}={hydra_quote(value)}"


def _resources(answers: Answers) -> Sequence[Resource]:
    mine, place, ray = _mine(answers), answers["project"], answers["raycluster"]
    script = entrypoint(
        recipe=mine["recipe"],
        overrides=overrides(answers),
        dataset=mine["dataset"],
        final_number_answers=mine["final_number_answers"],
    )
    where = {
        "project": place["project_id"],
        "location": place["region"],
        "cluster": answers["cluster"]["cluster_name"],
        "namespace": ray["namespace"],
        "raycluster": ray["raycluster_name"],
    }
    spec = {
        "entrypoint": script,
        "workers": answers["quotas"]["gpu_nodes"],
        "checkpoint_dir": mine["checkpoint_dir"],
        "max_num_steps": mine["max_num_steps"],
    }
    return [
        Resource(
            "grpo",
            "job",
            mine["job_name"],
            spec,
            where,
            (resource_id("raycluster", "raycluster", ray["raycluster_name"]),),
            "ray job submit --address http://127.0.0.1:8265 -- bash job.sh",
            Usual(
                9250,
                10760,
                "925 to 1,076 s a step on 3 nodes, and 300 s of set-up, for ten steps (published log)",
            ),
        )
    ]


def _rules(answers: Answers, world: World) -> Iterable[Finding]:
    found = list(broken_rules(answers))
    yield from found
    if not found:
        yield Finding("pass", "the parameters go together")


def _gold(answers: Answers, world: World) -> Iterable[Finding]:
    if _mine(answers)["final_number_answers"]:
        yield Finding("pass", "gold answers are final numbers")
    else:
        yield Finding(
            "warn",
            "gold answers are whole rationales",
            "no answer ever equals one: every reward is 0 and nothing is learned",
            "set grpo.final_number_answers=true",
        )


CHECKS = (
    Check(
        "rules",
        "Parameters go together",
        _rules,
        (
            "grpo.max_num_steps",
            "grpo.num_prompts_per_step",
            "grpo.num_generations_per_prompt",
            "grpo.colocated",
            "grpo.tensor_parallel",
            "quotas.gpu_nodes",
        ),
    ),
    Check("gold", "Gold answers", _gold, ("grpo.final_number_answers",)),
)

STEP = Step("grpo", "GRPO", "What is trained, on what, and for how long.", FIELDS, CHECKS, _resources)
