"""What `train_data_stepN.jsonl` tells of a step: NeMo RL writes one JSON line a sample, always, on the
head's disk.

Lines of one prompt stand together, `num_generations_per_prompt` of them (grpo.py:1540, logger.py:931 of
v0.5.0).
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
    zero_variance_share: float  # groups whose rewards are all alike: they teach nothing
    mean_reward: float
    pass_rate: tuple[float, ...]  # mean reward of each group
    truncated_share: float | None  # samples at the length limit, if that is given
    token_mult_prob_error: float | None  # mean of exp|difference of log probabilities|, 1.0 is none

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {key: json_safe(value) for key, value in vars(self).items()}


def parse_rows(text: str) -> list[dict[str, object]]:
    """The rows of a JSONL text; a last line that is cut short is left out."""
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
    """Sums a step up; None without a reward in it. `generations` is the number of samples a prompt."""
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
    """NeMo RL's measure of how far training's and generation's probabilities are apart, over generated
    tokens."""
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
