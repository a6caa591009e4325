"""Statistics of a step from `train_data_stepN.jsonl`, to which NeMo RL writes one JSON line per sample on the head's disk.

The `num_generations_per_prompt` lines of one prompt are consecutive:
https://github.com/NVIDIA-NeMo/RL/blob/v0.5.0/nemo_rl/algorithms/grpo.py#L1540
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from grpo_wizard.steps.training.rows import json_safe


@dataclass(frozen=True)
class GroupStats:
    """A step's samples by prompt. Shares are 0 to 1."""

    step: int | None
    samples: int
    groups: int
    zero_variance_share: float  # groups whose rewards are all equal: they give no learning signal
    mean_reward: float
    pass_rate: tuple[float, ...]  # mean reward of each group
    truncated_share: float | None  # samples at the length limit; None without a limit
    token_mult_prob_error: float | None  # mean of exp|difference of log probabilities|; 1.0: no difference

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as plain data."""
        return {key: json_safe(value) for key, value in vars(self).items()}


def parse_rows(text: str) -> list[dict[str, object]]:
    """Parse JSONL; skip a last line that is truncated."""
    rows: list[dict[str, Any]] = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def group_stats(
    rows: Iterable[Mapping[str, Any]],
    generations: int,
    step: int | None = None,
    max_length: int | None = None,
) -> GroupStats | None:
    """Summarize a step; None without a reward in it. `generations` is the number of samples per prompt."""
    kept = [row for row in rows if _reward(row) is not None]
    rewards = [r for row in kept if (r := _reward(row)) is not None]
    if not rewards or generations < 1:
        return None
    starts = [*range(0, len(rewards), generations), len(rewards)]
    parts = [rewards[a:b] for a, b in pairwise(starts)]
    flat = sum(1 for part in parts if max(part) - min(part) < 1e-9)
    lengths = [
        int(row["input_lengths"]) for row in kept if isinstance(row.get("input_lengths"), (int, float))
    ]
    truncated = sum(n >= max_length for n in lengths) / len(lengths) if max_length and lengths else None
    return GroupStats(
        step,
        len(rewards),
        len(parts),
        flat / len(parts),
        sum(rewards) / len(rewards),
        tuple(sum(part) / len(part) for part in parts),
        truncated,
        _prob_error(kept),
    )


def _reward(row: Mapping[str, object]) -> float | None:
    value = row.get("rewards")
    if isinstance(value, list):
        value = value[0] if value else None
    return float(value) if isinstance(value, (int, float)) else None


def _prob_error(rows: list[Mapping[str, object]]) -> float | None:
    """NeMo RL's measure of how much training and generation disagree on the probabilities of generated tokens."""
    total = count = 0.0
    for row in rows:
        made, trained = row.get("generation_logprobs"), row.get("prev_logprobs")
        if not isinstance(made, list) or not isinstance(trained, list):
            continue
        for a, b in zip(made, trained, strict=False):
            # 0: prompt or padding
            if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a != 0:
                total += math.exp(min(abs(a - b), 50.0))
                count += 1
    return total / count if count else None
