"""R6 to R10, R17 and R19: how many samples a step has, and how they are split into batches."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_wizard.steps.grpo.constraints.model import (
    DTENSOR,
    GENERATIONS,
    LOGPROB_BATCH,
    MICRO_BATCH,
    PROMPTS,
    TRAIN_BATCH,
    Constraint,
    RunLayout,
    Violation,
    largest_divisor,
    nemo_rl_url,
)
from grpo_wizard.steps.grpo.recipes import recipe, tensor_parallel

GSM8K_ROWS = 7473  # of its train split
_SAFE_GROUP_SIZE = 4  # the first size above 3 that batches divide by


def _samples_per_step(run: RunLayout) -> Iterator[Violation]:
    if run.samples_per_step % run.train_global_batch_size:
        options = [
            d
            for d in range(run.data_parallel, run.samples_per_step + 1, run.data_parallel)
            if run.samples_per_step % d == 0
        ]
        nearest = max((d for d in options if d <= run.train_global_batch_size), default=run.samples_per_step)
        yield Violation(
            f"The number of samples per step ({run.samples_per_step}) is not a multiple of the training batch size ({run.train_global_batch_size}).",
            run.suggest_setting(TRAIN_BATCH, nearest),
        )


def _data_parallel_batches(run: RunLayout) -> Iterator[Violation]:
    if run.samples_per_step % run.train_global_batch_size or (
        run.train_global_batch_size % run.data_parallel == 0 and run.samples_per_step % run.data_parallel == 0
    ):
        return
    text = (
        f"{run.samples_per_step} samples per step in batches of {run.train_global_batch_size} cannot be split evenly among "
        f"{run.data_parallel} data-parallel ranks."
    )
    if run.samples_per_step % run.data_parallel == 0:
        yield Violation(text, run.suggest_setting(TRAIN_BATCH, run.samples_per_step))
    else:
        yield Violation(text, run.suggest_setting(PROMPTS, _nearest_prompts(run)))


def _nearest_prompts(run: RunLayout) -> int:
    """The number of prompts nearest to the configured one with which every batch splits evenly."""
    fixed = run.train_global_batch_size if TRAIN_BATCH in run.config.overridden else 0
    own = int(recipe(run.answers.grpo.recipe)["train_global_batch_size"])

    def even(prompts: int) -> bool:
        batch = prompts * run.generations_per_prompt
        part = fixed or (batch if batch % own else own)
        return batch % run.data_parallel == 0 and batch % part == 0 and part % run.data_parallel == 0

    reach = range(max(run.prompts_per_step, run.data_parallel * max(1, fixed)) + run.data_parallel + 1)
    near = (run.prompts_per_step + sign * away for away in reach for sign in (-1, 1))
    return next((p for p in near if p > 0 and even(p)), run.data_parallel)


def _micro_batches(run: RunLayout) -> Iterator[Violation]:
    if (
        run.sequence_packing
        or run.dynamic_batching
        or run.train_global_batch_size % run.data_parallel
        or run.samples_per_step % run.data_parallel
    ):
        return
    for key, share, what in (
        (MICRO_BATCH, run.train_global_batch_size // run.data_parallel, "training"),
        (LOGPROB_BATCH, run.samples_per_step // run.data_parallel, "logprob"),
    ):
        size = max(1, run.config.number(key))
        if share % size:
            yield Violation(
                f"The number of samples per data-parallel rank ({share}) is not a multiple of the {what} micro batch size ({size}).",
                run.suggest_setting(key, largest_divisor(share, size)),
            )


def _equal_micro_batches(run: RunLayout) -> Iterator[Violation]:
    train, logprob = run.config.number(MICRO_BATCH), run.config.number(LOGPROB_BATCH)
    if (
        run.tensor_parallel >= 4
        and train != logprob
        and not run.config.is_enabled("loss_fn.force_on_policy_ratio")
    ):
        yield Violation(
            f"With a tensor parallel size of {run.tensor_parallel}, micro batches of {train} (training) and {logprob} (logprob) produce slightly different probabilities.",
            run.suggest_setting(LOGPROB_BATCH, train),
            "info" if _uses_recipe_sizes(run) else "warn",
        )


def _uses_recipe_sizes(run: RunLayout) -> bool:
    """Whether the sizes are the recipe's own: what its authors ran is reported, not warned about."""
    own = min(tensor_parallel(run.answers.grpo.recipe), run.train_gpus)
    return own == run.tensor_parallel and not run.config.overridden & {
        MICRO_BATCH,
        LOGPROB_BATCH,
        run.tensor_parallel_key,
    }


