"""Constraints R11 to R16, R18, R21 and R22: backends, sampling, validation, checkpoints, lengths, licences."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_wizard.steps.grpo.constraints.model import (
    DTENSOR,
    MEGATRON,
    TRAIN_BATCH,
    VLLM,
    Constraint,
    RunLayout,
    Violation,
    largest_divisor,
)

_TOP_P, _TOP_K = 0.99, 8000  # vllm_generation.py:43-44
_VALIDATION_METRICS = ("val:accuracy", "val:avg_length")  # grpo.py:1779
_GATED_MODEL_PREFIXES = ("google/gemma-3-", "meta-llama/")


def _training_backend(run: RunLayout) -> Iterator[Violation]:
    dtensor = run.config.is_enabled(f"{DTENSOR}.enabled")
    if dtensor == run.uses_megatron:
        off = MEGATRON if dtensor else DTENSOR
        other = (
            "neither DTensor nor Megatron is enabled"
            if not dtensor
            else "both DTensor and Megatron are enabled"
        )
        yield Violation(
            f"{other}; exactly one training backend is required",
            run.suggest_setting(f"{off}.enabled", not dtensor),
        )
    if not dtensor or run.uses_megatron or run.config.is_enabled(f"{DTENSOR}._v2"):
        return
    form = run.config["checkpointing.model_save_format"]
    if form is not None and run.config.is_enabled("checkpointing.enabled"):
        yield Violation(
            f"DTensor v1 saves in its own format, not as {form}, so the first checkpoint would fail",
            run.suggest_setting("checkpointing.model_save_format", None),
        )
    if run.config.is_enabled(f"{DTENSOR}.lora_cfg.enabled"):
        yield Violation(
            "DTensor v1 does not support LoRA", run.suggest_setting(f"{DTENSOR}.lora_cfg.enabled", False)
        )


def _sampling(run: RunLayout) -> Iterator[Violation]:
    top_p, top_k = run.config["policy.generation.top_p"], run.config["policy.generation.top_k"]
    if isinstance(top_p, int | float) and top_p < _TOP_P:
        yield Violation(
            f"top_p is {top_p}: vLLM does not return the probabilities of filtered tokens",
            run.suggest_setting("policy.generation.top_p", 1.0),
        )
    if isinstance(top_k, int) and top_k != -1 and top_k < _TOP_K:
        yield Violation(
            f"top_k is {top_k}: vLLM does not return the probabilities of filtered tokens",
            run.suggest_setting("policy.generation.top_k", None),
        )


def _runs_validation(run: RunLayout) -> bool:
    return run.config.number("grpo.val_period", 0) > 0 or run.config.is_enabled("grpo.val_at_start")


def _validation_samples(run: RunLayout) -> Iterator[Violation]:
    if not _runs_validation(run):
        return
    rows, batch = run.config.number("grpo.max_val_samples", 0), run.config.number("grpo.val_batch_size")
    if rows < max(1, batch):
        yield Violation(
            f"{rows} validation samples are fewer than one batch of {batch}, so validation fails",
            run.suggest_setting("grpo.val_batch_size", rows)
            if rows > 0
            else run.suggest_setting("grpo.max_val_samples", batch),
        )


def _dynamic_sampling(run: RunLayout) -> Iterator[Violation]:
    more, batches = (
        run.config["grpo.batch_multiplier"],
        run.config["grpo.dynamic_sampling_max_gen_batches"],
    )
    if not run.config.is_enabled("grpo.use_dynamic_sampling"):
        if more != 1:
            yield Violation(
                f"a batch multiplier of {more} requires dynamic sampling",
                run.suggest_setting("grpo.batch_multiplier", 1),
            )
        return
    if isinstance(batches, int) and batches < 1:
        yield Violation(
            "dynamic sampling needs at least one generation batch",
            run.suggest_setting("grpo.dynamic_sampling_max_gen_batches", 10),
        )
    if run.config.is_enabled("grpo.async_grpo.enabled"):
        yield Violation(
            "dynamic sampling is not compatible with asynchronous GRPO",
            run.suggest_setting("grpo.use_dynamic_sampling", False),
        )


def _on_policy_ratio(run: RunLayout) -> Iterator[Violation]:
    if (
        run.config.is_enabled("loss_fn.force_on_policy_ratio")
        and run.samples_per_step != run.train_global_batch_size
    ):
        yield Violation(
            f"force_on_policy_ratio requires one update per step, but {run.samples_per_step} samples are trained in batches of {run.train_global_batch_size}",
            run.suggest_setting(TRAIN_BATCH, run.samples_per_step),
        )


def _async_and_fp8(run: RunLayout) -> Iterator[Violation]:
    correction, engine = "loss_fn.use_importance_sampling_correction", f"{VLLM}.async_engine"
    is_async, corrected = run.config.is_enabled("grpo.async_grpo.enabled"), run.config.is_enabled(correction)
    if is_async and run.colocated:
        yield Violation(
            "asynchronous GRPO cannot run with colocated generation",
            run.suggest_setting("policy.generation.colocated.enabled", False),
        )
    if is_async and not run.config.is_enabled(engine):
        yield Violation(
            "asynchronous GRPO requires the vLLM asynchronous engine", run.suggest_setting(engine, True)
        )
    form, cache = str(run.config[f"{VLLM}.precision"]), str(run.config[f"{VLLM}.kv_cache_dtype"])
    if (is_async or form == "fp8") and not corrected:
        yield Violation(
            f"{'asynchronous GRPO' if is_async else 'fp8 generation'} requires importance sampling correction",
            run.suggest_setting(correction, True),
        )
    if not cache.startswith("fp8"):
        return
    bad = {
        "fp8 weights": form == "fp8",
        "the Megatron backend": not run.config.is_enabled(f"{DTENSOR}.enabled"),
        "the synchronous vLLM engine": not run.config.is_enabled(engine),
        "a single pipeline stage": run.pipeline_parallel == 1,
    }
    for need in (name for name, holds in bad.items() if not holds):
        yield Violation(
            f"an fp8 KV cache requires {need}", run.suggest_setting(f"{VLLM}.kv_cache_dtype", "auto")
        )
        return


def _checkpoint_metric(run: RunLayout) -> Iterator[Violation]:
    name, key = run.config["checkpointing.metric_name"], "checkpointing.metric_name"
    if not run.config.is_enabled("checkpointing.enabled") or name is None:
        return
    if not str(name).startswith(("val:", "train:")):
        yield Violation(
            f'{name} does not start with "val:" or "train:", so the first checkpoint would fail',
            run.suggest_setting(
                key, f"val:{name}" if f"val:{name}" in _VALIDATION_METRICS else "val:accuracy"
            ),
        )
        return
    if not str(name).startswith("val:"):
        return
    if name not in _VALIDATION_METRICS:
        yield Violation(
            f"{name} is not a validation metric of the math environment ({', '.join(_VALIDATION_METRICS)}), so the first checkpoint would fail",
            run.suggest_setting(key, "val:accuracy"),
        )
    yield from _save_period(run)


def _save_period(run: RunLayout) -> Iterator[Violation]:
    period, saves = (
        run.config.number("grpo.val_period", 0),
        run.config.number("checkpointing.save_period", 0),
    )
    if saves < 1:
        return
    if period < 1:
        yield Violation(
            "checkpoints are ranked by a validation metric, but validation never runs; the newest are kept",
            run.suggest_setting("checkpointing.metric_name", None),
            "warn",
        )
    elif saves % period:
        yield Violation(
            f"checkpoints every {saves} steps fall between validations every {period} steps and rank last",
            run.suggest_setting("grpo.val_period", largest_divisor(saves, period)),
            "warn",
        )


def _sequence_lengths(run: RunLayout) -> Iterator[Violation]:
    new, room, whole, asked = (
        "policy.generation.max_new_tokens",
        f"{VLLM}.max_model_len",
        "policy.max_total_sequence_length",
        "data.max_input_seq_length",
    )
    length = run.config.number(whole)
    context = run.config.number(room, length)
    if context > length:
        yield Violation(
            f"vLLM's context of {context} tokens exceeds the maximum sequence length of {length}",
            run.suggest_setting(room, length),
        )
    if run.config.number(new, 0) > min(context, length):
        yield Violation(
            f"{run.config.number(new)} new tokens exceed vLLM's context of {min(context, length)} tokens",
            run.suggest_setting(new, min(context, length)),
        )
    if run.config.number(asked, 0) > length:
        yield Violation(
            f"prompts may have {run.config.number(asked)} tokens, which exceeds the maximum sequence length of {length}",
            run.suggest_setting(asked, length),
            "warn",
        )


def _gated_model(run: RunLayout) -> Iterator[Violation]:
    if run.model_name.startswith(_GATED_MODEL_PREFIXES):
        yield Violation(
            f"{run.model_name} is a gated model: HF_TOKEN must belong to an account that has accepted its licence",
            f"accept the licence at https://huggingface.co/{run.model_name} and export HF_TOKEN",
            "info",
        )


_GRPO_SOURCE = "algorithms/grpo.py"
CONSTRAINTS = (
    Constraint(
        "R11",
        "exactly one training backend; DTensor v1 has its own checkpoint format and no LoRA",
        "models/policy/lm_policy.py:84-125, 812-818",
        _training_backend,
    ),
    Constraint(
        "R12",
        f"top_p is {_TOP_P} or more; top_k is null, -1, or {_TOP_K} or more",
        "models/generation/vllm/vllm_generation.py:43-112",
        _sampling,
    ),
    Constraint(
        "R13",
        "validation has at least one full batch",
        f"{_GRPO_SOURCE}:277, 1704-1713",
        _validation_samples,
    ),
    Constraint(
        "R14", "a batch multiplier requires dynamic sampling", f"{_GRPO_SOURCE}:250", _dynamic_sampling
    ),
    Constraint(
        "R15", "force_on_policy_ratio requires one update per step", f"{_GRPO_SOURCE}:604", _on_policy_ratio
    ),
    Constraint(
        "R16",
        "the requirements of asynchronous GRPO and fp8 are met",
        f"{_GRPO_SOURCE}:500-523, 1857-1905",
        _async_and_fp8,
    ),
    Constraint(
        "R18",
        "checkpoints are ranked by a metric that exists when they are saved",
        f"{_GRPO_SOURCE}:1497-1515",
        _checkpoint_metric,
    ),
    Constraint(
        "R21",
        "new tokens fit into vLLM's context, and the context into a sequence",
        "experience/rollouts.py:431; examples/configs/grpo_math_1B.yaml",
        _sequence_lengths,
    ),
    Constraint(
        "R22",
        "gated models need a token of an account that accepted the licence",
        "huggingface.co model cards",
        _gated_model,
    ),
)
