"""R1 to R22: each rule on both sides of its boundary, and every suggestion followed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sample_answers import answers, apply_fix

from grpo_wizard.steps.grpo.constraints.evaluate import CONSTRAINTS, violation_findings, violations
from grpo_wizard.steps.grpo.constraints.model import Violation
from grpo_wizard.steps.grpo.recipes import recipes_by_name

LLAMA = "grpo-llama3.1-8b-instruct-2n8g-fsdp2tp1-noncolocated"
GEMMA1 = "grpo-gemma3-1b-it-1n8g-fsdp2tp1"
QWEN = "grpo-qwen2.5-7b-instruct-4n8g-megatron"
MOE = "grpo-qwen3-30ba3b-8n8g-megatron"
FP8 = "grpo-qwen3-8b-base-1n8g-fp8-kvcache-megatron"
VLLM, WHERE = "policy.generation.vllm_cfg", "policy.generation.colocated.resources"


def _says(rule: str, changed: dict[str, Any]) -> list[Violation]:
    return [found for row, found in violations(answers(**changed)) if row.id == rule]


def _with(*overrides: str, **changed: Any) -> dict[str, Any]:
    return changed | {"grpo__overrides": list(overrides)}


def test_the_wizards_own_answers_raise_no_warning_of_their_parameters() -> None:
    """The tutorial's recipe keeps micro batches of 1 and 2: that is told, and whoever changes them is warned."""
    assert not [found for found in violation_findings(answers()) if found.level in ("warn", "block")]
    alone = answers(quotas__gpu_nodes=1)
    assert "warn" not in {found.level for row, found in violations(alone) if row.id == "R9"}


def test_the_table_is_r1_to_r22_and_each_row_says_what_and_where() -> None:
    assert [rule.id for rule in CONSTRAINTS] == [f"R{number}" for number in range(1, 23)]
    assert all(rule.description and rule.source.startswith("https://") for rule in CONSTRAINTS)


