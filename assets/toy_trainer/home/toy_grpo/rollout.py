"""Rollouts: send prompts to the generators, collect responses with rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from toy_grpo.cluster import Crew
from toy_grpo.task import ENV_TOKENS, Floats, Ints, Problem, rewards, text_of


@dataclass(frozen=True)
class Rollout:
    """Samples in the order of their prompts, groups adjacent. Arrays are [n] or [n, tokens]."""

    problems: list[Problem]
    a: Ints
    b: Ints
    tokens: Ints
    mask: Ints
    logprobs: Floats
    reward: Floats

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Return the generated tokens of each sample."""
        return np.asarray(self.mask.sum(axis=1), dtype=np.int64)

    @property
    def prompt_lengths(self) -> NDArray[np.int64]:
        return np.array([len(problem.question.split()) for problem in self.problems])


def generate(
    crew: Crew, problems: list[Problem], group: int, step: int, seconds: float, trouble: str = ""
) -> Rollout:
    """Generate `group` samples of each problem, split between the generators.

    `trouble` affects the last generator.
    """
    repeated = [problem for problem in problems for _ in range(group)]
    a, b = (np.array([getattr(problem, name) for problem in repeated], dtype=np.int64) for name in ("a", "b"))
    prompts = sum(len(problem.question.split()) for problem in repeated)
    halves = zip(
        np.array_split(a, len(crew.generators)), np.array_split(b, len(crew.generators)), strict=True
    )
    last = len(crew.generators) - 1
    asked = [
        crew.generators[rank].generate.remote(
            some_a, some_b, prompts // len(crew.generators), step, seconds, trouble if rank == last else ""
        )
        for rank, (some_a, some_b) in enumerate(halves)
        if len(some_a)
    ]
    tokens, mask, logprobs = (np.concatenate(column) for column in zip(*ray.get(asked), strict=True))
    verifiable = np.array([problem.verifiable for problem in repeated])
    return Rollout(repeated, a, b, tokens, mask, logprobs, rewards(a, b, tokens, mask, verifiable))


def samples(rollout: Rollout, prev_logprobs: Floats) -> list[dict[str, Any]]:
    """Return the lines of train_data_stepN.jsonl (NeMo RL v0.5.0, grpo.py:1540-1552)."""
    prompts, lengths = rollout.prompt_lengths, rollout.lengths
    return [
        {
            "content": f"{problem.question}\n{text_of(rollout.tokens[i].tolist())}",
            "rewards": [float(rollout.reward[i])],
            "generation_logprobs": [round(float(value), 6) for value in rollout.logprobs[i][: lengths[i]]],
            "prev_logprobs": [round(float(value), 6) for value in prev_logprobs[i][: lengths[i]]],
            "input_lengths": int(prompts[i] + lengths[i] + ENV_TOKENS),
            "idx": problem.idx,
        }
        for i, problem in enumerate(rollout.problems)
    ]
