"""What must hold of a training run before a machine is asked for: rules, gold answers, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.model import Answers, Check, Finding, Level, World
from grpo_wizard.steps.grpo import memory
from grpo_wizard.steps.grpo.constraints.evaluate import broken_rules
from grpo_wizard.steps.grpo.constraints.model import MICRO, Run
from grpo_wizard.steps.grpo.memory import fitting

_PARAMETERS = (
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


def _rules(answers: Answers, world: World) -> Iterable[Finding]:
    found = list(broken_rules(answers))
    yield from found
    if not any(each.level in ("warn", "block") for each in found):
        yield Finding("pass", "the parameters go together")


@cache
def preparation() -> dict[str, Any]:
    """The job's own preparation script as a module: the very functions that will judge the real rows."""
    names: dict[str, Any] = {"__name__": "prepare_gsm8k"}
    exec(compile(catalog.asset("job/prepare_gsm8k.py"), "prepare_gsm8k.py", "exec"), names)
    return names


def unscorable(answers: Iterable[str], form: str) -> list[str]:
    """Golds, as the job would write them in `form`, that no answer of a model can equal."""
    job = preparation()
    gold: Callable[[str, str], str] = job["gold"]
    return [written for written in (gold(text, form) for text in answers) if job["refused"](written)]


def _gold(answers: Answers, world: World) -> Iterable[Finding]:
    form = "number" if answers["grpo"]["final_number_answers"] else "raw"
    rows = catalog.load("gsm8k")["rows"]
    bad = unscorable((row["answer"] for row in rows), form)
    if not bad:
        yield Finding("pass", f"gold answers are final numbers ({len(rows)} sample rows looked at)")
        return
    shown = bad[0] if len(bad[0]) <= 60 else f"{bad[0][:28]} … {bad[0][-28:]}"
    title = f"{len(bad)} of {len(rows)} sample gold answers are no final number"
    detail = f"{shown!r}: no answer ever equals it, so every reward is 0 and nothing is learned"
    # Switched off on purpose (the tutorial as it stands) is the user's word; anything else is a fault.
    level: Level = "warn" if form == "raw" else "block"
    yield Finding(level, title, detail, "set grpo.final_number_answers=true" if form == "raw" else "")


_LEVELS: dict[memory.Colour, Level] = {"green": "pass", "amber": "warn", "red": "block", "unknown": "info"}


def _memory(answers: Answers, world: World) -> Iterable[Finding]:
    run, seen = Run.of(answers), memory.estimate(answers)
    if run.train_gpus < 1:
        return  # R1 and R2 say so
    title = f"memory of a {seen.gpu}: {seen.colour}" + (
        f", {seen.share:.0%} while training" if seen.share is not None else ""
    )
    yield Finding(_LEVELS[seen.colour], title, seen.text(), _relief(run, seen))


def _relief(run: Run, seen: memory.Estimate) -> str:
    """The one change that helps most."""
    if seen.colour in ("green", "unknown") or seen.state_gb is None:
        return ""
    if seen.generation == "red" and seen.cache_gb is not None:
        wider = min(run.vllm_tensor * 2, run.per_node)
        if wider > run.vllm_tensor and run.generation_gpus % (wider * run.vllm_pipeline) == 0:
            return run.fix("policy.generation.vllm_cfg.tensor_parallel_size", wider)
        return run.fix(
            "policy.generation.vllm_cfg.max_model_len",
            max(1, run.settings.number("policy.max_total_sequence_length") // 2),
        )
    if seen.generation == "amber" and seen.training == "green":
        return run.fix("policy.generation.vllm_cfg.gpu_memory_utilization", 0.6)
    state = seen.state_gb / seen.memory_gb
    micro = run.settings.number(MICRO)
    if memory.colour(state) == "green" and micro > 1:
        return run.fix(MICRO, micro // 2)
    more = next(
        (n for n in range(run.nodes + 1, 65) if state * run.train_gpus <= memory.GREEN * _trainers(run, n)), 0
    )
    others = [fit.recipe for fit in fitting(run.nodes, run.answers["quotas"]["gpu_type"]) if fit.published]
    return f"set quotas.gpu_nodes={more}" + (
        f", or a smaller recipe: grpo.recipe={others[0]}" if others else ""
    )


def _trainers(run: Run, nodes: int) -> int:
    return (nodes - run.generation_nodes) * run.per_node


CHECKS = (
    Check("rules", "Parameters go together", _rules, _PARAMETERS),
    Check("gold", "Gold answers", _gold, ("grpo.final_number_answers", "grpo.dataset")),
    Check("memory", "Memory of a GPU", _memory, (*_PARAMETERS, "quotas.gpu_type")),
)
