"""The policy: one hidden layer in numpy with a hand-written gradient, and Adam."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from toy_grpo.task import (
    FEATURES,
    MAX_TOKENS,
    VOCABULARY,
    Floats,
    Ints,
    answer_tokens,
    features,
    sequence_features,
)

Params = dict[str, Floats]
HIDDEN = 64


def fresh(rng: np.random.Generator) -> Params:
    """Return untrained weights."""
    return {
        "hidden.weight": rng.normal(0.0, 0.5, (FEATURES, HIDDEN)),
        "hidden.bias": np.zeros(HIDDEN),
        "head.weight": rng.normal(0.0, 0.1, (HIDDEN, VOCABULARY)),
        "head.bias": np.zeros(VOCABULARY),
    }


def forward(params: Params, x: Floats) -> tuple[Floats, Floats]:
    """Return (log-probabilities [n, VOCABULARY], hidden activations [n, HIDDEN])."""
    hidden = np.tanh(x @ params["hidden.weight"] + params["hidden.bias"])
    logits = hidden @ params["head.weight"] + params["head.bias"]
    top = logits.max(axis=1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True)), hidden


def gradient(
    params: Params, x: Floats, hidden: Floats, logprobs: Floats, tokens: Ints, weight: Floats
) -> Params:
    """Return the gradient of sum(weight * logprob(token)) with respect to the parameters."""
    upstream = -np.exp(logprobs) * weight[:, None]
    upstream[np.arange(len(tokens)), tokens] += weight
    inner = (upstream @ params["head.weight"].T) * (1.0 - hidden**2)
    return {
        "hidden.weight": x.T @ inner,
        "hidden.bias": inner.sum(axis=0),
        "head.weight": hidden.T @ upstream,
        "head.bias": upstream.sum(axis=0),
    }


def token_logprobs(params: Params, a: Ints, b: Ints, tokens: Ints) -> Floats:
    """Return the log-probability of every token of the given sequences, [n, MAX_TOKENS]."""
    logprobs, _ = forward(params, sequence_features(a, b, tokens))
    return logprobs[np.arange(tokens.size), tokens.reshape(-1)].reshape(tokens.shape)


def sample(
    params: Params, a: Ints, b: Ints, rng: np.random.Generator, temperature: float = 1.0
) -> tuple[Ints, Ints, Floats]:
    """Sample autoregressively: (tokens, mask, log-probabilities), each [n, MAX_TOKENS]."""
    n, end = len(a), VOCABULARY - 1
    tokens, mask = np.full((n, MAX_TOKENS), end), np.zeros((n, MAX_TOKENS), dtype=np.int64)
    logps, previous, alive = np.zeros((n, MAX_TOKENS)), np.full(n, -1), np.ones(n, dtype=bool)
    for t in range(MAX_TOKENS):
        logprobs, _ = forward(params, features(a, b, t, previous))
        chosen = (logprobs / max(temperature, 1e-6) + rng.gumbel(size=logprobs.shape)).argmax(axis=1)
        tokens[alive, t], mask[alive, t] = chosen[alive], 1
        logps[alive, t] = logprobs[np.arange(n), chosen][alive]
        alive &= chosen != end
        previous = np.where(alive, chosen, end)
    return tokens, mask, logps


def expected_reward(params: Params) -> float:
    """Return the exact probability of a correct response, averaged over all 100 questions."""
    a, b = np.divmod(np.arange(100), 10)
    tokens, mask = answer_tokens(a, b)
    return float(np.exp((token_logprobs(params, a, b, tokens) * mask).sum(axis=1)).mean())


def bfloat16(params: Params) -> Params:
    """Round weights to bfloat16, as the generators hold them: the real cause of a small Generation KL Error."""
    return {name: _cut(value) for name, value in params.items()}


def _cut(value: Floats) -> Floats:
    raw = value.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return raw.view(np.float32).astype(np.float64)


@dataclass
class Adam:
    """Adam with gradient clipping by global norm."""

    rate: float
    max_norm: float = 1.0
    steps: int = 0
    mean: Params = field(default_factory=dict)
    square: Params = field(default_factory=dict)

    def step(self, params: Params, grad: Params) -> float:
        """Take one descent step in place. Returns the norm before clipping."""
        norm = float(np.sqrt(sum(float((g**2).sum()) for g in grad.values())))
        scale = min(1.0, self.max_norm / (norm + 1e-6))
        self.steps += 1
        for name, g in grad.items():
            self.mean[name] = 0.9 * self.mean.get(name, np.zeros_like(g)) + 0.1 * g * scale
            self.square[name] = 0.999 * self.square.get(name, np.zeros_like(g)) + 0.001 * (g * scale) ** 2
            m = self.mean[name] / (1 - 0.9**self.steps)
            v = self.square[name] / (1 - 0.999**self.steps)
            params[name] -= self.rate * m / (np.sqrt(v) + 1e-8)
        return norm


def warm_up(rng: np.random.Generator, skill: float = 0.95, start: float = 0.06) -> Params:
    """Return the "base model": it knows sums but is unsure of them, independent of the seed.

    Supervised on correct responses until its exact expected reward reaches `skill`; then its head is scaled
    down until the reward is `start`.
    """
    params, adam = fresh(rng), Adam(3e-3)
    while expected_reward(params) < skill:
        a, b = rng.integers(0, 10, 64), rng.integers(0, 10, 64)
        tokens, mask = answer_tokens(a, b)
        x = sequence_features(a, b, tokens)
        logprobs, hidden = forward(params, x)
        weight = -mask.reshape(-1) / mask.sum()
        adam.step(params, gradient(params, x, hidden, logprobs, tokens.reshape(-1), weight))
    return _flattened(params, start)


def _flattened(params: Params, start: float) -> Params:
    """Return the model with its head scaled so that its expected reward is `start` (bisection)."""
    low, high, scaled = 0.0, 1.0, params
    for _ in range(30):
        middle = (low + high) / 2
        scaled = {
            name: value * (middle if name.startswith("head") else 1.0) for name, value in params.items()
        }
        low, high = (middle, high) if expected_reward(scaled) < start else (low, middle)
    return scaled
