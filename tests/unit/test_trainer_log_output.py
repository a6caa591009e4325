"""What the toy prints, held against the patterns that were tested on a published NeMo RL log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import trainer_import_path  # noqa: F401
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_grpo import bars, cluster, report
from toy_grpo.rules import Layout

PATTERNS = {
    name: re.compile(pattern)
    for name, pattern in json.loads(
        (Path(__file__).parent / "fixtures/log_regexes.json").read_text(encoding="utf-8")
    ).items()
}
LAYOUT = Layout(3, 8, False, 2, 16, 1, 8)
# Step 4 of the published run: the toy's formulas must come to its numbers.
PUBLISHED = {"policy_training": 744.26, "policy_and_reference_logprobs": 185.11, "generation": 37.45}


def _kinds(text: str) -> list[str | None]:
    return [
        next(
            (
                name
                for name, pattern in PATTERNS.items()
                if pattern.search(line) and name not in ("ansi", "rule")
            ),
            None,
        )
        for line in text.split("\n")
        if line
    ]


def _numbers(value: float = 0.25) -> report.StepNumbers:
    return report.StepNumbers(value, 0.0003, value, 229.0537, 232.0537, 337081, 1024)


def test_every_line_of_the_blocks_is_one_that_nemo_rl_prints() -> None:
    seconds = {**PUBLISHED, "prepare_for_generation/transfer_and_update_weights": 1.87}
    assert _kinds(report.training(_numbers())) == ["hdr_training", *["training_kv"] * 4]
    assert _kinds(report.timing(970.66, seconds)) == ["hdr_timing", "timing_total", *["timing_kv"] * 4]
    assert _kinds(report.performance(_numbers(), 970.66, seconds, LAYOUT)) == [
        "hdr_perf",
        "perf_tokens",
        "hdr_perf_group",
        *["perf_kv"] * 6,
        "hdr_perf_group",
        *["perf_kv"] * 4,
    ]
    assert _kinds(report.validation(0.5, 2.5, 256, 0.4)) == [
        "hdr_validation",
        *["validation_kv"] * 3,
        "hdr_val_timing",
        "validation_kv",
    ]
    assert _kinds(report.rule("Epoch 1/1") + report.rule("Step 4/10")) == ["epoch", "step"]


def test_a_loss_that_is_no_number_is_printed_as_python_does() -> None:
    assert "  • Loss: nan" in report.training(_numbers(float("nan")))
    assert _kinds(report.training(_numbers(float("nan")))) == ["hdr_training", *["training_kv"] * 4]


def test_throughputs_are_reckoned_as_in_the_published_step() -> None:
    text = report.performance(_numbers(), 970.66, PUBLISHED, LAYOUT)
    for line in (
        "E2E (Tokens/sec/gpu): 14.47",
        "Policy Training (Tokens/sec/gpu): 28.31",
        "Logprobs (Tokens/sec/gpu): 113.81",
        "Training Worker Group (Tokens/sec/gpu): 22.67",
        "E2E (Tokens/sec): 347.27",
        "Training Worker Group (Tokens/sec): 362.70",
    ):
        assert line in text


def test_timings_are_sorted_by_their_length() -> None:
    found = re.findall(
        r"• (\w+): [\d.]+s \(",
        report.timing(10, {"generation": 1, "policy_training": 7, "data_processing": 2}),
    )
    assert found == ["policy_training", "data_processing", "generation"]


@pytest.mark.parametrize("colocated,lines", [(True, 1), (False, 2)])
def test_the_set_up_says_how_the_gpus_are_shared(colocated: bool, lines: int) -> None:
    text = cluster.setup_lines(Layout(3, 8, colocated, 2, 16, 1, 8), 7473, 1319)
    assert text.count("nodes") == lines
    assert _kinds(text).count("setup_phase") == 2


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.integers(1, 100_000), st.data(), st.floats(0, 100_000), st.sampled_from(["it", "worker"]))
def test_any_bar_is_one_of_tqdms(total: int, data: st.DataObject, seconds: float, unit: str) -> None:
    done = data.draw(st.integers(0, total))
    text = bars.bar(
        "Processed prompts", done, total, seconds, unit, "est. speed input: 1.00 toks/s, output: 2.00 toks/s"
    )
    found = PATTERNS["tqdm"].match(text)
    assert found is not None and (int(found["i"]), int(found["n"])) == (done, total)
    assert PATTERNS["vllm_speed"].search(text)


def test_a_bar_looks_as_in_the_published_log() -> None:
    assert bars.bar("Processed prompts", 477, 1024, 18.6, postfix="x").startswith(
        "Processed prompts:  47%|████▋     | 477/1024 [00:18<00:21, 25.65it/s, x]"
    )
    assert (
        bars.bar("Adding requests", 0, 1024, 0) == "Adding requests:   0%|          | 0/1024 [00:00<?, ?it/s]"
    )
    assert (
        bars.bar("Processed prompts", 1, 1024, 6.1)
        == "Processed prompts:   0%|          | 1/1024 [00:06<1:44:00,  6.10s/it]"
    )
