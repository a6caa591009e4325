"""A log to rows and facts: against recorded truth, and against what NeMo RL may print."""

from __future__ import annotations

import json
import math
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_training_logs import CONFIG, recorded_log, step_log

from grpo_wizard.steps.training import grammar
from grpo_wizard.steps.training import reader as metrics
from grpo_wizard.steps.training.lines import LineReader
from grpo_wizard.steps.training.rows import StepMetrics

EXPECTED: dict[str, Any] = json.loads(recorded_log("rl_loop_expected.json"))["steps"]
KEYS = [
    "step",
    "epoch",
    "total_steps",
    "batch_size",
    "loss",
    "generation_kl_error",
    "avg_reward",
    "mean_generation_length",
    "total_step_seconds",
    "timing",
    "timing_percent",
    "throughput",
    "validation",
    "checkpoint",
]


def read(text: str) -> metrics.LogReader:
    return metrics.parse_log(text.encode())


@pytest.mark.parametrize("number", list(EXPECTED))
def test_the_published_runs_rows_are_exactly_the_known_values(number: str) -> None:
    rows = {row.step: row for row in metrics.parse_log(recorded_log("rl_loop.log")).rows}
    assert sorted(rows) == sorted(map(int, EXPECTED))
    row, known = rows[int(number)], EXPECTED[number]
    timing, throughput = dict(known["timing_s"]), dict(known["performance"])
    assert row.total_step_seconds == timing.pop("Total step time")
    throughput["mean_total_tokens"] = throughput.pop("Mean Total Tokens per Sample")
    assert (row.timing, row.timing_percent, row.throughput) == (timing, known["timing_pct"], throughput)
    training = known["training"]
    assert [row.loss, row.generation_kl_error, row.avg_reward, row.mean_generation_length] == [
        training["Loss"],
        training["Generation KL Error"],
        training["Avg Reward"],
        training["Mean Generation Length"],
    ]
    assert (row.batch_size, row.total_steps) == (known["batch_size"], known["max_step_shown"])
    assert row.checkpoint is ("checkpoint_saving_step" in known)
    if known["validation"]:
        assert row.validation == {
            "accuracy": 0.0,
            "average_response_length": 189.2,
            "samples_processed": 256.0,
            "total_validation_seconds": 14.52,
        }
    else:
        assert row.validation is None


def test_a_rows_json_has_the_interfaces_keys() -> None:
    rows = metrics.parse_log(recorded_log("rl_loop.log")).to_json()["rows"]
    assert list(rows[0]) == KEYS
    assert [row["avg_reward"] for row in rows] == [0.0] * 7, "exact zeros are values, not gaps"


def test_every_line_that_the_tested_patterns_know_is_read_as_the_same_thing() -> None:
    patterns = {name: re.compile(text) for name, text in json.loads(recorded_log("log_regexes.json")).items()}
    kinds: dict[str, type] = {
        "epoch": grammar.EpochHeader,
        "step": grammar.StepHeader,
        "phase": grammar.PhaseStarted,
        "generating": grammar.PhaseStarted,
        "validation_start": grammar.ValidationStarted,
        "ckpt_save": grammar.CheckpointStarted,
        "logged_data": grammar.SamplesLogged,
        "training_kv": grammar.MetricValue,
        "validation_kv": grammar.MetricValue,
        "timing_total": grammar.PhaseTiming,
        "timing_kv": grammar.PhaseTiming,
        "perf_tokens": grammar.MetricValue,
        "perf_kv": grammar.MetricValue,
        "tqdm": grammar.TqdmBar,
        "end_max_steps": grammar.RunEnd,
        "wandb_run": grammar.WandbRun,
        "dynamic_sampling": grammar.DynamicSampling,
    }
    reader, seen = LineReader(), set()
    for name in ("rl_loop.log", "two_epochs.log", "loss_nan.log", "end_max_steps.log"):
        for line in reader.feed(recorded_log(name)):
            for kind, event in kinds.items():
                if not line.sources and patterns[kind].match(line.text):
                    seen.add(kind)
                    assert isinstance(grammar.parse(line.text), event), (kind, line.text)
    assert seen == set(kinds) - {"dynamic_sampling"}


def test_steps_count_over_the_epochs() -> None:
    reader = metrics.parse_log(recorded_log("two_epochs.log"))
    assert [(row.step, row.epoch, row.total_steps, row.avg_reward) for row in reader.rows] == [
        (1, 1, 6, 0.11),
        (2, 1, 6, 0.12),
        (3, 1, 6, 0.13),
        (4, 2, 6, 0.21),
        (5, 2, 6, 0.22),
        (6, 2, 6, 0.23),
    ]


def test_joined_late_in_a_later_epoch_the_logs_own_numbers_place_the_step() -> None:
    reader = read(step_log(2, 3, tail="Saving checkpoint for step 8...\n") + step_log(3, 3))
    assert [(row.step, row.epoch, row.checkpoint) for row in reader.rows] == [(8, 3, True), (9, 3, False)]


