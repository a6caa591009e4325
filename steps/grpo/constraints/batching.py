"""R6 to R10, R17 and R19: how many answers a step has, and how they are parted."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_wizard.steps.grpo.constraints.model import (
    DTENSOR,
    GROUP,
    LOGPROB,
    MICRO,
    PROMPTS,
    TRAIN_BATCH,
    Broken,
    Rule,
    Run,
    divisor_below,
)
from grpo_wizard.steps.grpo.recipes import recipe, tensor_parallel

GSM8K_ROWS = 7473  # of its train split
_SAFE_GROUP = 4  # the first size above 3 that batches divide by


def _whole_batches(run: Run) -> Iterator[Broken]:
    if run.batch % run.train_batch:
        options = [d for d in range(run.copies, run.batch + 1, run.copies) if run.batch % d == 0]
        nearest = max((d for d in options if d <= run.train_batch), default=run.batch)
        yield Broken(
            f"{run.batch} answers a step are no multiple of a training batch of {run.train_batch}",
            run.fix(TRAIN_BATCH, nearest),
        )


def _copies(run: Run) -> Iterator[Broken]:
    if run.batch % run.train_batch or (run.train_batch % run.copies == 0 and run.batch % run.copies == 0):
        return
    text = f"a batch of {run.train_batch} of {run.batch} answers cannot be parted among {run.copies} copies of the model"
    if run.batch % run.copies == 0:
        yield Broken(text, run.fix(TRAIN_BATCH, run.batch))
    else:
        yield Broken(text, run.fix(PROMPTS, _nearest_prompts(run)))


def _nearest_prompts(run: Run) -> int:
    """The number of prompts nearest to the one asked for with which every batch is parted evenly."""
    fixed = run.train_batch if TRAIN_BATCH in run.settings.said else 0
    own = int(recipe(run.answers["grpo"]["recipe"])["train_global_batch_size"])

    def even(prompts: int) -> bool:
        batch = prompts * run.group
        part = fixed or (batch if batch % own else own)
        return batch % run.copies == 0 and batch % part == 0 and part % run.copies == 0

    reach = range(max(run.prompts, run.copies * max(1, fixed)) + run.copies + 1)
    near = (run.prompts + sign * away for away in reach for sign in (-1, 1))
    return next((p for p in near if p > 0 and even(p)), run.copies)


def _micro_batches(run: Run) -> Iterator[Broken]:
    if run.packs or run.dynamic or run.train_batch % run.copies or run.batch % run.copies:
        return
    for key, share, what in (
        (MICRO, run.train_batch // run.copies, "training"),
        (LOGPROB, run.batch // run.copies, "logprob"),
    ):
        size = max(1, run.settings.number(key))
        if share % size:
            yield Broken(
                f"each copy's {share} answers are no multiple of a {what} micro batch of {size}",
                run.fix(key, divisor_below(share, size)),
            )


def _same_micro(run: Run) -> Iterator[Broken]:
    train, logprob = run.settings.number(MICRO), run.settings.number(LOGPROB)
    if run.tensor >= 4 and train != logprob and not run.settings.on("loss_fn.force_on_policy_ratio"):
        yield Broken(
            f"with a tensor parallel size of {run.tensor}, micro batches of {train} and {logprob} give probabilities that differ a little",
            run.fix(LOGPROB, train),
            "info" if _as_published(run) else "warn",
        )


def _as_published(run: Run) -> bool:
    """The recipe's own sizes, at the width that it comes with: what its authors ran is told, not warned of."""
    own = min(tensor_parallel(run.answers["grpo"]["recipe"]), run.train_gpus)
    return own == run.tensor and not run.settings.said & {MICRO, LOGPROB, run.tensor_key}


