"""What must hold of a training run before a machine is asked for: rules, gold answers, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.model import Check, CheckFinding, CloudReader, Level
from grpo_wizard.steps.grpo import memory
from grpo_wizard.steps.grpo.constraints.evaluate import violation_findings
from grpo_wizard.steps.grpo.constraints.model import MICRO_BATCH, RunLayout
from grpo_wizard.steps.grpo.memory import fitting_recipes

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_PARAMETER_FIELDS = (
    *(
        f"grpo.{name}"
        for name in (
            "recipe",
            "model",
            "max_num_steps",
            "num_prompts_per_step",
            "num_generations_per_prompt",
            "colocated",
            "generation_nodes",
            "tensor_parallel",
            "vllm_tensor_parallel",
            "gpu_memory_utilization",
            "overrides",
        )
    ),
    "quotas.gpu_nodes",
)


def _constraints(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    found = list(violation_findings(answers))
    yield from found
    if not any(each.level in ("warn", "block") for each in found):
        yield CheckFinding("pass", "the parameters go together")


@cache
def load_preparation_script() -> dict[str, Any]:
    """The job's own preparation script as a module: the very functions that will judge the real rows."""
    names: dict[str, Any] = {"__name__": "prepare_gsm8k"}
    exec(compile(catalog.read_asset("job/prepare_gsm8k.py"), "prepare_gsm8k.py", "exec"), names)
    return names


def unscorable_gold_answers(answers: Iterable[str], form: str) -> list[str]:
    """Golds, as the job would write them in `form`, that no answer of a model can equal."""
    job = load_preparation_script()
    gold: Callable[[str, str], str] = job["gold"]
    return [written for written in (gold(text, form) for text in answers) if job["refused"](written)]


def _gold_answers(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    form = "number" if answers.grpo.final_number_answers else "raw"
    rows = catalog.load("gsm8k")["rows"]
    bad = unscorable_gold_answers((row["answer"] for row in rows), form)
    if not bad:
        yield CheckFinding("pass", f"gold answers are final numbers ({len(rows)} sample rows looked at)")
        return
    shown = bad[0] if len(bad[0]) <= 60 else f"{bad[0][:28]} … {bad[0][-28:]}"
    title = f"{len(bad)} of {len(rows)} sample gold answers are no final number"
    detail = f"{shown!r}: no answer ever equals it, so every reward is 0 and nothing is learned"
    # Switched off on purpose (the tutorial as it stands) is the user's word; anything else is a fault.
    level: Level = "warn" if form == "raw" else "block"
    yield CheckFinding(level, title, detail, "set grpo.final_number_answers=true" if form == "raw" else "")


_LEVELS: dict[memory.MemoryFit, Level] = {"green": "pass", "amber": "warn", "red": "block", "unknown": "info"}


def _memory(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    run, seen = RunLayout.from_answers(answers), memory.estimate_run(answers)
    if run.train_gpus < 1:
        return  # R1 and R2 say so
    title = f"memory of a {seen.gpu}: {seen.fit}" + (
        f", {seen.share:.0%} while training" if seen.share is not None else ""
    )
    yield CheckFinding(_LEVELS[seen.fit], title, seen.text(), _suggest_fix(run, seen))


def _suggest_fix(run: RunLayout, seen: memory.MemoryEstimate) -> str:
    """The one change that helps most."""
    if seen.fit in ("green", "unknown") or seen.state_gb is None:
        return ""
    if seen.generation == "red" and seen.cache_gb is not None:
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
    if seen.generation == "amber" and seen.training == "green":
        return run.suggest_setting("policy.generation.vllm_cfg.gpu_memory_utilization", 0.6)
    state = seen.state_gb / seen.memory_gb
    micro = run.config.number(MICRO_BATCH)
    if memory.classify_share(state) == "green" and micro > 1:
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
    return f"set quotas.gpu_nodes={more}" + (
        f", or a smaller recipe: grpo.recipe={others[0]}" if others else ""
    )


def _train_gpus(run: RunLayout, nodes: int) -> int:
    return (nodes - run.generation_nodes) * run.gpus_per_node


CHECKS = (
    Check("rules", "Parameters go together", _constraints, _PARAMETER_FIELDS),
    Check("gold", "Gold answers", _gold_answers, ("grpo.final_number_answers", "grpo.dataset")),
    Check("memory", "Memory of a GPU", _memory, (*_PARAMETER_FIELDS, "quotas.gpu_type")),
)
