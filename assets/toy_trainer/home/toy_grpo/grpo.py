"""The GRPO algorithm: group-relative advantages, the clipped surrogate with a k3 penalty, and the update schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toy_grpo.model import Adam, Params, forward, gradient, token_logprobs
from toy_grpo.task import Floats, Ints, sequence_features

# Measured over seeds and max_num_steps 10..100 (tests/bench/grpo_convergence.py): the number of updates of a run of
# any of these lengths.
UPDATES_PER_RUN = 80
LEARNING_RATE = 1.5e-2


@dataclass(frozen=True)
class LossConfig:
    """loss_fn of the configuration."""

    clip_min: float
    clip_max: float
    kl_penalty: float
    token_level: bool


@dataclass(frozen=True)
class Batch:
    """The samples of one step; groups of `num_generations` are adjacent. Arrays are [n] or [n, tokens]."""

    a: Ints
    b: Ints
    tokens: Ints
    mask: Ints
    generation_logprobs: Floats
    prev_logprobs: Floats
    reference_logprobs: Floats
    advantages: Floats


def advantages(rewards: Floats, group: int, *, leave_one_out: bool, normalize: bool) -> Floats:
    """Return reward minus the group's baseline; with `normalize`, divided by the group's standard deviation
    unless it is 0.
    """
    r = rewards.reshape(-1, group)
    count = group - 1 if leave_one_out and group > 1 else group
    own = r if leave_one_out and group > 1 else np.zeros_like(r)
    baseline = (r.sum(axis=1, keepdims=True) - own) / count
    deviation = np.sqrt(np.maximum(((r**2).sum(axis=1, keepdims=True) - own**2) / count - baseline**2, 0.0))
    if group == 1:
        return np.zeros_like(rewards)
    centred = r - baseline
    if normalize:
        centred = np.where(deviation > 1e-6, centred / (deviation + 1e-6), centred)
    return np.asarray(centred.reshape(-1), dtype=np.float64)


def schedule(max_num_steps: int) -> tuple[int, float]:
    """Return (updates per step, learning rate), which spread one run's learning over max_num_steps."""
    wanted = UPDATES_PER_RUN / max(1, max_num_steps)
    updates = max(1, round(wanted))
    return updates, LEARNING_RATE * min(1.5, wanted / updates)


def loss_and_weights(batch: Batch, logprobs: Floats, loss: LossConfig) -> tuple[float, Floats]:
    """Return (loss, d loss / d logprob [n, tokens]) of the clipped surrogate plus the k3 penalty."""
    ratio = np.exp(logprobs - batch.prev_logprobs)
    adv = batch.advantages[:, None]
    clipped = np.clip(ratio, 1 - loss.clip_min, 1 + loss.clip_max)
    surrogate = np.maximum(-adv * ratio, -adv * clipped)
    active = -adv * ratio >= -adv * clipped
    gap = batch.reference_logprobs - logprobs
    penalty = loss.kl_penalty * (np.exp(gap) - gap - 1.0)
    slope = np.where(active, -adv * ratio, 0.0) + loss.kl_penalty * (1.0 - np.exp(gap))
    share = _share(batch.mask, loss.token_level)
    return float(((surrogate + penalty) * share).sum()), slope * share


def _share(mask: Ints, token_level: bool) -> Floats:
    if token_level:
        return np.asarray(mask / max(1, int(mask.sum())))
    return np.asarray(mask / np.maximum(mask.sum(axis=1, keepdims=True), 1) / len(mask))


def update(params: Params, adam: Adam, batch: Batch, loss: LossConfig, updates: int) -> tuple[float, float]:
    """Run `updates` full-batch steps on one batch. Returns (first loss, last gradient norm)."""
    x, flat = sequence_features(batch.a, batch.b, batch.tokens), batch.tokens.reshape(-1)
    first, norm = 0.0, 0.0
    for number in range(updates):
        every, hidden = forward(params, x)
        logprobs = every[np.arange(flat.size), flat].reshape(batch.tokens.shape)
        value, weights = loss_and_weights(batch, logprobs, loss)
        first = value if number == 0 else first
        norm = adam.step(params, gradient(params, x, hidden, every, flat, weights.reshape(-1)))
    return first, norm


def generation_kl_error(generation: Floats, prev: Floats, mask: NDArray[np.int64]) -> float:
    """Return the mean k3 estimate of the gap between the generators' and the trainer's log-probabilities."""
    gap = prev - generation
    return float(((np.exp(gap) - gap - 1.0) * mask).sum() / max(1, int(mask.sum())))


def policy_logprobs(params: Params, batch_a: Ints, batch_b: Ints, tokens: Ints) -> Floats:
    """Return the log-probabilities under `params`, [n, tokens]."""
    return token_logprobs(params, batch_a, batch_b, tokens)
