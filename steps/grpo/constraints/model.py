"""What a rule of NeMo RL v0.5.0 is, and the run that rules look at: who trains, who generates, and with which settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grpo_wizard.steps.core.model import Answers, Level
from grpo_wizard.steps.grpo.entrypoint import hydra_quote
from grpo_wizard.steps.grpo.nemo_config import Settings, effective
from grpo_wizard.steps.grpo.recipes import Model, model

PROMPTS, GROUP = "grpo.num_prompts_per_step", "grpo.num_generations_per_prompt"
TRAIN_BATCH, MICRO, LOGPROB = (
    "policy.train_global_batch_size",
    "policy.train_micro_batch_size",
    "policy.logprob_batch_size",
)
VLLM, WHERE = "policy.generation.vllm_cfg", "policy.generation.colocated.resources"
DTENSOR, MEGATRON = "policy.dtensor_cfg", "policy.megatron_cfg"
# Which answer says a key; what has none is said as an override.
_ANSWERS = {
    PROMPTS: PROMPTS,
    GROUP: GROUP,
    "grpo.max_num_steps": "grpo.max_num_steps",
    "policy.model_name": "grpo.model",
    f"{DTENSOR}.tensor_parallel_size": "grpo.tensor_parallel",
    f"{MEGATRON}.tensor_model_parallel_size": "grpo.tensor_parallel",
    f"{VLLM}.tensor_parallel_size": "grpo.vllm_tensor_parallel",
    f"{VLLM}.gpu_memory_utilization": "grpo.gpu_memory_utilization",
    "policy.generation.colocated.enabled": "grpo.colocated",
    f"{WHERE}.num_nodes": "grpo.generation_nodes",
    "cluster.num_nodes": "quotas.gpu_nodes",
}


@dataclass(frozen=True)
class Broken:
    """Where a rule is not kept: one sentence, and the nearest way to keep it."""

    text: str
    fix: str
    level: Level = "block"


@dataclass(frozen=True)
class Rule:
    """One row of the table. `source` is a file and line of NeMo RL v0.5.0."""

    id: str
    what: str
    source: str
    judge: Callable[[Run], Iterable[Broken]]


@dataclass(frozen=True)
class Run:
    """A run as NeMo RL would lay it out. Sizes are GPUs unless they say otherwise."""

    answers: Answers
    settings: Settings

    @classmethod
    def of(cls, answers: Answers) -> Run:
        return cls(answers, effective(answers))

    def fix(self, key: str, value: Any) -> str:
        """How to say that `key` is to be `value`: as an answer where one says it, else as an override."""
        if key in self.settings.said:
            return f"in grpo.overrides set {key}={hydra_quote(value)}"
        if key in _ANSWERS:
            return f"set {_ANSWERS[key]}={str(value).lower() if isinstance(value, bool) else value}"
        return f"add {key}={hydra_quote(value)} to grpo.overrides"

    @property
    def nodes(self) -> int:
        return self.settings.number("cluster.num_nodes")

    @property
    def per_node(self) -> int:
        return self.settings.number("cluster.gpus_per_node")

    @property
    def colocated(self) -> bool:
        return self.settings.on("policy.generation.colocated.enabled")

    @property
    def generation_nodes(self) -> int:
        """Nodes that only generate; 0 where generation shares a node."""
        return 0 if self.colocated or self.nodes == 1 else self.settings.number(f"{WHERE}.num_nodes", 0)

    @property
    def generation_per_node(self) -> int:
        return self.settings.number(f"{WHERE}.gpus_per_node", 0)

    @property
    def generation_gpus(self) -> int:
        if self.colocated:
            return self.nodes * self.per_node
        return self.generation_per_node * (1 if self.nodes == 1 else self.generation_nodes)

    @property
    def train_gpus(self) -> int:
        """Negative or 0 where nothing is left for training (R1, R2)."""
        if self.colocated:
            return self.nodes * self.per_node
        if self.nodes == 1:
            return self.per_node - self.generation_per_node
        return (self.nodes - self.generation_nodes) * self.per_node

    @property
    def megatron(self) -> bool:
        return self.settings.on(f"{MEGATRON}.enabled")

    @property
    def tensor_key(self) -> str:
        return (
            f"{MEGATRON}.tensor_model_parallel_size" if self.megatron else f"{DTENSOR}.tensor_parallel_size"
        )

    @property
    def tensor(self) -> int:
        return max(1, self.settings.number(self.tensor_key))

    @property
    def pipeline(self) -> int:
        """DTensor has none."""
        return (
            max(1, self.settings.number(f"{MEGATRON}.pipeline_model_parallel_size")) if self.megatron else 1
        )

    @property
    def context_key(self) -> str:
        return f"{MEGATRON if self.megatron else DTENSOR}.context_parallel_size"

    @property
    def context(self) -> int:
        return max(1, self.settings.number(self.context_key))

    @property
    def copies(self) -> int:
        """DP: copies of the model that train side by side; 1 where R3 is not kept."""
        whole = self.tensor * self.pipeline * self.context
        return self.train_gpus // whole if self.train_gpus >= whole and self.train_gpus % whole == 0 else 1

    @property
    def vllm_tensor(self) -> int:
        return max(1, self.settings.number(f"{VLLM}.tensor_parallel_size"))

    @property
    def vllm_pipeline(self) -> int:
        return max(1, self.settings.number(f"{VLLM}.pipeline_parallel_size"))

    @property
    def prompts(self) -> int:
        return self.settings.number(PROMPTS)

    @property
    def group(self) -> int:
        return self.settings.number(GROUP)

    @property
    def batch(self) -> int:
        return self.prompts * self.group

    @property
    def train_batch(self) -> int:
        return max(1, self.settings.number(TRAIN_BATCH))

    @property
    def model_name(self) -> str:
        return str(self.settings["policy.model_name"])

    @cached_property
    def model(self) -> Model:
        return model(self.model_name)

    @property
    def packs(self) -> bool:
        return self.settings.on("policy.sequence_packing.enabled")

    @property
    def dynamic(self) -> bool:
        return self.settings.on("policy.dynamic_batching.enabled")


def divisor_below(whole: int, wanted: int) -> int:
    """The largest divisor of `whole` that is not above `wanted`."""
    return max(d for d in range(1, max(1, min(whole, wanted)) + 1) if whole % d == 0)