# (rule, level, what breaks it, its nearest neighbour that keeps it)
NEIGHBOURS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("R1", "block", {"grpo__generation_nodes": 2}, {"grpo__generation_nodes": 1}),
    ("R1", "block", _with(f"{WHERE}.gpus_per_node=7"), _with(f"{WHERE}.gpus_per_node=8")),
    ("R1", "block", _with(f"{WHERE}.num_nodes=0"), _with(f"{WHERE}.num_nodes=1")),
    (
        "R2",
        "block",
        _with(f"{WHERE}.gpus_per_node=8", quotas__gpu_nodes=1),
        _with(f"{WHERE}.gpus_per_node=7", quotas__gpu_nodes=1),
    ),
    (
        "R2",
        "block",
        _with(f"{WHERE}.gpus_per_node=0", quotas__gpu_nodes=1),
        _with(f"{WHERE}.gpus_per_node=1", quotas__gpu_nodes=1),
    ),
    (
        "R2",
        "block",
        _with(f"{WHERE}.num_nodes=2", quotas__gpu_nodes=1),
        _with(f"{WHERE}.num_nodes=1", quotas__gpu_nodes=1),
    ),
    ("R3", "block", {"grpo__tensor_parallel": 16}, {"grpo__tensor_parallel": 8}),
    (
        "R3",
        "block",
        {"grpo__recipe": MOE, "quotas__gpu_nodes": 1, "grpo__colocated": True},
        {"grpo__recipe": MOE, "quotas__gpu_nodes": 2, "grpo__colocated": True},
    ),
    (
        "R4",
        "block",
        {"grpo__recipe": GEMMA1, "grpo__tensor_parallel": 2},
        {"grpo__recipe": GEMMA1, "grpo__tensor_parallel": 1},
    ),
    (
        "R4",
        "block",
        {"grpo__recipe": QWEN, "grpo__tensor_parallel": 8},
        {"grpo__recipe": QWEN, "grpo__tensor_parallel": 4},
    ),
    ("R5", "block", {"grpo__vllm_tensor_parallel": 3}, {"grpo__vllm_tensor_parallel": 4}),
    (
        "R5",
        "warn",
        {"grpo__vllm_tensor_parallel": 16, "grpo__colocated": True},
        {"grpo__vllm_tensor_parallel": 8, "grpo__colocated": True},
    ),
    (
        "R5",
        "block",
        _with(f"{VLLM}.pipeline_parallel_size=2", grpo__vllm_tensor_parallel=4),
        _with(f"{VLLM}.pipeline_parallel_size=2", f"{VLLM}.async_engine=true", grpo__vllm_tensor_parallel=4),
    ),
    (
        "R5",
        "block",
        _with(f"{VLLM}.expert_parallel_size=12"),
        _with(f"{VLLM}.expert_parallel_size=16"),
    ),
    (
        "R6",
        "block",
        _with("policy.train_global_batch_size=500"),
        _with("policy.train_global_batch_size=256"),
    ),
    (
        "R7",
        "block",
        {"grpo__recipe": LLAMA, "grpo__num_prompts_per_step": 17, "grpo__num_generations_per_prompt": 3},
        {"grpo__recipe": LLAMA, "grpo__num_prompts_per_step": 16, "grpo__num_generations_per_prompt": 3},
    ),
    ("R8", "block", _with("policy.train_micro_batch_size=3"), _with("policy.train_micro_batch_size=4")),
    ("R8", "block", _with("policy.logprob_batch_size=5"), _with("policy.logprob_batch_size=4")),
    ("R9", "info", {}, _with("policy.logprob_batch_size=1")),
    ("R9", "warn", _with("policy.logprob_batch_size=4"), _with("policy.logprob_batch_size=1")),
    ("R9", "warn", {"grpo__tensor_parallel": 4}, {"grpo__tensor_parallel": 2}),
    (
        "R10",
        "block",
        _with("policy.sequence_packing.enabled=true", grpo__recipe=LLAMA),
        _with(
            "policy.sequence_packing.enabled=true",
            "policy.dynamic_batching.enabled=false",
            grpo__recipe=LLAMA,
        ),
    ),
    (
        "R10",
        "block",
        _with("policy.sequence_packing.enabled=true"),
        _with("policy.sequence_packing.enabled=true", "policy.model_name=Qwen/Qwen2.5-32B"),
    ),
    (
        "R10",
        "block",
        _with("+policy.dynamic_batching.train_mb_tokens=4095", grpo__recipe=LLAMA),
        _with("+policy.dynamic_batching.train_mb_tokens=4096", grpo__recipe=LLAMA),
    ),
    (
        "R10",
        "block",
        _with("policy.dtensor_cfg.context_parallel_size=2"),
        _with("policy.dtensor_cfg.context_parallel_size=1"),
    ),
    (
        "R10",
        "block",
        _with(
            "policy.megatron_cfg.context_parallel_size=2",
            "policy.sequence_packing.enabled=false",
            grpo__recipe=QWEN,
        ),
        _with("policy.megatron_cfg.context_parallel_size=2", grpo__recipe=QWEN),
    ),
    (
        "R11",
        "block",
        _with("policy.megatron_cfg.enabled=true"),
        _with("policy.megatron_cfg.enabled=true", "policy.dtensor_cfg.enabled=false"),
    ),
    ("R11", "block", _with("policy.dtensor_cfg.enabled=false"), {}),
    (
        "R11",
        "block",
        _with("checkpointing.model_save_format=safetensors"),
        _with("checkpointing.model_save_format=safetensors", "policy.dtensor_cfg._v2=true"),
    ),
    ("R11", "block", _with("+policy.dtensor_cfg.lora_cfg.enabled=true"), {}),
    ("R12", "block", _with("policy.generation.top_p=0.98"), _with("policy.generation.top_p=0.99")),
    ("R12", "block", _with("policy.generation.top_k=7999"), _with("policy.generation.top_k=8000")),
    ("R12", "block", _with("policy.generation.top_k=50"), _with("policy.generation.top_k=-1")),
    ("R13", "block", _with("grpo.max_val_samples=255"), _with("grpo.max_val_samples=256")),
    (
        "R13",
        "block",
        _with("grpo.val_batch_size=257"),
        _with("grpo.val_batch_size=257", "grpo.val_period=0"),
    ),
    ("R14", "block", _with("grpo.batch_multiplier=2"), _with("grpo.batch_multiplier=1")),
    (
        "R14",
        "block",
        _with("grpo.use_dynamic_sampling=true", "grpo.dynamic_sampling_max_gen_batches=0"),
        _with("grpo.use_dynamic_sampling=true", "grpo.dynamic_sampling_max_gen_batches=1"),
    ),
    (
        "R15",
        "block",
        _with("loss_fn.force_on_policy_ratio=true", grpo__num_prompts_per_step=32),
        _with("loss_fn.force_on_policy_ratio=true", grpo__num_prompts_per_step=16),
    ),
    (
        "R16",
        "block",
        _with("grpo.async_grpo.enabled=true", f"{VLLM}.async_engine=true"),
        _with(
            "grpo.async_grpo.enabled=true",
            f"{VLLM}.async_engine=true",
            "loss_fn.use_importance_sampling_correction=true",
        ),
    ),
    (
        "R16",
        "block",
        _with(f"{VLLM}.async_engine=true", grpo__recipe=FP8, quotas__gpu_nodes=1, grpo__colocated=True),
        _with(grpo__recipe=FP8, quotas__gpu_nodes=1, grpo__colocated=True),
    ),
    ("R17", "block", {"grpo__num_generations_per_prompt": 1}, {"grpo__num_generations_per_prompt": 3}),
    ("R17", "warn", {"grpo__num_generations_per_prompt": 2}, {"grpo__num_generations_per_prompt": 3}),
    (
        "R18",
        "block",
        _with("checkpointing.metric_name=accuracy"),
        _with("checkpointing.metric_name='val:accuracy'"),
    ),
    (
        "R18",
        "block",
        _with("checkpointing.metric_name='val:reward'"),
        _with("checkpointing.metric_name=null"),
    ),
    ("R18", "warn", _with("checkpointing.save_period=15"), _with("checkpointing.save_period=20")),
    (
        "R18",
        "warn",
        _with("grpo.val_period=-1"),
        _with("grpo.val_period=-1", "checkpointing.metric_name=null"),
    ),
    (
        "R19",
        "block",
        {"grpo__num_prompts_per_step": 7474, "grpo__num_generations_per_prompt": 4},
        {"grpo__num_prompts_per_step": 7473, "grpo__num_generations_per_prompt": 4},
    ),
    ("R20", "block", _with("cluster.num_nodes=3"), _with("cluster.num_nodes=2")),
    ("R20", "block", _with("cluster.gpus_per_node=9"), _with("cluster.gpus_per_node=8")),
    ("R21", "block", _with(f"{VLLM}.max_model_len=16385"), _with(f"{VLLM}.max_model_len=16384")),
    (
        "R21",
        "block",
        _with(f"{VLLM}.max_model_len=4096"),
        _with(f"{VLLM}.max_model_len=4096", "policy.generation.max_new_tokens=4096"),
    ),
    ("R21", "warn", _with("data.max_input_seq_length=16385"), _with("data.max_input_seq_length=16384")),
    ("R22", "info", {}, {"grpo__model": "Qwen/Qwen2.5-32B"}),
]


