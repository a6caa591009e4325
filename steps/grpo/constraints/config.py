"""R11 to R16, R18, R21 and R22: backends, sampling, validation, checkpoints, sequence lengths, licenses."""

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
    nemo_rl_url,
)

_TOP_P, _TOP_K = 0.99, 8000  # thresholds of NeMo RL's vllm_generation.py
_VALIDATION_METRICS = ("val:accuracy", "val:avg_length")  # of the math environment
_GATED_MODEL_PREFIXES = ("google/gemma-3-", "meta-llama/")


def _training_backend(run: RunLayout) -> Iterator[Violation]:
    dtensor = run.config.is_enabled(f"{DTENSOR}.enabled")
    if dtensor == run.uses_megatron:
        off = MEGATRON if dtensor else DTENSOR
        both = "Both DTensor and Megatron are" if dtensor else "Neither DTensor nor Megatron is"
        yield Violation(
            f"{both} enabled, but exactly one training backend must be enabled.",
            run.suggest_setting(f"{off}.enabled", not dtensor),
        )
    if not dtensor or run.uses_megatron or run.config.is_enabled(f"{DTENSOR}._v2"):
        return
    form = run.config["checkpointing.model_save_format"]
    if form is not None and run.config.is_enabled("checkpointing.enabled"):
        yield Violation(
            f"DTensor v1 saves checkpoints in its own format, not as {form}, so the first save would fail.",
            run.suggest_setting("checkpointing.model_save_format", None),
        )
    if run.config.is_enabled(f"{DTENSOR}.lora_cfg.enabled"):
        yield Violation(
            "DTensor v1 does not support LoRA.", run.suggest_setting(f"{DTENSOR}.lora_cfg.enabled", False)
        )


def _sampling(run: RunLayout) -> Iterator[Violation]:
    top_p, top_k = run.config["policy.generation.top_p"], run.config["policy.generation.top_k"]
    if isinstance(top_p, int | float) and top_p < _TOP_P:
        yield Violation(
            f"With top_p={top_p}, vLLM returns no probabilities for the tokens that it filters out.",
            run.suggest_setting("policy.generation.top_p", 1.0),
        )
    if isinstance(top_k, int) and top_k != -1 and top_k < _TOP_K:
        yield Violation(
            f"With top_k={top_k}, vLLM returns no probabilities for the tokens that it filters out.",
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
            f"{rows} validation samples do not fill one batch of {batch}, so validation would have no batch and would fail.",
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
                f"A batch multiplier of {more} works only with dynamic sampling.",
                run.suggest_setting("grpo.batch_multiplier", 1),
            )
        return
    if isinstance(batches, int) and batches < 1:
        yield Violation(
            "Dynamic sampling needs at least one batch to draw from.",
            run.suggest_setting("grpo.dynamic_sampling_max_gen_batches", 10),
        )
    if run.config.is_enabled("grpo.async_grpo.enabled"):
        yield Violation(
            "Dynamic sampling does not work with asynchronous GRPO.",
            run.suggest_setting("grpo.use_dynamic_sampling", False),
        )


def _on_policy_ratio(run: RunLayout) -> Iterator[Violation]:
    if (
        run.config.is_enabled("loss_fn.force_on_policy_ratio")
        and run.samples_per_step != run.train_global_batch_size
    ):
        yield Violation(
            f"An on-policy ratio requires one update per step, but a step has {run.samples_per_step} samples and a training batch has {run.train_global_batch_size}.",
            run.suggest_setting(TRAIN_BATCH, run.samples_per_step),
        )


def _async_and_fp8(run: RunLayout) -> Iterator[Violation]:
    correction, engine = "loss_fn.use_importance_sampling_correction", f"{VLLM}.async_engine"
    is_async, corrected = run.config.is_enabled("grpo.async_grpo.enabled"), run.config.is_enabled(correction)
    if is_async and run.colocated:
        yield Violation(
            "Asynchronous GRPO does not work with colocated generation.",
            run.suggest_setting("policy.generation.colocated.enabled", False),
        )
    if is_async and not run.config.is_enabled(engine):
        yield Violation(
            "Asynchronous GRPO requires vLLM's asynchronous engine.", run.suggest_setting(engine, True)
        )
    form, cache = str(run.config[f"{VLLM}.precision"]), str(run.config[f"{VLLM}.kv_cache_dtype"])
    if (is_async or form == "fp8") and not corrected:
        yield Violation(
            f"{'Asynchronous GRPO' if is_async else 'fp8 generation'} requires importance sampling correction.",
            run.suggest_setting(correction, True),
        )
    if not cache.startswith("fp8"):
        return
    requirements = {
        "fp8 weights": form == "fp8",
        "Megatron": not run.config.is_enabled(f"{DTENSOR}.enabled"),
        "the synchronous engine": not run.config.is_enabled(engine),
        "one pipeline stage": run.pipeline_parallel == 1,
    }
    for need in (name for name, met in requirements.items() if not met):
        yield Violation(
            f"An fp8 key-value cache requires {need}.", run.suggest_setting(f"{VLLM}.kv_cache_dtype", "auto")
        )
        return


