"""GPU memory during training and generation, by plain arithmetic, so that a run that cannot fit is reported beforehand.

Inferred from the code of NeMo RL v0.5.0 (https://github.com/NVIDIA-NeMo/RL/tree/v0.5.0), not measured: activations and
buffers come on top, which is why only half of a GPU counts as ok. GB are 1e9 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.grpo.constraints.model import MICRO_BATCH, VLLM, RunLayout
from grpo_wizard.steps.grpo.recipes import (
    GPUS_PER_NODE,
    ModelShape,
    model,
    published_recipes,
    recipe,
    recipes_by_name,
    tensor_parallel,
)

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

MemoryFit = Literal["ok", "tight", "oom", "unknown"]
OK_SHARE, TIGHT_SHARE = 0.50, 0.65  # shares of a GPU's memory
_COLOCATED_VLLM_SHARE = 0.7  # the most that recipes give vLLM on a shared GPU, except for one at 0.8
# Bytes per parameter: fp32 weights 4, reduced gradients 4, two Adam moments 8; sharded over all training GPUs.
_STATE_BYTES = 16
_LOGIT_COPIES, _LOGIT_BYTES = 3, 4
_FIT_ORDER: tuple[MemoryFit, ...] = ("ok", "unknown", "tight", "oom")


@dataclass(frozen=True, kw_only=True)
class GpuWorkload:
    """What a run holds in GPU memory, in the units of its configuration."""

    model: ModelShape
    train_gpus: int
    tensor_parallel: int
    micro_batch_tokens: int  # of a training micro batch
    vllm_tensor_parallel: int
    gpu_memory_utilization: float
    max_model_len: int
    colocated: bool = False
    weight_bytes: int = 2  # of vLLM's weights; fp8: 1
    cache_bytes: int = 2


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Memory of one GPU in GB. None where the model's shape is unknown."""

    gpu: str
    memory_gb: float
    state_gb: float | None
    logits_gb: float | None
    weights_gb: float | None
    cache_gb: float | None  # left to vLLM for keys and values
    sequences: int | None  # of full length whose keys and values fit at the same time
    training: MemoryFit
    generation: MemoryFit

    @property
    def fit(self) -> MemoryFit:
        """The worse of training and generation."""
        return max(self.training, self.generation, key=_FIT_ORDER.index)

    @property
    def share(self) -> float | None:
        """The share of a GPU's memory in use during training."""
        return None if self.state_gb is None else (self.state_gb + (self.logits_gb or 0)) / self.memory_gb

    def text(self) -> str:
        """The figures in two sentences."""
        if self.state_gb is None or self.share is None or self.weights_gb is None:
            return "The catalog does not list this model's size."
        logits = "" if self.logits_gb is None else f" and {self.logits_gb:.1f} GB for logits"
        at_once = "" if self.sequences is None else f", enough for {self.sequences} full-length sequences"
        return (
            f"Training needs {self.state_gb:.1f} GB for state{logits} ({self.share:.0%} of {self.memory_gb:.0f} GB), plus activations. "
            f"vLLM needs {self.weights_gb:.1f} GB for weights and has {max(0.0, self.cache_gb or 0.0):.1f} GB left for the KV cache{at_once}."
        )


def estimate_gpu(load: GpuWorkload, gpu_type: str) -> MemoryEstimate:
    """Estimate the memory of one GPU of an accelerator type."""
    gpu, size = catalog.gpu_spec(gpu_type), load.model.params_b
    memory = float(gpu["memory_gb"])
    if size is None or load.train_gpus < 1:
        return MemoryEstimate(
            gpu=gpu["title"],
            memory_gb=memory,
            state_gb=None,
            logits_gb=None,
            weights_gb=None,
            cache_gb=None,
            sequences=None,
            training="unknown",
            generation="unknown",
        )
    state = _STATE_BYTES * size / load.train_gpus
    logits = None
    if load.model.vocab is not None:
        logits = (
            _LOGIT_COPIES
            * load.micro_batch_tokens
            * load.model.vocab
            * _LOGIT_BYTES
            / load.tensor_parallel
            / 1e9
        )
    weights = load.weight_bytes * size / load.vllm_tensor_parallel
    cache, each = load.gpu_memory_utilization * memory - weights, _sequence_gb(load)
    sequences = None if each is None else max(0, int(cache / each))
    return MemoryEstimate(
        gpu=gpu["title"],
        memory_gb=memory,
        state_gb=round(state, 2),
        logits_gb=None if logits is None else round(logits, 2),
        weights_gb=round(weights, 2),
        cache_gb=round(cache, 2),
        sequences=sequences,
        training=classify_share((state + (logits or 0)) / memory),
        generation=_generation_fit(load, cache, sequences),
    )


