"""NeMo RL's configuration of a run: the base file, the recipe, the answers, and the user's overrides on top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.answers import InvalidValue
from grpo_wizard.steps.grpo.entrypoint import hydra_quote
from grpo_wizard.steps.grpo.recipes import GPUS_PER_NODE, recipe

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers
    from grpo_wizard.steps.grpo.answers import GrpoAnswers

# In grpo_math_1B.yaml these refer to ${policy.max_total_sequence_length}.
_KEYS_FOLLOWING_SEQUENCE_LENGTH = (
    "policy.generation.max_new_tokens",
    "policy.generation.vllm_cfg.max_model_len",
    "data.max_input_seq_length",
)
_MAX_SEQUENCE_LENGTH = "policy.max_total_sequence_length"


OverrideValue = str | int | float | bool | None
"""What the wizard sets a key to."""


@dataclass(frozen=True)
class Override:
    """One override, parsed by Hydra's own grammar. `text` is the original."""

    key: str
    value: Any
    text: str
    deleted: bool = False


def parse_override(text: str) -> Override:
    """Parse an override with Hydra, so that an invalid one is rejected before any machine is requested. Raises InvalidValue."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        [parsed] = OverridesParser.create().parse_overrides([text])
    except HydraException as error:
        reason = str(error).splitlines()[0]
        raise InvalidValue(
            f"must be Hydra overrides such as grpo.val_period=5 or +data.shuffle=false; {text} is invalid: {reason}"
        ) from error
    if not parsed.key_or_group:
        raise InvalidValue(f"must have a key before the equals sign, unlike {text}")
    if parsed.is_sweep_override():
        raise InvalidValue(f"must have one value per key, but {text} is a sweep")
    return Override(parsed.key_or_group, parsed.value(), text, parsed.is_delete())


def split_overrides(text: str) -> list[str]:
    """Split a line at spaces outside quotes, brackets and braces."""
    found, word, quote, depth, escaped = [], "", "", 0, False
    for sign in text:
        if quote:
            quote = "" if sign == quote and not escaped else quote
            escaped = sign == "\\" and not escaped
        elif sign in "'\"":
            quote = sign
        elif sign in "[{(":
            depth += 1
        elif sign in "]})":
            depth -= 1
        elif sign.isspace() and depth <= 0:
            found.append(word)
            word = ""
            continue
        word += sign
    return [each for each in (*found, word) if each]


@dataclass(frozen=True)
class NemoConfig:
    """Dotted keys and their values. `overridden` are the keys that the user's own overrides set."""

    values: Mapping[str, Any]
    overridden: frozenset[str] = field(default_factory=frozenset)

    def __getitem__(self, key: str) -> object:
        return self.values.get(key)

    def number(self, key: str, default: int = 1) -> int:
        """The value of `key` as a whole number; `default` if it is not one."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def is_enabled(self, key: str) -> bool:
        return self.values.get(key) is True


def wizard_overrides(answers: Answers) -> list[tuple[str, OverrideValue]]:
    """The overrides that the answers imply, in the tutorial's order; paths are on Lustre."""
    grpo, nodes, row = answers.grpo, answers.quotas.gpu_nodes, recipe(answers.grpo.recipe)
    settings: list[tuple[str, OverrideValue]] = [
        ("cluster.num_nodes", nodes),
        ("cluster.gpus_per_node", GPUS_PER_NODE),
        ("grpo.max_num_steps", grpo.max_num_steps),
        ("grpo.seed", grpo.seed),
        ("grpo.num_prompts_per_step", grpo.num_prompts_per_step),
        ("grpo.num_generations_per_prompt", grpo.num_generations_per_prompt),
        ("policy.model_name", grpo.model),
        ("checkpointing.checkpoint_dir", grpo.checkpoint_dir),
        ("logger.log_dir", f"/data/logs/{grpo.job_name}"),
        ("logger.tensorboard_enabled", False),
        ("logger.wandb_enabled", grpo.wandb),
        ("logger.wandb.name", grpo.job_name),
        (tensor_parallel_key(row), grpo.tensor_parallel),
        ("policy.generation.colocated.enabled", grpo.colocated),
        ("policy.generation.vllm_cfg.tensor_parallel_size", grpo.vllm_tensor_parallel),
        ("policy.generation.vllm_cfg.gpu_memory_utilization", grpo.gpu_memory_utilization),
    ]
    batch = grpo.num_prompts_per_step * grpo.num_generations_per_prompt
    if batch % row["train_global_batch_size"]:
        settings.append(
            ("policy.train_global_batch_size", batch)
        )  # R6: samples per step must be a multiple of it
    return settings + ([] if grpo.colocated else _generation_resources(grpo, nodes))


def _generation_resources(grpo: GrpoAnswers, nodes: int) -> list[tuple[str, OverrideValue]]:
    resources, alone = "policy.generation.colocated.resources", nodes == 1
    return [
        (f"{resources}.num_nodes", None if alone else grpo.generation_nodes),
        (f"{resources}.gpus_per_node", GPUS_PER_NODE // 2 if alone else GPUS_PER_NODE),
    ]


def tensor_parallel_key(row: Mapping[str, object]) -> str:
    """The key of the training tensor parallel size: each backend has its own."""
    if row["backend"] == "mcore":
        return "policy.megatron_cfg.tensor_model_parallel_size"
    return "policy.dtensor_cfg.tensor_parallel_size"


def hydra_overrides(answers: Answers) -> list[str]:
    """The Hydra overrides of the job, quoted for Hydra: those of the answers, then the user's."""
    own = [f"{key}={hydra_quote(value)}" for key, value in wizard_overrides(answers)]
    return own + list(answers.grpo.overrides)


def resolve_config(answers: Answers) -> NemoConfig:
    """The configuration that NeMo RL runs with. Unknown keys are kept as given."""
    row = recipe(answers.grpo.recipe)
    overrides = list(_parse_overrides(answers.grpo.overrides))
    values = {**catalog.load("recipes")["base"], **_recipe_values(row), **dict(wizard_overrides(answers))}
    for each in overrides:
        values.pop(each.key, None) if each.deleted else values.update({each.key: each.value})
    for key in _KEYS_FOLLOWING_SEQUENCE_LENGTH:
        if key not in row["settings"] and not any(each.key == key for each in overrides):
            values[key] = values.get(_MAX_SEQUENCE_LENGTH)
    return NemoConfig(values, frozenset(each.key for each in overrides))


def _parse_overrides(texts: Sequence[str]) -> Iterator[Override]:
    return (parse_override(text) for text in texts)


def _recipe_values(row: Mapping[str, Any]) -> dict[str, Any]:
    mcore = row["backend"] == "mcore"
    return {
        "policy.train_global_batch_size": row["train_global_batch_size"],
        _MAX_SEQUENCE_LENGTH: row["max_total_sequence_length"],
        "policy.dtensor_cfg.enabled": not mcore,
        "policy.dtensor_cfg._v2": row["backend"] == "dtensor2",
        "policy.megatron_cfg.enabled": mcore,
        "policy.megatron_cfg.pipeline_model_parallel_size": row["pipeline_parallel"] or 1,
        "checkpointing.model_save_format": None if row["backend"] == "dtensor1" else "safetensors",
        **row["settings"],
    }
