"""Step 7, GRPO: the recipe, the data, the parameters, and the job itself."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from grpo_wizard.steps.core import validators
from grpo_wizard.steps.core.model import Answers, Field, Resource, Step
from grpo_wizard.steps.gcp.naming import resource_id
from grpo_wizard.steps.grpo.checks import CHECKS
from grpo_wizard.steps.grpo.duration import estimate_training
from grpo_wizard.steps.grpo.entrypoint import entrypoint
from grpo_wizard.steps.grpo.nemo_config import (
    hydra_overrides,
    parse_override,
    resolve_config,
    split_overrides,
)
from grpo_wizard.steps.grpo.recipes import (
    GPUS_PER_NODE,
    checkpoint_gb,
    model,
    parse_recipe,
    recipe,
    recipes_by_name,
    tensor_parallel,
)

_path = validators.text(r"/data/[^\x00-\x1f'\"\\]{1,200}", "a path below /data, where Lustre is mounted")
_dataset = validators.text(r"openai/gsm8k", "openai/gsm8k, the tutorial's data set")
_model = validators.text(
    r"[A-Za-z0-9][\w.-]*/[\w.-]+", "a model on Hugging Face such as google/gemma-3-27b-it"
)


def _parse_overrides(raw: Any) -> list[str]:
    items = raw if isinstance(raw, list) else _parse_list(str(raw).strip())
    texts = [str(item).strip() for item in items]
    return [parse_override(text).text for text in texts if text]


def _parse_list(text: str) -> list[Any]:
    """A line of overrides, or a list as TOML and JSON write it: no override begins with a bracket."""
    if text.startswith("["):
        for read in (lambda: tomllib.loads(f"list = {text}")["list"], lambda: json.loads(text)):
            try:
                found: list[Any] = read()
            except ValueError:
                continue
            return found
    return list(split_overrides(text))


def _grpo_answers(answers: Answers) -> Any:
    return answers["grpo"]


FIELDS = (
    Field(
        "recipe",
        "Recipe",
        "The configuration of NeMo RL v0.5.0 that everything starts from; those for the fewest GPUs first.",
        parse_recipe,
        "grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long",
        kind="choice",
        choices=tuple(recipes_by_name()),
    ),
    Field(
        "model",
        "Model",
        "From Hugging Face; the recipe's own unless you say otherwise.",
        _model,
        lambda a: recipe(_grpo_answers(a)["recipe"])["model"],
        advanced=True,
    ),
    Field("dataset", "Data set", "GSM8K, prepared to final-number answers.", _dataset, "openai/gsm8k"),
    Field(
        "max_num_steps", "Steps", "How many GRPO steps.", validators.integer(1, 1_000_000), 10, kind="integer"
    ),
    Field(
        "num_prompts_per_step",
        "Prompts a step",
        "Each gives one group.",
        validators.integer(1, 65536),
        16,
        kind="integer",
    ),
    Field(
        "num_generations_per_prompt",
        "Generations a prompt",
        "The group that advantages are relative to; 2 or more, better 3.",
        validators.integer(1, 4096),
        32,
        kind="integer",
    ),
    Field(
        "colocated",
        "Colocated",
        "Generate on the GPUs that train. Off: one node generates, the others train.",
        validators.switch,
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
    Field(
        "wandb", "Weights & Biases", "Log there too; needs the key.", validators.switch, False, kind="switch"
    ),
    Field(
        "seed",
        "Seed",
        "Decides the order of prompts and the sampling.",
        validators.integer(0, 2**31 - 1),
        42,
        kind="integer",
    ),
    Field(
        "after_job",
        "After the job",
        "release: the GPU nodes go some minutes after the job has ended. keep: they stay.",
        validators.choice(("release", "keep")),
        "release",
        kind="choice",
        choices=("release", "keep"),
    ),
    Field(
        "release_minutes",
        "Release after",
        "Minutes between the job's end and the release.",
        validators.number(0, 10080),
        30,
        kind="number",
        unit="minutes",
    ),
    Field(
        "max_hours",
        "At most",
        "Hours after which the job is stopped and the GPU nodes are released, whatever happens; 0: no limit.",
        validators.number(0, 8760),
        24,
        kind="number",
        unit="hours",
    ),
    Field(
        "job_name",
        "Job name",
        "Names the run in logs and in Weights & Biases.",
        validators.cluster_name,
        lambda a: _job_name(_grpo_answers(a)["checkpoint_dir"]),
        advanced=True,
    ),
    Field(
        "generation_nodes",
        "Generation nodes",
        "Nodes that generate when not colocated.",
        validators.integer(1, 63),
        1,
        kind="integer",
        advanced=True,
        shown_when=lambda a: not _grpo_answers(a)["colocated"],
    ),
    Field(
        "tensor_parallel",
        "Tensor parallel (training)",
        "GPUs that share one copy of the model while training.",
        validators.integer(1, 64),
        lambda a: min(tensor_parallel(_grpo_answers(a)["recipe"]), _max_tensor_parallel(a)),
        kind="integer",
        advanced=True,
    ),
    Field(
        "vllm_tensor_parallel",
        "Tensor parallel (generation)",
        "GPUs that share one copy of the model while generating.",
        validators.integer(1, 64),
        lambda a: min(_vllm_tensor_parallel(_grpo_answers(a)), _max_tensor_parallel(a)),
        kind="integer",
        advanced=True,
    ),
    Field(
        "gpu_memory_utilization",
        "vLLM memory",
        "Share of a GPU's memory for generation.",
        validators.number(0.05, 0.98),
        lambda a: recipe(_grpo_answers(a)["recipe"])["vllm_memory"] if _grpo_answers(a)["colocated"] else 0.9,
        kind="number",
        advanced=True,
    ),
    Field(
        "final_number_answers",
        "Final-number answers",
        "Give NeMo RL only the number behind ####. With the raw column every reward is 0.",
        validators.switch,
        True,
        kind="switch",
        advanced=True,
    ),
    Field(
        "checkpoint_gb",
        "Size of a checkpoint",
        "In GB, to see whether Lustre has room; 0: unknown.",
        validators.integer(0, 100_000),
        lambda a: checkpoint_gb(_grpo_answers(a)["recipe"]),
        kind="integer",
        unit="GB",
        advanced=True,
    ),
    Field(
        "overrides",
        "More overrides",
        "Further Hydra overrides, parted by blanks; a value with blanks in quotes.",
        _parse_overrides,
        [],
        advanced=True,
        optional=True,
    ),
)


def _job_name(checkpoint_dir: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", checkpoint_dir.rstrip("/").rpartition("/")[2].lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"run-{plain}")[:40].rstrip("-")


def _max_tensor_parallel(answers: Answers) -> int:
    """GPUs of a node that one copy of the model may have: half where one node both trains and generates apart."""
    apart = answers["quotas"]["gpu_nodes"] == 1 and not _grpo_answers(answers)["colocated"]
    return GPUS_PER_NODE // 2 if apart else 64


def _vllm_tensor_parallel(mine: Any) -> int:
    row = recipe(mine["recipe"])
    return (
        int(row["vllm_tensor_parallel"])
        if mine["colocated"] or (model(row["model"]).params_b or 0) < 20
        else GPUS_PER_NODE
    )


def _resources(answers: Answers) -> Sequence[Resource]:
    mine, place, ray = _grpo_answers(answers), answers["project"], answers["raycluster"]
    script = entrypoint(
        recipe=mine["recipe"],
        overrides=hydra_overrides(answers),
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
        "checkpoint_dir": str(resolve_config(answers)["checkpointing.checkpoint_dir"]),
        "max_num_steps": resolve_config(answers).number("grpo.max_num_steps"),
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
            estimate_training(answers),
        )
    ]


STEP = Step("grpo", "GRPO", "What is trained, on what, and for how long.", FIELDS, CHECKS, _resources)