def classify_share(share: float) -> MemoryFit:
    """Classify a share of a GPU's memory."""
    return "ok" if share <= OK_SHARE else "tight" if share <= TIGHT_SHARE else "oom"


def _generation_fit(load: GpuWorkload, cache: float, sequences: int | None) -> MemoryFit:
    if cache <= 0 or sequences == 0:
        return "oom"  # vLLM refuses to start when one sequence does not fit
    return "tight" if load.colocated and load.gpu_memory_utilization > _COLOCATED_VLLM_SHARE else "ok"


def _sequence_gb(load: GpuWorkload) -> float | None:
    """Keys and values of one full-length sequence on one GPU; an upper bound, as windowed layers keep less."""
    it = load.model
    if it.layers is None or it.kv_heads is None or it.head_dim is None:
        return None
    heads = max(1.0, it.kv_heads / load.vllm_tensor_parallel)
    return 2 * it.layers * heads * it.head_dim * load.cache_bytes * load.max_model_len / 1e9


def estimate_run(answers: Answers) -> MemoryEstimate:
    """Estimate the run that the answers describe, overrides included."""
    return estimate_gpu(workload_of(RunLayout.from_answers(answers)), answers.quotas.gpu_type)


def workload_of(run: RunLayout) -> GpuWorkload:
    """What the run holds in GPU memory."""
    settings = run.config
    length = settings.number("policy.max_total_sequence_length")
    batching = (
        "sequence_packing" if run.sequence_packing else "dynamic_batching" if run.dynamic_batching else ""
    )
    tokens = length * max(1, settings.number(MICRO_BATCH))
    share = settings[f"{VLLM}.gpu_memory_utilization"]
    return GpuWorkload(
        model=run.model,
        train_gpus=run.train_gpus,
        tensor_parallel=run.tensor_parallel,
        micro_batch_tokens=settings.number(f"policy.{batching}.train_mb_tokens", tokens)
        if batching
        else tokens,
        vllm_tensor_parallel=run.vllm_tensor_parallel * run.vllm_pipeline_parallel,
        gpu_memory_utilization=float(share) if isinstance(share, int | float) else 0.6,
        max_model_len=settings.number(f"{VLLM}.max_model_len", length),
        colocated=run.colocated,
        weight_bytes=1 if settings[f"{VLLM}.precision"] == "fp8" else 2,
        cache_bytes=1 if str(settings[f"{VLLM}.kv_cache_dtype"]).startswith("fp8") else 2,
    )


def estimate_recipe(name: str, nodes: int, gpu_type: str) -> MemoryEstimate | None:
    """Estimate a recipe as published, on `nodes` nodes of eight GPUs; None if its parallel sizes do not fit them."""
    row = recipe(name)
    own, tensor = row["settings"], tensor_parallel(name)
    training = nodes * GPUS_PER_NODE
    if not row["colocated"]:
        training -= GPUS_PER_NODE // 2 if nodes == 1 else GPUS_PER_NODE
    generating = nodes * GPUS_PER_NODE if row["colocated"] else min(GPUS_PER_NODE, nodes * GPUS_PER_NODE // 2)
    context = own.get("policy.megatron_cfg.context_parallel_size", 1)
    if (
        training % (tensor * (row["pipeline_parallel"] or 1) * context)
        or generating % row["vllm_tensor_parallel"]
    ):
        return None
    length = row["max_total_sequence_length"]
    load = GpuWorkload(
        model=model(row["model"]),
        train_gpus=training,
        tensor_parallel=tensor,
        micro_batch_tokens=length * own.get(MICRO_BATCH, catalog.load("recipes")["base"][MICRO_BATCH]),
        vllm_tensor_parallel=row["vllm_tensor_parallel"],
        gpu_memory_utilization=row["vllm_memory"],
        max_model_len=length,
        colocated=row["colocated"],
        weight_bytes=1 if own.get(f"{VLLM}.precision") == "fp8" else 2,
        cache_bytes=1 if str(own.get(f"{VLLM}.kv_cache_dtype", "")).startswith("fp8") else 2,
    )
    return estimate_gpu(load, gpu_type)


@dataclass(frozen=True)
class RecipeFit:
    """A recipe that fits. `published`: its authors ran it on no more GPUs than these."""

    recipe: str
    fit: MemoryFit  # ok or tight
    published: bool


def fitting_recipes(nodes: int, gpu_type: str) -> list[RecipeFit]:
    """The recipes that `nodes` nodes of eight GPUs can run: published sizes first, the largest first, then those that fit by memory alone."""
    sizes = set(published_recipes(nodes))
    order = [*published_recipes(nodes), *(name for name in recipes_by_name() if name not in sizes)]
    found = []
    for name in order:
        estimate = estimate_recipe(name, nodes, gpu_type)
        if estimate is not None and estimate.fit in ("ok", "tight"):
            found.append(RecipeFit(name, estimate.fit, name in sizes))
    return found
