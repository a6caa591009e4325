"""Memory of a GPU, against nemo-rl.md's table; what fits on one, two and four nodes; how long a job takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_answers import answers, apply_fix

from grpo_wizard.steps.core.model import CheckFinding
from grpo_wizard.steps.grpo import memory
from grpo_wizard.steps.grpo.checks import CHECKS
from grpo_wizard.steps.grpo.duration import estimate_training
from grpo_wizard.steps.grpo.memory import GpuWorkload, estimate_gpu, fitting_recipes
from grpo_wizard.steps.grpo.recipes import ModelShape, checkpoint_gb, model, recipes_by_name

H200, B200 = "nvidia-h200-141gb", "nvidia-b200"


def _load(size: float, gpus: int, **more: Any) -> GpuWorkload:
    return GpuWorkload(
        model=ModelShape(params_b=size),
        train_gpus=gpus,
        **{
            "tensor_parallel": 1,
            "micro_batch_tokens": 1,
            "vllm_tensor_parallel": 8,
            "gpu_memory_utilization": 0.6,
            "max_model_len": 1,
        }
        | more,
    )


def _checked(**changed: Any) -> CheckFinding:
    [check] = [check for check in CHECKS if check.id == "memory"]
    [found] = check.run(answers(**changed), None)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    "size,gpus,gb",
    [
        (8, 8, 16),
        (8, 16, 8),
        (12, 8, 24),
        (27.4, 8, 55),
        (27.4, 16, 27),
        (32.8, 8, 66),
        (30.5, 16, 31),
        (70, 8, 140),
    ],
)
def test_the_state_of_a_model_is_16_bytes_a_parameter_over_all_that_train(
    size: float, gpus: int, gb: float
) -> None:
    assert estimate_gpu(_load(size, gpus), B200).state_gb == pytest.approx(gb, abs=1)


@pytest.mark.parametrize("gpu,gb", [(H200, 141.0), (B200, 180.0)])
@pytest.mark.parametrize("share,colour", [(0.499, "ok"), (0.501, "tight"), (0.649, "tight"), (0.651, "oom")])
def test_green_ends_at_half_and_amber_at_65_percent(gpu: str, gb: float, share: float, colour: str) -> None:
    seen = estimate_gpu(_load(share * gb * 8 / 16, 8), gpu)
    assert seen.training == colour and seen.share == pytest.approx(share, abs=0.001)


def test_70_billion_do_not_fit_on_one_node_and_do_on_four() -> None:
    verdicts = [
        (gpu, nodes, estimate_gpu(_load(70, nodes * 8), gpu).training)
        for gpu in (H200, B200)
        for nodes in (1, 2, 4)
    ]
    assert [colour for _, _, colour in verdicts] == ["oom", "ok", "ok", "oom", "ok", "ok"]


def test_logits_of_gemmas_vocabulary_are_17_gb_a_copy_at_16k_tokens() -> None:
    gemma = GpuWorkload(
        model=model("google/gemma-3-27b-it"),
        train_gpus=8,
        tensor_parallel=1,
        micro_batch_tokens=16384,
        vllm_tensor_parallel=8,
        gpu_memory_utilization=0.9,
        max_model_len=16384,
    )
    assert estimate_gpu(gemma, B200).logits_gb == pytest.approx(3 * 17.2, abs=0.1)
    whole = estimate_gpu(gemma, H200)
    assert (whole.training, whole.fit) == ("oom", "oom")


def test_the_tutorial_is_green_and_its_figures_are_told() -> None:
    seen = memory.estimate_run(answers())
    assert (seen.training, seen.generation, seen.fit) == ("ok", "ok", "ok")
    assert seen.weights_gb == pytest.approx(
        51.4478 * 1.0737 / 8, abs=0.2
    )  # vLLM's own log at TP1: 51.4478 GiB
    assert _checked().level == "pass" and "54.8 GB for state" in _checked().detail


def test_what_does_not_fit_blocks_and_the_fix_makes_it_fit() -> None:
    changed: dict[str, Any] = {"quotas__gpu_nodes": 1, "quotas__gpu_type": H200}
    found = _checked(**changed)
    assert found.level == "block" and "not enough memory" in found.detail
    for _ in range(4):
        if found.level == "block":
            changed = apply_fix(found.fix.partition(", or")[0], changed)
            found = _checked(**changed)
    assert found.level in ("pass", "warn"), found


def test_one_sequence_that_does_not_fit_into_vllm_is_red_and_a_greedy_share_is_amber() -> None:
    [qwen] = [model("Qwen/Qwen2.5-32B")]
    assert (
        estimate_gpu(
            GpuWorkload(
                model=qwen,
                train_gpus=32,
                tensor_parallel=8,
                micro_batch_tokens=1,
                vllm_tensor_parallel=1,
                gpu_memory_utilization=0.6,
                max_model_len=16384,
            ),
            H200,
        ).generation
        == "ok"
    )
    assert (
        estimate_gpu(
            GpuWorkload(
                model=qwen,
                train_gpus=32,
                tensor_parallel=8,
                micro_batch_tokens=1,
                vllm_tensor_parallel=1,
                gpu_memory_utilization=0.4,
                max_model_len=16384,
            ),
            H200,
        ).generation
        == "oom"
    )  # 66 of 56 GB
    assert (
        estimate_gpu(
            GpuWorkload(
                model=qwen,
                train_gpus=32,
                tensor_parallel=8,
                micro_batch_tokens=1,
                vllm_tensor_parallel=1,
                gpu_memory_utilization=0.9,
                max_model_len=16384,
                colocated=True,
            ),
            H200,
        ).generation
        == "tight"
    )
    one = estimate_gpu(
        GpuWorkload(
            model=qwen,
            train_gpus=32,
            tensor_parallel=8,
            micro_batch_tokens=1,
            vllm_tensor_parallel=1,
            gpu_memory_utilization=0.6,
            max_model_len=75_000,
        ),
        H200,
    )
    assert one.sequences == 0 and one.generation == "oom"


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.floats(0.5, 700), st.integers(1, 64), st.sampled_from([1, 2, 4, 8]), st.sampled_from([H200, B200]))
def test_more_gpus_never_make_it_worse(size: float, nodes: int, tensor: int, gpu: str) -> None:
    order = ["ok", "tight", "oom"]
    few = estimate_gpu(_load(size, nodes * 8, tensor_parallel=tensor), gpu)
    many = estimate_gpu(_load(size, nodes * 16, tensor_parallel=tensor), gpu)
    assert order.index(many.training) <= order.index(few.training)


def test_a_model_of_unknown_size_is_unknown_and_not_blocked() -> None:
    assert _checked(grpo__model="someone/new-model").level == "info"
    assert memory.estimate_run(answers(grpo__model="someone/new-model")).fit == "unknown"


def test_recipes_that_fit_are_offered_by_size_and_the_huge_ones_are_not() -> None:
    one, two, four = ([fit.recipe for fit in fitting_recipes(n, H200) if fit.published] for n in (1, 2, 4))
    assert (
        "grpo-gemma3-1b-it-1n8g-fsdp2tp1" in one
        and "grpo-llama3.1-8b-instruct-2n8g-fsdp2tp1-noncolocated" not in one
    )
    assert "grpo-llama3.1-8b-instruct-2n8g-fsdp2tp1-noncolocated" in two
    assert {"grpo-qwen2.5-7b-instruct-4n8g-fsdp2tp4.v3", "grpo-math-qwen3-30ba3b-megatron-tp4-32k"} <= set(
        four
    )
    assert set(one) < set(two) < set(four)
    for nodes in (1, 2, 4):
        assert not any("dsv3" in fit.recipe for fit in fitting_recipes(nodes, B200))
    tutorial = next(
        fit for fit in fitting_recipes(2, B200) if fit.recipe.startswith("grpo-gemma3-27b-it-8n8g")
    )
    assert tutorial.fit == "ok" and not tutorial.published


def test_choices_are_offered_from_the_smallest_up_and_all_of_them_are_there() -> None:
    rows = list(recipes_by_name().values())
    sizes = [row["nodes"] * row["gpus_per_node"] for row in rows]
    assert sizes == sorted(sizes) and len(rows) == 45
    assert {row["model"] for row in rows} <= set(_models())


def _models() -> dict[str, Any]:
    from grpo_wizard.steps.core import catalog

    found: dict[str, Any] = catalog.load("recipes")["models"]
    return found


def test_a_checkpoint_of_the_tutorials_model_is_about_330_gb() -> None:
    assert checkpoint_gb("grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long") == pytest.approx(330, abs=5)


def test_the_tutorials_ten_steps_take_what_the_published_log_took() -> None:
    usual = estimate_training(answers())
    assert (usual.low, usual.high) == (300 + 9250, 300 + 10760) and "published log" in usual.source


def test_time_grows_with_steps_and_answers_and_ends_at_the_limit() -> None:
    small, large = (
        estimate_training(answers(grpo__max_num_steps=5)),
        estimate_training(answers(grpo__max_num_steps=20)),
    )
    assert small.high < large.high
    wide = estimate_training(answers(grpo__num_prompts_per_step=32))
    assert wide.high > estimate_training(answers()).high and "scaled" in wide.source
    capped = estimate_training(answers(grpo__max_num_steps=1_000_000))
    assert capped.high == 24 * 3600 and "grpo.max_hours" in capped.source
    assert "no published figure" in estimate_training(answers(grpo__model="someone/new-model")).source
