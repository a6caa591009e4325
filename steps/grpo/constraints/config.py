"""R11 to R16, R18, R21 and R22: switches that go together, sampling, validation, saving, lengths, licences."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_wizard.steps.grpo.constraints.model import (
    DTENSOR,
    MEGATRON,
    TRAIN_BATCH,
    VLLM,
    Broken,
    Rule,
    Run,
    divisor_below,
)

_TOP_P, _TOP_K = 0.99, 8000  # vllm_generation.py:43-44
_VALIDATION_METRICS = ("val:accuracy", "val:avg_length")  # grpo.py:1779
_GATED = ("google/gemma-3-", "meta-llama/")


def _backend(run: Run) -> Iterator[Broken]:
    dtensor = run.settings.on(f"{DTENSOR}.enabled")
    if dtensor == run.megatron:
        off = MEGATRON if dtensor else DTENSOR
        other = "neither DTensor nor Megatron is to train" if not dtensor else "both DTensor and Megatron"
        yield Broken(
            f"{other}: exactly one backend trains" if not dtensor else f"{other} are on: exactly one trains",
            run.fix(f"{off}.enabled", not dtensor),
        )
    if not dtensor or run.megatron or run.settings.on(f"{DTENSOR}._v2"):
        return
    form = run.settings["checkpointing.model_save_format"]
    if form is not None and run.settings.on("checkpointing.enabled"):
        yield Broken(
            f"DTensor v1 saves in its own form, not as {form}: the first save would fail",
            run.fix("checkpointing.model_save_format", None),
        )
    if run.settings.on(f"{DTENSOR}.lora_cfg.enabled"):
        yield Broken("DTensor v1 knows no LoRA", run.fix(f"{DTENSOR}.lora_cfg.enabled", False))


def _sampling(run: Run) -> Iterator[Broken]:
    top_p, top_k = run.settings["policy.generation.top_p"], run.settings["policy.generation.top_k"]
    if isinstance(top_p, int | float) and top_p < _TOP_P:
        yield Broken(
            f"top_p of {top_p}: vLLM returns no probabilities of what it filtered",
            run.fix("policy.generation.top_p", 1.0),
        )
    if isinstance(top_k, int) and top_k != -1 and top_k < _TOP_K:
        yield Broken(
            f"top_k of {top_k}: vLLM returns no probabilities of what it filtered",
            run.fix("policy.generation.top_k", None),
        )


def _validates(run: Run) -> bool:
    return run.settings.number("grpo.val_period", 0) > 0 or run.settings.on("grpo.val_at_start")


def _validation(run: Run) -> Iterator[Broken]:
    if not _validates(run):
        return
    rows, batch = run.settings.number("grpo.max_val_samples", 0), run.settings.number("grpo.val_batch_size")
    if rows < max(1, batch):
        yield Broken(
            f"{rows} validation samples are less than one batch of {batch}: validation has no batch and fails",
            run.fix("grpo.val_batch_size", rows) if rows > 0 else run.fix("grpo.max_val_samples", batch),
        )


def _dynamic_sampling(run: Run) -> Iterator[Broken]:
    more, batches = (
        run.settings["grpo.batch_multiplier"],
        run.settings["grpo.dynamic_sampling_max_gen_batches"],
    )
    if not run.settings.on("grpo.use_dynamic_sampling"):
        if more != 1:
            yield Broken(
                f"a batch multiplier of {more} works with dynamic sampling only",
                run.fix("grpo.batch_multiplier", 1),
            )
        return
    if isinstance(batches, int) and batches < 1:
        yield Broken(
            "dynamic sampling needs at least one batch to draw",
            run.fix("grpo.dynamic_sampling_max_gen_batches", 10),
        )
    if run.settings.on("grpo.async_grpo.enabled"):
        yield Broken(
            "dynamic sampling does not work with asynchronous GRPO",
            run.fix("grpo.use_dynamic_sampling", False),
        )


def _on_policy(run: Run) -> Iterator[Broken]:
    if run.settings.on("loss_fn.force_on_policy_ratio") and run.batch != run.train_batch:
        yield Broken(
            f"an on-policy ratio needs one update a step: {run.batch} answers, batches of {run.train_batch}",
            run.fix(TRAIN_BATCH, run.batch),
        )


def _asynchronous(run: Run) -> Iterator[Broken]:
    correction, engine = "loss_fn.use_importance_sampling_correction", f"{VLLM}.async_engine"
    is_async, corrected = run.settings.on("grpo.async_grpo.enabled"), run.settings.on(correction)
    if is_async and run.colocated:
        yield Broken(
            "asynchronous GRPO cannot share GPUs", run.fix("policy.generation.colocated.enabled", False)
        )
    if is_async and not run.settings.on(engine):
        yield Broken("asynchronous GRPO needs vLLM's asynchronous engine", run.fix(engine, True))
    form, cache = str(run.settings[f"{VLLM}.precision"]), str(run.settings[f"{VLLM}.kv_cache_dtype"])
    if (is_async or form == "fp8") and not corrected:
        yield Broken(
            f"{'asynchronous GRPO' if is_async else 'fp8 generation'} needs importance sampling correction",
            run.fix(correction, True),
        )
    if not cache.startswith("fp8"):
        return
    bad = {
        "fp8 weights": form == "fp8",
        "Megatron": not run.settings.on(f"{DTENSOR}.enabled"),
        "the synchronous engine": not run.settings.on(engine),
        "one pipeline stage": run.pipeline == 1,
    }
    for need in (name for name, there in bad.items() if not there):
        yield Broken(f"an fp8 key-value cache needs {need}", run.fix(f"{VLLM}.kv_cache_dtype", "auto"))
        return


def _metric(run: Run) -> Iterator[Broken]:
    name, key = run.settings["checkpointing.metric_name"], "checkpointing.metric_name"
    if not run.settings.on("checkpointing.enabled") or name is None:
        return
    if not str(name).startswith(("val:", "train:")):
        yield Broken(
            f"{name} does not start with val: or train:: the first save would fail",
            run.fix(key, f"val:{name}" if f"val:{name}" in _VALIDATION_METRICS else "val:accuracy"),
        )
        return
    if not str(name).startswith("val:"):
        return
    if name not in _VALIDATION_METRICS:
        yield Broken(
            f"{name} is no metric of a math validation ({', '.join(_VALIDATION_METRICS)}): the first save would fail",
            run.fix(key, "val:accuracy"),
        )
    yield from _saves_between(run)


def _saves_between(run: Run) -> Iterator[Broken]:
    period, saves = (
        run.settings.number("grpo.val_period", 0),
        run.settings.number("checkpointing.save_period", 0),
    )
    if saves < 1:
        return
    if period < 1:
        yield Broken(
            "checkpoints are ranked by a validation that never runs: the newest are kept",
            run.fix("checkpointing.metric_name", None),
            "warn",
        )
    elif saves % period:
        yield Broken(
            f"a save every {saves} steps falls between validations every {period}: such a checkpoint ranks last",
            run.fix("grpo.val_period", divisor_below(saves, period)),
            "warn",
        )


def _lengths(run: Run) -> Iterator[Broken]:
    new, room, whole, asked = (
        "policy.generation.max_new_tokens",
        f"{VLLM}.max_model_len",
        "policy.max_total_sequence_length",
        "data.max_input_seq_length",
    )
    length = run.settings.number(whole)
    context = run.settings.number(room, length)
    if context > length:
        yield Broken(
            f"vLLM may write {context} tokens, and a sequence has {length}",
            run.fix(room, length),
        )
    if run.settings.number(new, 0) > min(context, length):
        yield Broken(
            f"{run.settings.number(new)} new tokens do not fit into vLLM's {min(context, length)}",
            run.fix(new, min(context, length)),
        )
    if run.settings.number(asked, 0) > length:
        yield Broken(
            f"prompts of {run.settings.number(asked)} tokens are let in, and a sequence has {length}",
            run.fix(asked, length),
            "warn",
        )


def _licence(run: Run) -> Iterator[Broken]:
    if run.model_name.startswith(_GATED):
        yield Broken(
            f"{run.model_name} is gated: it needs an HF_TOKEN whose owner has accepted its licence",
            f"accept it on https://huggingface.co/{run.model_name} and export HF_TOKEN",
            "info",
        )


_GRPO = "algorithms/grpo.py"
RULES = (
    Rule(
        "R11",
        "exactly one training backend; DTensor v1 saves in its own form and has no LoRA",
        "models/policy/lm_policy.py:84-125, 812-818",
        _backend,
    ),
    Rule(
        "R12",
        f"top_p is {_TOP_P} or more; top_k is null, -1, or {_TOP_K} or more",
        "models/generation/vllm/vllm_generation.py:43-112",
        _sampling,
    ),
    Rule("R13", "validation has at least one whole batch", f"{_GRPO}:277, 1704-1713", _validation),
    Rule("R14", "a batch multiplier goes with dynamic sampling only", f"{_GRPO}:250", _dynamic_sampling),
    Rule("R15", "an on-policy ratio needs one update a step", f"{_GRPO}:604", _on_policy),
    Rule(
        "R16",
        "asynchronous GRPO and fp8 bring their own needs",
        f"{_GRPO}:500-523, 1857-1905",
        _asynchronous,
    ),
    Rule(
        "R18",
        "checkpoints are ranked by a metric that exists when they are saved",
        f"{_GRPO}:1497-1515",
        _metric,
    ),
    Rule(
        "R21",
        "new tokens fit into vLLM's context, and that into a sequence",
        "experience/rollouts.py:431; examples/configs/grpo_math_1B.yaml",
        _lengths,
    ),
    Rule("R22", "gated models need a token with an accepted licence", "huggingface.co model cards", _licence),
)
