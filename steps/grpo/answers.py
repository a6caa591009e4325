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


_path = validators.text(
    r"/data/[^\x00-\x1f'\"\\]{1,200}", "must be a path under /data, where Lustre is mounted"
)
_dataset = validators.text(r"openai/gsm8k", "must be openai/gsm8k, the tutorial's data set")
_model = validators.text(
    r"[A-Za-z0-9][\w.-]*/[\w.-]+", "must be a model on Hugging Face, such as google/gemma-3-27b-it"
)


def _parse_overrides(raw: object) -> list[str]:
    items = raw if isinstance(raw, list) else _parse_list(str(raw).strip())
    texts = [str(item).strip() for item in items]
    return [parse_override(text).text for text in texts if text]


def _parse_list(text: str) -> list[object]:
    """Parse a line of overrides, or a list as TOML and JSON write it: no override begins with a bracket."""
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
        help="The NeMo RL v0.5.0 configuration to start from. Recipes that need the fewest GPUs are listed first.",
        parse=recipes.parse_recipe,
        default="grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long",
        kind="choice",
        choices=tuple(recipes.recipes_by_name()),
    )
    model: str = question(
        label="Model",
        help="A model on Hugging Face. Default: the recipe's own model.",
        parse=_model,
        default=lambda a: recipes.recipe(a.grpo.recipe)["model"],
        advanced=True,
    )
    dataset: str = question(
        label="Data set",
        help="GSM8K, with answers reduced to the final number.",
        parse=_dataset,
        default="openai/gsm8k",
    )
    max_num_steps: int = question(
        label="Steps",
        help="Number of GRPO steps.",
        parse=validators.integer(1, 1_000_000),
        default=10,
        kind="integer",
    )
    num_prompts_per_step: int = question(
        label="Prompts per step",
        help="Each prompt produces one group of generations.",
        parse=validators.integer(1, 65536),
        default=16,
        kind="integer",
    )
    num_generations_per_prompt: int = question(
        label="Generations per prompt",
        help="Size of the group within which advantages are computed: at least 2, preferably 3 or more.",
        parse=validators.integer(1, 4096),
        default=32,
        kind="integer",
    )
    colocated: bool = question(
        label="Colocated",
        help="Generate on the GPUs that also train. If off, one node generates and the others train.",
        parse=validators.switch,
        default=False,
        kind="switch",
    )
    checkpoint_dir: str = question(
        label="Checkpoints",
        help="A directory on Lustre. If it contains step_N, the run will resume from there.",
        parse=_path,
        default="/data/nemo_rl_gemma3_27b",
    )
    wandb: bool = question(
        label="Weights & Biases",
        help="Log the run to Weights & Biases. Requires an API key.",
        parse=validators.switch,
        default=False,
        kind="switch",
    )
    seed: int = question(
        label="Seed",
        help="Determines the prompt order and the sampling.",
        parse=validators.integer(0, 2**31 - 1),
        default=42,
        kind="integer",
    )
    after_job: str = question(
        label="After the job",
        help="release: delete the GPU nodes grpo.release_minutes after the job ends. keep: keep them.",
        parse=validators.choice(("release", "keep")),
        default="release",
        kind="choice",
        choices=("release", "keep"),
    )
    release_minutes: float = question(
        label="Release after",
        help="Minutes between the end of the job and the release of the GPU nodes.",
        parse=validators.number(0, 10080),
        default=30,
        kind="number",
        unit="minutes",
    )
    max_hours: float = question(
        label="Time limit",
        help="Hours after which the job is stopped and the GPU nodes are released, even if they would be kept. 0: no limit.",
        parse=validators.number(0, 8760),
        default=24,
        kind="number",
        unit="hours",
    )
    job_name: str = question(
        label="Job name",
        help="The name of the run in logs and in Weights & Biases.",
        parse=validators.cluster_name,
        default=lambda a: _job_name(a.grpo.checkpoint_dir),
        advanced=True,
    )
    generation_nodes: int = question(
        label="Generation nodes",
        help="Number of nodes used for generation if it is not colocated.",
        parse=validators.integer(1, 63),
        default=1,
        kind="integer",
        advanced=True,
        shown_when=lambda a: not a.grpo.colocated,
    )
    tensor_parallel: int = question(
        label="Tensor parallel (training)",
        help="GPUs that share one copy of the model during training.",
        parse=validators.integer(1, 64),
        default=lambda a: min(recipes.tensor_parallel(a.grpo.recipe), _max_tensor_parallel(a)),
        kind="integer",
        advanced=True,
    )
    vllm_tensor_parallel: int = question(
        label="Tensor parallel (generation)",
        help="GPUs that share one copy of the model during generation.",
        parse=validators.integer(1, 64),
        default=lambda a: min(_vllm_tensor_parallel(a.grpo), _max_tensor_parallel(a)),
        kind="integer",
        advanced=True,
    )
    gpu_memory_utilization: float = question(
        label="vLLM memory share",
        help="Share of GPU memory that vLLM may use for generation.",
        parse=validators.number(0.05, 0.98),
        default=lambda a: recipes.recipe(a.grpo.recipe)["vllm_memory"] if a.grpo.colocated else 0.9,
        kind="number",
        advanced=True,
    )
    final_number_answers: bool = question(
        label="Final-number answers",
        help="Pass only the number after #### to NeMo RL. With the raw column, every reward is 0.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    checkpoint_gb: int = question(
        label="Checkpoint size",
        help="In GB. Used to check whether checkpoints fit on Lustre. 0: unknown.",
        parse=validators.integer(0, 100_000),
        default=lambda a: recipes.checkpoint_gb(a.grpo.recipe),
        kind="integer",
        unit="GB",
        advanced=True,
    )
    overrides: list[str] = question(
        label="Additional overrides",
        help="Additional Hydra overrides, separated by spaces. Quote values that contain spaces.",
        parse=_parse_overrides,
        default=[],
        advanced=True,
        optional=True,
    )


def _job_name(checkpoint_dir: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", checkpoint_dir.rstrip("/").rpartition("/")[2].lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"run-{plain}")[:40].rstrip("-")


def _max_tensor_parallel(answers: Answers) -> int:
    """GPUs of a node that one copy of the model may use: half if a single node splits its GPUs between training and generation."""
    apart = answers.quotas.gpu_nodes == 1 and not answers.grpo.colocated
    return recipes.GPUS_PER_NODE // 2 if apart else 64


def _vllm_tensor_parallel(grpo: GrpoAnswers) -> int:
    row = recipes.recipe(grpo.recipe)
    return (
        int(row["vllm_tensor_parallel"])
        if grpo.colocated or (recipes.model(row["model"]).params_b or 0) < 20
        else recipes.GPUS_PER_NODE
    )
