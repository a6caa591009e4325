"""A constraint of NeMo RL v0.5.0, and the run it applies to: which GPUs train, which generate, and the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import Level
from grpo_wizard.steps.grpo.entrypoint import hydra_quote
from grpo_wizard.steps.grpo.nemo_config import NemoConfig, resolve_config
from grpo_wizard.steps.grpo.recipes import ModelShape, model

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_NEMO_RL = "https://github.com/NVIDIA-NeMo/RL/blob/v0.5.0/nemo_rl"
PROMPTS, GENERATIONS = "grpo.num_prompts_per_step", "grpo.num_generations_per_prompt"
TRAIN_BATCH, MICRO_BATCH, LOGPROB_BATCH = (
    "policy.train_global_batch_size",
    "policy.train_micro_batch_size",
    "policy.logprob_batch_size",
)
VLLM, GENERATION_RESOURCES = "policy.generation.vllm_cfg", "policy.generation.colocated.resources"
DTENSOR, MEGATRON = "policy.dtensor_cfg", "policy.megatron_cfg"
# The answer that sets a key; a key without one is set by an override.
_FIELD_OF_KEY = {
    PROMPTS: PROMPTS,
    GENERATIONS: GENERATIONS,
    "grpo.max_num_steps": "grpo.max_num_steps",
    "policy.model_name": "grpo.model",
    f"{DTENSOR}.tensor_parallel_size": "grpo.tensor_parallel",
    f"{MEGATRON}.tensor_model_parallel_size": "grpo.tensor_parallel",
    f"{VLLM}.tensor_parallel_size": "grpo.vllm_tensor_parallel",
    f"{VLLM}.gpu_memory_utilization": "grpo.gpu_memory_utilization",
    "policy.generation.colocated.enabled": "grpo.colocated",
    f"{GENERATION_RESOURCES}.num_nodes": "grpo.generation_nodes",
    "cluster.num_nodes": "quotas.gpu_nodes",
}


@dataclass(frozen=True)
class Violation:
    """A broken constraint: one sentence, and the smallest change that satisfies it."""

    text: str
    fix: str
    level: Level = "block"


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """One row of the table. `source` is the URL of the line in NeMo RL v0.5.0 that enforces it."""

    id: str
    description: str
    source: str
    validate: Callable[[RunLayout], Iterable[Violation]]


@dataclass(frozen=True)
class RunLayout:
    """A run as NeMo RL lays it out. Sizes are numbers of GPUs unless the name says otherwise."""

    answers: Answers
    config: NemoConfig

    @classmethod
    def from_answers(cls, answers: Answers) -> RunLayout:
        return cls(answers, resolve_config(answers))

    def suggest_setting(self, key: str, value: str | int | float | bool | None) -> str:
        """The instruction to set `key` to `value`: by the answer that sets it, else by an override."""
        if key in self.config.overridden:
            return f"In grpo.overrides, set {key}={hydra_quote(value)}."
        if key in _FIELD_OF_KEY:
            return f"Set {_FIELD_OF_KEY[key]}={str(value).lower() if isinstance(value, bool) else value}."
        return f"Add {key}={hydra_quote(value)} to grpo.overrides."

    @property
    def nodes(self) -> int:
        return self.config.number("cluster.num_nodes")

    @property
    def gpus_per_node(self) -> int:
        return self.config.number("cluster.gpus_per_node")

    @property
    def colocated(self) -> bool:
        return self.config.is_enabled("policy.generation.colocated.enabled")

    @property
    def generation_nodes(self) -> int:
        """Nodes that only generate; 0 if generation shares a node."""
        return (
            0
            if self.colocated or self.nodes == 1
            else self.config.number(f"{GENERATION_RESOURCES}.num_nodes", 0)
        )

    @property
    def generation_gpus_per_node(self) -> int:
        return self.config.number(f"{GENERATION_RESOURCES}.gpus_per_node", 0)

    @property
    def generation_gpus(self) -> int:
        if self.colocated:
            return self.nodes * self.gpus_per_node
        return self.generation_gpus_per_node * (1 if self.nodes == 1 else self.generation_nodes)

    @property
    def train_gpus(self) -> int:
        """Zero or negative if no GPU is left for training (R1, R2)."""
        if self.colocated:
            return self.nodes * self.gpus_per_node
        if self.nodes == 1:
            return self.gpus_per_node - self.generation_gpus_per_node
        return (self.nodes - self.generation_nodes) * self.gpus_per_node

    @property
    def uses_megatron(self) -> bool:
        return self.config.is_enabled(f"{MEGATRON}.enabled")

    @property
    def tensor_parallel_key(self) -> str:
        return (
            f"{MEGATRON}.tensor_model_parallel_size"
            if self.uses_megatron
            else f"{DTENSOR}.tensor_parallel_size"
        )

    @property
    def tensor_parallel(self) -> int:
        return max(1, self.config.number(self.tensor_parallel_key))

    @property
    def pipeline_parallel(self) -> int:
        """1 with DTensor, which has no pipeline parallelism."""
        return (
            max(1, self.config.number(f"{MEGATRON}.pipeline_model_parallel_size"))
            if self.uses_megatron
            else 1
        )

    @property
    def context_parallel_key(self) -> str:
        return f"{MEGATRON if self.uses_megatron else DTENSOR}.context_parallel_size"

    @property
    def context_parallel(self) -> int:
        return max(1, self.config.number(self.context_parallel_key))

    @property
    def data_parallel(self) -> int:
        """Copies of the model that train side by side; 1 if R3 is broken."""
        whole = self.tensor_parallel * self.pipeline_parallel * self.context_parallel
        return self.train_gpus // whole if self.train_gpus >= whole and self.train_gpus % whole == 0 else 1

    @property
    def vllm_tensor_parallel(self) -> int:
        return max(1, self.config.number(f"{VLLM}.tensor_parallel_size"))

    @property
    def vllm_pipeline_parallel(self) -> int:
        return max(1, self.config.number(f"{VLLM}.pipeline_parallel_size"))

    @property
    def prompts_per_step(self) -> int:
        return self.config.number(PROMPTS)

    @property
    def generations_per_prompt(self) -> int:
        return self.config.number(GENERATIONS)

    @property
    def samples_per_step(self) -> int:
        return self.prompts_per_step * self.generations_per_prompt

    @property
    def train_global_batch_size(self) -> int:
        return max(1, self.config.number(TRAIN_BATCH))

    @property
    def model_name(self) -> str:
        return str(self.config["policy.model_name"])

    @cached_property
    def model(self) -> ModelShape:
        return model(self.model_name)

    @property
    def sequence_packing(self) -> bool:
        return self.config.is_enabled("policy.sequence_packing.enabled")

    @property
    def dynamic_batching(self) -> bool:
        return self.config.is_enabled("policy.dynamic_batching.enabled")


def nemo_rl_url(path: str, line: int) -> str:
    """The URL of a line in the source of NeMo RL v0.5.0."""
    return f"{_NEMO_RL}/{path}#L{line}"


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of `number` that is at most `limit`."""
    return max(d for d in range(1, max(1, min(number, limit)) + 1) if number % d == 0)