def _packing(run: RunLayout) -> Iterator[Violation]:
    packing, batching = "policy.sequence_packing", "policy.dynamic_batching"
    if run.sequence_packing and run.dynamic_batching:
        yield Violation(
            "Sequence packing and dynamic batching are mutually exclusive.",
            run.suggest_setting(
                f"{batching if f'{batching}.enabled' in run.config.overridden else packing}.enabled", False
            ),
        )
    if run.dynamic_batching and run.pipeline_parallel > 1:
        yield Violation(
            "Dynamic batching works only with a single pipeline stage.",
            run.suggest_setting(f"{batching}.enabled", False),
        )
    length = run.config.number("policy.max_total_sequence_length")
    for room in (packing if run.sequence_packing else "", batching if run.dynamic_batching else ""):
        for key in (f"{room}.train_mb_tokens", f"{room}.logprob_mb_tokens") if room else ():
            tokens = run.config.number(key, length)
            if tokens < length:
                yield Violation(
                    f"{key.rpartition('.')[2]} is {tokens}, which is less than the sequence length of {length} tokens.",
                    run.suggest_setting(key, length),
                )
    if run.sequence_packing and run.model.vlm and not run.uses_megatron:
        yield Violation(
            f"{run.model_name} is a vision-language model, so its sequences cannot be packed.",
            run.suggest_setting(f"{packing}.enabled", False),
        )
    yield from _context_parallel(run)


def _context_parallel(run: RunLayout) -> Iterator[Violation]:
    if run.context_parallel < 2:
        return
    if run.uses_megatron:
        if not run.sequence_packing:
            yield Violation(
                "Megatron's context parallelism requires sequence packing.",
                run.suggest_setting("policy.sequence_packing.enabled", True),
            )
        return
    reasons = {
        "sequence packing": run.sequence_packing,
        "Gemma 3": "gemma-3" in run.model_name,
        "sequence parallelism": run.tensor_parallel > 1
        and run.config.is_enabled(f"{DTENSOR}.sequence_parallel"),
        "a vision-language model": run.model.vlm,
    }
    for reason in (name for name, there in reasons.items() if there):
        yield Violation(
            f"DTensor's context parallelism does not work with {reason}.",
            run.suggest_setting(run.context_parallel_key, 1),
        )
        return


def _group_size(run: RunLayout) -> Iterator[Violation]:
    if run.generations_per_prompt < 2:
        yield Violation(
            "With one generation per prompt, every advantage is 0, so the model would learn nothing.",
            run.suggest_setting(GENERATIONS, _SAFE_GROUP_SIZE),
        )
    elif run.generations_per_prompt == 2 and run.config.is_enabled("grpo.use_leave_one_out_baseline"):
        yield Violation(
            "With two generations per prompt, each is the other's baseline, so their deviation is 0 and advantages are not normalized.",
            run.suggest_setting(GENERATIONS, _SAFE_GROUP_SIZE),
            "warn",
        )


def _dataset_size(run: RunLayout) -> Iterator[Violation]:
    wanted = int(run.prompts_per_step * _batch_multiplier(run))
    if run.answers.grpo.dataset == "openai/gsm8k" and wanted > GSM8K_ROWS:
        yield Violation(
            f"The {wanted:,} prompts per step exceed the {GSM8K_ROWS:,} rows of GSM8K, so not a single step would run.",
            run.suggest_setting(PROMPTS, max(1, int(GSM8K_ROWS // _batch_multiplier(run)))),
        )


def _batch_multiplier(run: RunLayout) -> float:
    more = run.config["grpo.batch_multiplier"]
    dynamic = run.config.is_enabled("grpo.use_dynamic_sampling")
    return float(more) if dynamic and isinstance(more, int | float) and more > 0 else 1.0


CONSTRAINTS = (
    Constraint(
        id="R6",
        description="samples per step must be a multiple of the training batch size",
        source=nemo_rl_url("distributed/batched_data_dict.py", 374),
        validate=_samples_per_step,
    ),
    Constraint(
        id="R7",
        description="batch sizes must be multiples of the data parallel size",
        source=nemo_rl_url("distributed/batched_data_dict.py", 378),
        validate=_data_parallel_batches,
    ),
    Constraint(
        id="R8",
        description="without packing or dynamic batching, each rank's share must be a multiple of its micro batch size",
        source=nemo_rl_url("distributed/batched_data_dict.py", 807),
        validate=_micro_batches,
    ),
    Constraint(
        id="R9",
        description="with a tensor parallel size of 4 or more, training and logprob micro batch sizes must be equal",
        source="https://github.com/NVIDIA-NeMo/RL/blob/v0.5.0/docs/guides/dtensor-tp-accuracy.md",
        validate=_equal_micro_batches,
    ),
    Constraint(
        id="R10",
        description="packing, dynamic batching and context parallelism must be compatible",
        source=nemo_rl_url("models/policy/lm_policy.py", 211),
        validate=_packing,
    ),
)
GROUP_SIZE = Constraint(
    id="R17",
    description="a group needs at least two generations, preferably three",
    source=nemo_rl_url("algorithms/utils.py", 123),
    validate=_group_size,
)
DATASET_SIZE = Constraint(
    id="R19",
    description="the data set must have enough prompts for at least one step",
    source=nemo_rl_url("algorithms/grpo.py", 257),
    validate=_dataset_size,
)
