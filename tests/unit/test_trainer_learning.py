"""The toy's GRPO is GRPO: advantages, loss, gradient, and a reward that rises for every length of run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trainer_import_path  # noqa: F401
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_grpo import grpo, model, task

LOSS = grpo.LossConfig(0.2, 0.2, 0.01, True)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=8, max_size=8))
def test_an_advantage_is_the_reward_minus_the_mean_of_the_others_over_their_deviation(
    rewards: list[float],
) -> None:
    found = grpo.advantages(np.array(rewards), 8, leave_one_out=True, normalize=True)
    for i, reward in enumerate(rewards):
        others = np.array(rewards[:i] + rewards[i + 1 :])
        wanted = reward - others.mean()
        assert found[i] == pytest.approx(wanted / (others.std() + 1e-6) if others.std() > 1e-6 else wanted)


def test_equal_rewards_teach_nothing() -> None:
    for value in (0.0, 1.0):
        assert not grpo.advantages(np.full(64, value), 32, leave_one_out=True, normalize=True).any()


def test_a_group_of_one_teaches_nothing() -> None:
    assert not grpo.advantages(np.array([0.0, 1.0, 1.0]), 1, leave_one_out=True, normalize=False).any()


def _batch(params: model.Params, seed: int = 3) -> grpo.Batch:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 10, 24), rng.integers(0, 10, 24)
    tokens, mask, logps = model.sample(params, a, b, rng)
    old = logps + rng.normal(0, 0.15, logps.shape)
    return grpo.Batch(
        a, b, tokens, mask, logps, old, logps + rng.normal(0, 0.3, logps.shape), rng.normal(size=24)
    )


def _loss(params: model.Params, batch: grpo.Batch) -> float:
    return grpo.loss_and_weights(batch, model.token_logprobs(params, batch.a, batch.b, batch.tokens), LOSS)[0]


def test_the_gradient_by_hand_is_the_gradient_by_differences() -> None:
    params = model.fresh(np.random.default_rng(1))
    batch = _batch(params)
    x = task.sequence_features(batch.a, batch.b, batch.tokens)
    every, hidden = model.forward(params, x)
    _, weights = grpo.loss_and_weights(
        batch, model.token_logprobs(params, batch.a, batch.b, batch.tokens), LOSS
    )
    grad = model.gradient(params, x, hidden, every, batch.tokens.reshape(-1), weights.reshape(-1))
    rng = np.random.default_rng(5)
    for name, value in params.items():
        flat = value.reshape(-1)
        for place in rng.integers(0, flat.size, 5):
            kept, differences = flat[place], []
            for shift in (1e-6, -1e-6):
                flat[place] = kept + shift
                differences.append(_loss(params, batch))
            flat[place] = kept
            assert grad[name].reshape(-1)[place] == pytest.approx(
                (differences[0] - differences[1]) / 2e-6, abs=1e-6
            )


@pytest.mark.parametrize("seed", range(2))
def test_the_base_model_starts_equally_unsure_with_every_seed(seed: int) -> None:
    assert model.expected_reward(model.warm_up(np.random.default_rng([seed, 1]))) == pytest.approx(
        0.06, abs=1e-4
    )


def test_samples_carry_the_log_probabilities_of_what_was_written() -> None:
    params = model.fresh(np.random.default_rng(2))
    a, b = np.arange(10), np.arange(10)[::-1].copy()
    tokens, mask, logps = model.sample(params, a, b, np.random.default_rng(0))
    assert np.allclose(logps, model.token_logprobs(params, a, b, tokens) * mask)


@pytest.mark.parametrize(
    "gold,wanted",
    [("72", True), ("2,125", True), ("-3.5", True), ("48+24=72\n#### 72", False), ("#### 72", False)],
)
def test_only_a_bare_number_can_be_verified(gold: str, wanted: bool) -> None:
    assert task.gold_is_final_number(gold) is wanted


@pytest.mark.parametrize("steps,seed", [(10, 7), (37, 8), (100, 9)])
def test_the_last_third_is_twice_the_first_for_any_length_of_run(steps: int, seed: int) -> None:
    """The loop of loop.py without Ray; tests/bench/grpo_table.py has it with Ray and more seeds."""
    # A process of its own: numpy takes its number of threads when it is first imported.
    script, env = (
        Path(__file__).with_name("trainer_simulation.py"),
        {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    done = subprocess.run(
        [sys.executable, str(script), str(steps), str(seed)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    means = json.loads(done.stdout)
    third = steps // 3
    assert len(means) == steps
    assert sum(means[-third:]) >= 2 * sum(means[:third])


def test_no_answer_to_a_gold_that_cannot_be_verified_is_right() -> None:
    params = model.warm_up(np.random.default_rng([1, 1]))
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 10, 512), rng.integers(0, 10, 512)
    tokens, mask, _ = model.sample(params, a, b, rng)
    assert not task.rewards(a, b, tokens, mask, np.zeros(512, dtype=bool)).any()