def _checkpoint_metric(run: RunLayout) -> Iterator[Violation]:
    name, key = run.config["checkpointing.metric_name"], "checkpointing.metric_name"
    if not run.config.is_enabled("checkpointing.enabled") or name is None:
        return
    if not str(name).startswith(("val:", "train:")):
        yield Violation(
            f"The checkpoint metric {name} starts with neither val: nor train:, so the first save would fail.",
            run.suggest_setting(
                key, f"val:{name}" if f"val:{name}" in _VALIDATION_METRICS else "val:accuracy"
            ),
        )
        return
    if not str(name).startswith("val:"):
        return
    if name not in _VALIDATION_METRICS:
        yield Violation(
            f"The checkpoint metric {name} is not one of the math validation metrics ({', '.join(_VALIDATION_METRICS)}), so the first save would fail.",
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
            "Checkpoints are ranked by a validation metric, but validation never runs, so the newest checkpoints will be kept.",
            run.suggest_setting("checkpointing.metric_name", None),
            "warn",
        )
    elif saves % period:
        yield Violation(
            f"Saving every {saves} steps does not coincide with validation every {period} steps. Checkpoints without validation will rank last.",
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
            f"vLLM's context allows {context} tokens, but a sequence can have at most {length}.",
            run.suggest_setting(room, length),
        )
    if run.config.number(new, 0) > min(context, length):
        yield Violation(
            f"{run.config.number(new)} new tokens do not fit into vLLM's context of {min(context, length)} tokens.",
            run.suggest_setting(new, min(context, length)),
        )
    if run.config.number(asked, 0) > length:
        yield Violation(
            f"Prompts of up to {run.config.number(asked)} tokens are accepted, but a sequence can have at most {length}.",
            run.suggest_setting(asked, length),
            "warn",
        )


def _gated_model(run: RunLayout) -> Iterator[Violation]:
    if run.model_name.startswith(_GATED_MODEL_PREFIXES):
        yield Violation(
            f"{run.model_name} is gated and requires an HF_TOKEN whose owner has accepted its license.",
            f"Accept the license at https://huggingface.co/{run.model_name} and export HF_TOKEN.",
            "info",
        )


CONSTRAINTS = (
    Constraint(
        id="R11",
        description="exactly one training backend must be enabled; DTensor v1 has its own checkpoint format and no LoRA",
        source=nemo_rl_url("models/policy/lm_policy.py", 84),
        validate=_training_backend,
    ),
    Constraint(
        id="R12",
        description=f"top_p must be at least {_TOP_P}, and top_k must be null, -1, or at least {_TOP_K}",
        source=nemo_rl_url("models/generation/vllm/vllm_generation.py", 43),
        validate=_sampling,
    ),
    Constraint(
        id="R13",
        description="validation needs at least one whole batch",
        source=nemo_rl_url("algorithms/grpo.py", 277),
        validate=_validation_samples,
    ),
    Constraint(
        id="R14",
        description="a batch multiplier works only with dynamic sampling",
        source=nemo_rl_url("algorithms/grpo.py", 250),
        validate=_dynamic_sampling,
    ),
    Constraint(
        id="R15",
        description="an on-policy ratio requires one update per step",
        source=nemo_rl_url("algorithms/grpo.py", 604),
        validate=_on_policy_ratio,
    ),
    Constraint(
        id="R16",
        description="asynchronous GRPO and fp8 have their own requirements",
        source=nemo_rl_url("algorithms/grpo.py", 500),
        validate=_async_and_fp8,
    ),
    Constraint(
        id="R18",
        description="checkpoints must be ranked by a metric that exists when they are saved",
        source=nemo_rl_url("algorithms/grpo.py", 1497),
        validate=_checkpoint_metric,
    ),
    Constraint(
        id="R21",
        description="new tokens must fit into vLLM's context, which must fit into a sequence",
        source=nemo_rl_url("experience/rollouts.py", 431),
        validate=_sequence_lengths,
    ),
    Constraint(
        id="R22",
        description="gated models require a token whose owner has accepted the license",
        source="https://huggingface.co/docs/hub/models-gated",
        validate=_gated_model,
    ),
)
