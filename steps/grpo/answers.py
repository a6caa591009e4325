"""Questions and answers of step 7, GRPO."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING

from grpo_wizard.steps.core import validators
from grpo_wizard.steps.core.answers import StepAnswers, question
from grpo_wizard.steps.grpo import recipes
from grpo_wizard.steps.grpo.nemo_config import parse_override, split_overrides

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


_path = validators.text(r"/data/[^\x00-\x1f'\"\\]{1,200}", "a path below /data, where Lustre is mounted")
_dataset = validators.text(r"openai/gsm8k", "openai/gsm8k, the tutorial's data set")
_model = validators.text(
    r"[A-Za-z0-9][\w.-]*/[\w.-]+", "a model on Hugging Face such as google/gemma-3-27b-it"
)


def _parse_overrides(raw: object) -> list[str]:
    items = raw if isinstance(raw, list) else _parse_list(str(raw).strip())
    texts = [str(item).strip() for item in items]
    return [parse_override(text).text for text in texts if text]


def _parse_list(text: str) -> list[object]:
    """A line of overrides, or a list as TOML and JSON write it: no override begins with a bracket."""
    if text.startswith("["):
        for read in (lambda: tomllib.loads(f"list = {text}")["list"], lambda: json.loads(text)):
            try:
                found: list[object] = read()
            except ValueError:
                continue
            return found
    return list(split_overrides(text))


class GrpoAnswers(StepAnswers, step="grpo"):
    """The recipe, the data set, the parameters of training, and what happens after the job."""

    recipe: str = question(
        label="Recipe",
        help="The configuration of NeMo RL v0.5.0 that everything starts from; those for the fewest GPUs first.",
        parse=recipes.parse_recipe,
        default="grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long",
        kind="choice",
        choices=tuple(recipes.recipes_by_name()),
    )
    model: str = question(
        label="Model",
        help="From Hugging Face; the recipe's own unless you say otherwise.",
        parse=_model,
        default=lambda a: recipes.recipe(a.grpo.recipe)["model"],
        advanced=True,
    )
    dataset: str = question(
        label="Data set",
        help="GSM8K, prepared to final-number answers.",
        parse=_dataset,
        default="openai/gsm8k",
    )
    max_num_steps: int = question(
        label="Steps",
        help="How many GRPO steps.",
        parse=validators.integer(1, 1_000_000),
        default=10,
        kind="integer",
    )
    num_prompts_per_step: int = question(
        label="Prompts a step",
        help="Each gives one group.",
        parse=validators.integer(1, 65536),
        default=16,
        kind="integer",
    )
    num_generations_per_prompt: int = question(
        label="Generations a prompt",
        help="The group that advantages are relative to; 2 or more, better 3.",
        parse=validators.integer(1, 4096),
        default=32,
        kind="integer",
    )
    colocated: bool = question(
        label="Colocated",
        help="Generate on the GPUs that train. Off: one node generates, the others train.",
        parse=validators.switch,
        default=False,
        kind="switch",
    )
    checkpoint_dir: str = question(
        label="Checkpoints",
        help="A folder on Lustre. A run in a folder that holds step_N goes on from there.",
        parse=_path,
        default="/data/nemo_rl_gemma3_27b",
    )
    wandb: bool = question(
        label="Weights & Biases",
        help="Log there too; needs the key.",
        parse=validators.switch,
        default=False,
        kind="switch",
    )
    seed: int = question(
        label="Seed",
        help="Decides the order of prompts and the sampling.",
        parse=validators.integer(0, 2**31 - 1),
        default=42,
        kind="integer",
    )
    after_job: str = question(
        label="After the job",
        help="release: the GPU nodes go some minutes after the job has ended. keep: they stay.",
        parse=validators.choice(("release", "keep")),
        default="release",
        kind="choice",
        choices=("release", "keep"),
    )
    release_minutes: float = question(
        label="Release after",
        help="Minutes between the job's end and the release.",
        parse=validators.number(0, 10080),
        default=30,
        kind="number",
        unit="minutes",
    )
    max_hours: float = question(
        label="At most",
        help="Hours after which the job is stopped and the GPU nodes are released, whatever happens; 0: no limit.",
        parse=validators.number(0, 8760),
        default=24,
        kind="number",
        unit="hours",
    )
    job_name: str = question(
        label="Job name",
        help="Names the run in logs and in Weights & Biases.",
        parse=validators.cluster_name,
        default=lambda a: _job_name(a.grpo.checkpoint_dir),
        advanced=True,
    )
    generation_nodes: int = question(
        label="Generation nodes",
        help="Nodes that generate when not colocated.",
        parse=validators.integer(1, 63),
        default=1,
        kind="integer",
        advanced=True,
        shown_when=lambda a: not a.grpo.colocated,
    )
    tensor_parallel: int = question(
        label="Tensor parallel (training)",
        help="GPUs that share one copy of the model while training.",
        parse=validators.integer(1, 64),
        default=lambda a: min(recipes.tensor_parallel(a.grpo.recipe), _max_tensor_parallel(a)),
        kind="integer",
        advanced=True,
    )
    vllm_tensor_parallel: int = question(
        label="Tensor parallel (generation)",
        help="GPUs that share one copy of the model while generating.",
        parse=validators.integer(1, 64),
        default=lambda a: min(_vllm_tensor_parallel(a.grpo), _max_tensor_parallel(a)),
        kind="integer",
        advanced=True,
    )
    gpu_memory_utilization: float = question(
        label="vLLM memory",
        help="Share of a GPU's memory for generation.",
        parse=validators.number(0.05, 0.98),
        default=lambda a: recipes.recipe(a.grpo.recipe)["vllm_memory"] if a.grpo.colocated else 0.9,
        kind="number",
        advanced=True,
    )
    final_number_answers: bool = question(
        label="Final-number answers",
        help="Give NeMo RL only the number behind ####. With the raw column every reward is 0.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    checkpoint_gb: int = question(
        label="Size of a checkpoint",
        help="In GB, to see whether Lustre has room; 0: unknown.",
        parse=validators.integer(0, 100_000),
        default=lambda a: recipes.checkpoint_gb(a.grpo.recipe),
        kind="integer",
        unit="GB",
        advanced=True,
    )
    overrides: list[str] = question(
        label="More overrides",
        help="Further Hydra overrides, parted by blanks; a value with blanks in quotes.",
        parse=_parse_overrides,
        default=[],
        advanced=True,
        optional=True,
    )


def _job_name(checkpoint_dir: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", checkpoint_dir.rstrip("/").rpartition("/")[2].lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"run-{plain}")[:40].rstrip("-")


def _max_tensor_parallel(answers: Answers) -> int:
    """GPUs of a node that one copy of the model may have: half where one node both trains and generates apart."""
    apart = answers.quotas.gpu_nodes == 1 and not answers.grpo.colocated
    return recipes.GPUS_PER_NODE // 2 if apart else 64


def _vllm_tensor_parallel(grpo: GrpoAnswers) -> int:
    row = recipes.recipe(grpo.recipe)
    return (
        int(row["vllm_tensor_parallel"])
        if grpo.colocated or (recipes.model(row["model"]).params_b or 0) < 20
        else recipes.GPUS_PER_NODE
    )