@pytest.mark.parametrize("rule,level,bad,good", NEIGHBOURS)
def test_each_side_of_each_boundary(rule: str, level: str, bad: dict[str, Any], good: dict[str, Any]) -> None:
    assert level in [found.level for found in _says(rule, bad)]
    assert level not in [found.level for found in _says(rule, good)]


@pytest.mark.parametrize("rule,level,bad,good", [row for row in NEIGHBOURS if row[0] != "R22"])
def test_who_follows_the_suggestions_keeps_the_rule(
    rule: str, level: str, bad: dict[str, Any], good: dict[str, Any]
) -> None:
    changed = bad
    for _ in range(3):  # some rules are broken in two places at once
        found = _says(rule, changed)
        if not found:
            return
        changed = apply_fix(found[0].fix, changed)
    assert _says(rule, changed) == []


def test_every_rule_has_a_neighbour_on_each_side() -> None:
    assert {row[0] for row in NEIGHBOURS} == {rule.id for rule in CONSTRAINTS}


def test_the_tutorial_itself_is_told_of_its_micro_batches_and_warned_of_nothing() -> None:
    found = list(violation_findings(answers()))
    assert [each.level for each in found] == ["info", "info"]
    assert "micro batches of 1 (training) and 2 (logprob)" in found[0].detail


RUNS = st.fixed_dictionaries(
    {
        "grpo__recipe": st.sampled_from(sorted(recipes_by_name())),
        "quotas__gpu_nodes": st.integers(1, 9),
        "grpo__colocated": st.booleans(),
        "grpo__generation_nodes": st.integers(1, 4),
        "grpo__num_prompts_per_step": st.integers(1, 200),
        "grpo__num_generations_per_prompt": st.integers(1, 40),
    }
)


@settings(derandomize=True, max_examples=250, deadline=None)
@given(RUNS, st.sampled_from([1, 2, 3, 4, 6, 8, 16]), st.sampled_from([1, 2, 4, 5, 8, 16]))
def test_any_run_can_be_mended_by_following_the_fixes(run: dict[str, Any], tensor: int, vllm: int) -> None:
    changed = run | {"grpo__tensor_parallel": tensor, "grpo__vllm_tensor_parallel": vllm}
    assume(run["quotas__gpu_nodes"] > 1 or not run["grpo__recipe"].startswith("grpo-dapo"))
    for _ in range(14):
        found = [each for _row, each in violations(answers(**changed)) if each.level == "block"]
        if not found:
            return
        changed = apply_fix(found[0].fix, changed)
    raise AssertionError([each.text for each in found])


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 512))
def test_batches_are_accepted_exactly_when_nemo_rl_can_part_them(
    prompts: int, group: int, train_batch: int
) -> None:
    changed = _with(
        f"policy.train_global_batch_size={train_batch}",
        grpo__recipe=LLAMA,
        grpo__num_prompts_per_step=prompts,
        grpo__num_generations_per_prompt=group,
    )
    copies = 8  # one node of the two trains, tensor parallel 1
    refused = {row.id for row, _ in violations(answers(**changed))} & {"R6", "R7"}
    parted = (prompts * group) % train_batch == 0 and train_batch % copies == 0
    assert (not refused) == parted


def test_keys_that_the_wizard_does_not_know_pass() -> None:
    kept = list(
        violation_findings(
            answers(grpo__overrides="+policy.new_thing=7 ++env.math.other=[1,2] ~data.shuffle")
        )
    )
    assert [each.level for each in kept] == ["info", "info"]