def test_joined_in_the_middle_of_a_step_its_results_are_not_lost() -> None:
    half = step_log(3, 9, tail="Logged data to logs/exp_001/train_data_step3.jsonl\n").split(
        "▶ Training policy...\n"
    )[1]
    assert [(row.step, row.loss) for row in read(half + step_log(4, 9)).rows] == [(3, 0.01), (4, 0.01)]


def test_nan_is_nan_inside_and_a_word_in_json() -> None:
    reader = metrics.parse_log(recorded_log("loss_nan.log"))
    assert [row.avg_reward for row in reader.rows] == [0.4219, 0.0, 0.0]
    assert all(row.loss is not None and math.isnan(row.loss) for row in reader.rows)
    text = json.dumps(reader.to_json(), allow_nan=False)
    assert [row["loss"] for row in json.loads(text)["rows"]] == ["nan"] * 3


def test_the_printed_config_and_overrides_are_known() -> None:
    reader = read(CONFIG + step_log(1, 3) + step_log(2, 3))
    facts = reader.run_info
    assert facts.config and facts.config["grpo"]["note"] == "a } in text"
    assert (
        facts.number("grpo.max_num_steps") == 4
        and facts.setting("policy.generation.colocated.enabled") is True
    )
    assert facts.overrides[0] == "grpo.max_num_steps=4"
    assert (facts.log_dir, facts.checkpoint_dir, facts.setup_complete) == (
        "/data/logs/exp_001",
        "/data/run",
        True,
    )
    assert facts.setup_seconds == {"vLLM init": 12.3, "Total setup": 15.0}


def test_the_last_epoch_ends_at_the_configured_steps() -> None:
    epochs = "\n========================= Epoch {}/3 =========================\n"
    log = (
        CONFIG
        + epochs.format(1)
        + step_log(1, 3)
        + step_log(2, 3)
        + step_log(3, 3)
        + epochs.format(2)
        + step_log(1, 3)
    )
    rows = read(log + "Max number of steps has been reached, stopping training early\n").rows
    assert [(row.step, row.epoch, row.total_steps) for row in rows] == [
        (1, 1, 4),
        (2, 1, 4),
        (3, 1, 4),
        (4, 2, 4),
    ]


def test_a_run_started_again_in_the_same_log_replaces_the_steps_it_repeats() -> None:
    log = (
        CONFIG
        + step_log(1, 4, loss="0.1")
        + step_log(2, 4, loss="0.2")
        + step_log(3, 4, loss="0.3")
        + CONFIG
        + step_log(2, 4, loss="0.9")
    )
    assert [(row.step, row.loss) for row in read(log).rows] == [(1, 0.1), (2, 0.9)]


def test_a_workers_look_alike_is_no_metric() -> None:
    log = step_log(1, 2) + "(VllmGenerationWorker pid=1)   • Avg Reward: 0.9999\n"
    assert [row.avg_reward for row in read(log).rows] == [0.5]


def test_dynamic_samplings_total_reward_stands_for_the_reward() -> None:
    log = step_log(1, 2).replace(
        "  • Avg Reward: 0.5000\n", "  • Avg Filtered Reward: 0.5000\n  • Avg Total Reward: 0.2000\n"
    )
    assert (
        read(log + "Detected 3 prompts with non-zero std; 8 are required and used for training.\n")
        .rows[0]
        .avg_reward
        == 0.2
    )


def test_a_validation_before_the_first_step_is_no_row() -> None:
    log = "🔍 Running initial validation...\n\n📊 Validation Results:\n    • Accuracy: 0.2500\n" + step_log(
        1, 2
    )
    reader = read(log)
    assert reader.run_info.initial_validation == {"accuracy": 0.25} and reader.rows[0].validation is None


def test_an_evaluations_log_gives_its_score() -> None:
    found = metrics.parse_log(recorded_log("eval.log")).to_json()
    assert found["eval"]["score"] == 0.8949 and found["eval"]["samples"] == 500
    assert (
        found["eval"]["metric"],
        found["eval"]["num_tests_per_prompt"],
        found["eval"]["dataset_name"],
    ) == ("pass@1", 16, "math500")
    assert "rows" not in found


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.integers(1, 5000))
def test_any_portions_give_the_same_rows(size: int) -> None:
    raw = recorded_log("two_epochs.log") + recorded_log("carriage_returns.log")
    reader = metrics.LogReader()
    for start in range(0, len(raw), size):
        reader.feed(raw[start : start + size])
    reader.close()
    assert reader.rows == metrics.parse_log(raw).rows


def test_the_published_log_takes_less_than_50_ms() -> None:
    raw = recorded_log("rl_loop.log")
    best = min(_seconds(raw) for _ in range(5))
    assert best < 0.05, f"{best * 1000:.0f} ms, {len(raw) / best / 1e6:.1f} MB/s"


def _seconds(raw: bytes) -> float:
    start = time.process_time()  # the machine may be busy with other tests
    metrics.parse_log(raw)
    return time.process_time() - start


def test_a_new_row_knows_nothing_yet() -> None:
    assert not StepMetrics(1).has_results
