"""Checks of step 7, GRPO: constraints, gold answers, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.cloud_reader import CloudReader
from grpo_wizard.steps.core.model import Check, CheckFinding, Level
from grpo_wizard.steps.grpo import memory
from grpo_wizard.steps.grpo.constraints.evaluate import violation_findings
from grpo_wizard.steps.grpo.constraints.model import MICRO_BATCH, RunLayout
from grpo_wizard.steps.grpo.memory import fitting_recipes

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _parameters(answers: Answers) -> tuple[object, ...]:
    """The answers that decide how a run is laid out."""
    grpo = answers.grpo
    return (
        grpo.recipe,
        grpo.model,
        grpo.max_num_steps,
        grpo.num_prompts_per_step,
        grpo.num_generations_per_prompt,
        grpo.colocated,
        grpo.generation_nodes,
        grpo.tensor_parallel,
        grpo.vllm_tensor_parallel,
        grpo.gpu_memory_utilization,
        grpo.overrides,
        answers.quotas.gpu_nodes,
        answers.quotas.gpu_type,
    )


def _constraints(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    findings = list(violation_findings(answers))
    yield from findings
    if not any(finding.level in ("warn", "block") for finding in findings):
        yield CheckFinding("pass", detail="The training parameters are compatible with each other.")


@cache
def load_preparation_script() -> dict[str, Any]:
    """Load the job's own preparation script as a module, to apply the functions that the job applies to the real rows."""
    names: dict[str, Any] = {"__name__": "prepare_gsm8k"}
    exec(compile(catalog.read_asset("job/prepare_gsm8k.py"), "prepare_gsm8k.py", "exec"), names)
    return names


def unscorable_gold_answers(answers: Iterable[str], form: str) -> list[str]:
    """Gold answers, as the job writes them in `form`, that no answer of a model can equal."""
    job = load_preparation_script()
    gold: Callable[[str, str], str] = job["gold"]
    return [written for written in (gold(text, form) for text in answers) if job["refused"](written)]


def _gold_answers(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    form = "number" if answers.grpo.final_number_answers else "raw"
    rows = catalog.load("gsm8k")["rows"]
    bad = unscorable_gold_answers((row["answer"] for row in rows), form)
    if not bad:
        yield CheckFinding(
            "pass", detail=f"The gold answers of all {len(rows)} sample rows are final numbers."
        )
        return
    shown = bad[0] if len(bad[0]) <= 60 else f"{bad[0][:28]} … {bad[0][-28:]}"
    detail = (
        f"{len(bad)} of {len(rows)} sample gold answers are not final numbers, such as {shown!r}. No model answer "
        "can equal them, so every reward would be 0 and the model would learn nothing."
    )
    # The raw column is chosen on purpose (the tutorial as it is); anything else is a defect.
    level: Level = "warn" if form == "raw" else "block"
    yield CheckFinding(
        level, detail=detail, fix="Set grpo.final_number_answers=true." if form == "raw" else ""
    )


_LEVELS: dict[memory.MemoryFit, Level] = {"ok": "pass", "tight": "warn", "oom": "block", "unknown": "info"}

_FIT_WORDS: dict[memory.MemoryFit, str] = {
    "ok": "enough memory",
    "tight": "memory is tight",
    "oom": "not enough memory",
    "unknown": "memory use unknown",
}


def _memory(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    run, estimate = RunLayout.from_answers(answers), memory.estimate_run(answers)
    if run.train_gpus < 1:
        return  # R1 and R2 report it
    share = "" if estimate.share is None else f", {estimate.share:.0%} used during training"
    yield CheckFinding(
        _LEVELS[estimate.fit],
        detail=f"{estimate.gpu}: {_FIT_WORDS[estimate.fit]}{share}. {estimate.text()}",
        fix=_suggest_fix(run, estimate),
    )


def _suggest_fix(run: RunLayout, estimate: memory.MemoryEstimate) -> str:
    """The single change that helps most."""
    if estimate.fit in ("ok", "unknown") or estimate.state_gb is None:
        return ""
    if estimate.generation == "oom" and estimate.cache_gb is not None:
        wider = min(run.vllm_tensor_parallel * 2, run.gpus_per_node)
        if (
            wider > run.vllm_tensor_parallel
            and run.generation_gpus % (wider * run.vllm_pipeline_parallel) == 0
        ):
            return run.suggest_setting("policy.generation.vllm_cfg.tensor_parallel_size", wider)
        return run.suggest_setting(
            "policy.generation.vllm_cfg.max_model_len",
            max(1, run.config.number("policy.max_total_sequence_length") // 2),
        )
    if estimate.generation == "tight" and estimate.training == "ok":
        return run.suggest_setting("policy.generation.vllm_cfg.gpu_memory_utilization", 0.6)
    state = estimate.state_gb / estimate.memory_gb
    micro = run.config.number(MICRO_BATCH)
    if memory.classify_share(state) == "ok" and micro > 1:
        return run.suggest_setting(MICRO_BATCH, micro // 2)
    more = next(
        (
            n
            for n in range(run.nodes + 1, 65)
            if state * run.train_gpus <= memory.OK_SHARE * _train_gpus(run, n)
        ),
        0,
    )
    others = [fit.recipe for fit in fitting_recipes(run.nodes, run.answers.quotas.gpu_type) if fit.published]
    smaller = f", or use a smaller recipe: grpo.recipe={others[0]}" if others else ""
    return f"Set quotas.gpu_nodes={more}{smaller}."


def _train_gpus(run: RunLayout, nodes: int) -> int:
    return (nodes - run.generation_nodes) * run.gpus_per_node


CHECKS = (
    Check(id="rules", title="Training parameters", run=_constraints, needs=_parameters),
    Check(
        id="gold",
        title="Gold answers",
        run=_gold_answers,
        needs=lambda a: (a.grpo.final_number_answers, a.grpo.dataset),
    ),
    Check(id="memory", title="GPU memory", run=_memory, needs=_parameters),
)