def _packing(run: Run) -> Iterator[Broken]:
    packing, batching = "policy.sequence_packing", "policy.dynamic_batching"
    if run.packs and run.dynamic:
        yield Broken(
            "sequence packing and dynamic batching exclude each other",
            run.fix(f"{batching if f'{batching}.enabled' in run.settings.said else packing}.enabled", False),
        )
    if run.dynamic and run.pipeline > 1:
        yield Broken(
            "dynamic batching works with one pipeline stage only", run.fix(f"{batching}.enabled", False)
        )
    length = run.settings.number("policy.max_total_sequence_length")
    for room in (packing if run.packs else "", batching if run.dynamic else ""):
        for key in (f"{room}.train_mb_tokens", f"{room}.logprob_mb_tokens") if room else ():
            tokens = run.settings.number(key, length)
            if tokens < length:
                yield Broken(
                    f"{key.rpartition('.')[2]} of {tokens} is below a sequence of {length} tokens",
                    run.fix(key, length),
                )
    if run.packs and run.model.vlm and not run.megatron:
        yield Broken(
            f"{run.model_name} is a vision-language model: sequences cannot be packed",
            run.fix(f"{packing}.enabled", False),
        )
    yield from _context(run)


def _context(run: Run) -> Iterator[Broken]:
    if run.context < 2:
        return
    if run.megatron:
        if not run.packs:
            yield Broken(
                "Megatron's context parallelism needs sequence packing",
                run.fix("policy.sequence_packing.enabled", True),
            )
        return
    reasons = {
        "sequence packing": run.packs,
        "Gemma 3": "gemma-3" in run.model_name,
        "sequence parallelism": run.tensor > 1 and run.settings.on(f"{DTENSOR}.sequence_parallel"),
        "a vision-language model": run.model.vlm,
    }
    for reason in (name for name, there in reasons.items() if there):
        yield Broken(f"DTensor's context parallelism does not go with {reason}", run.fix(run.context_key, 1))
        return


def _group_size(run: Run) -> Iterator[Broken]:
    if run.group < 2:
        yield Broken(
            "one generation a prompt is no group: every advantage is 0 and nothing is learned",
            run.fix(GROUP, _SAFE_GROUP),
        )
    elif run.group == 2 and run.settings.on("grpo.use_leave_one_out_baseline"):
        yield Broken(
            "of two generations each is the other's baseline: their deviation is 0 and advantages are not normalised",
            run.fix(GROUP, _SAFE_GROUP),
            "warn",
        )


def _enough_rows(run: Run) -> Iterator[Broken]:
    wanted = int(run.prompts * _batches(run))
    if run.answers["grpo"]["dataset"] == "openai/gsm8k" and wanted > GSM8K_ROWS:
        yield Broken(
            f"{wanted} prompts a step are more than the {GSM8K_ROWS:,} of GSM8K: there would be no step at all",
            run.fix(PROMPTS, max(1, int(GSM8K_ROWS // _batches(run)))),
        )


def _batches(run: Run) -> float:
    more = run.settings["grpo.batch_multiplier"]
    dynamic = run.settings.on("grpo.use_dynamic_sampling")
    return float(more) if dynamic and isinstance(more, int | float) and more > 0 else 1.0


_PARTS = "distributed/batched_data_dict.py"
RULES = (
    Rule("R6", "answers a step are a multiple of the training batch", f"{_PARTS}:374", _whole_batches),
    Rule("R7", "batches are multiples of the copies that train", f"{_PARTS}:378", _copies),
    Rule(
        "R8",
        "without packing or dynamic batching each copy's share is a multiple of its micro batch",
        f"{_PARTS}:807",
        _micro_batches,
    ),
    Rule(
        "R9",
        "with TP of 4 or more, training and logprob micro batches are the same",
        "docs/guides/dtensor-tp-accuracy.md; asserted since v0.6 (models/policy/lm_policy.py)",
        _same_micro,
    ),
    Rule(
        "R10",
        "packing, dynamic batching and context parallelism go together",
        "models/policy/lm_policy.py:211-224, models/policy/workers/dtensor_policy_worker.py:207-316, megatron_policy_worker.py:639",
        _packing,
    ),
)
GROUPS = Rule("R17", "a group has two answers, better three", "algorithms/utils.py:123-126", _group_size)
ROWS = Rule("R19", "the data set holds at least one step's prompts", "algorithms/grpo.py:257", _enough_rows)
