"""The data: NeMo RL's ResponseDataset from a JSON-lines file, or a built-in name; and a resumable loader."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toy_grpo.places import local
from toy_grpo.task import Problem, problem

BUILT_IN = ("OpenMathInstruct-2", "DeepScaler", "DAPOMath17K")


def rows(config: dict[str, Any], split: str) -> list[Problem]:
    """Return the problems of `train` or `val`.

    Raises ValueError for a data set that NeMo RL v0.5.0 does not have.
    """
    data = config["data"]
    if data["dataset_name"] == "ResponseDataset":
        question, answer = data.get("input_key", "input"), data.get("output_key", "output")
        found = _read(local(data[f"{split}_data_path"]))
        return [problem(idx, row[question], row[answer]) for idx, row in enumerate(found)]
    if data["dataset_name"] not in BUILT_IN:
        raise ValueError(f"Unsupported dataset_name: {data['dataset_name']}.")
    # A rehearsal downloads nothing: sums replace the named data set.
    rng = np.random.default_rng(7 if split == "train" else 8)
    pairs = rng.integers(0, 10, (4096 if split == "train" else 512, 2))
    return [problem(idx, f"What is {a} + {b}?", str(a + b)) for idx, (a, b) in enumerate(pairs)]


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


@dataclass
class Loader:
    """Batches of `size` rows, without an incomplete last one; the seed determines an epoch's order."""

    problems: list[Problem]
    size: int
    seed: int
    shuffle: bool
    epoch: int = 0
    taken: int = 0  # batches taken in this epoch

    def __len__(self) -> int:
        return len(self.problems) // self.size

    def next(self) -> list[Problem]:
        """Return the next batch; raises IndexError at the epoch's end."""
        if self.taken >= len(self):
            raise IndexError("the epoch has ended")
        order = np.arange(len(self.problems))
        if self.shuffle:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.problems))
        begin = self.taken * self.size
        self.taken += 1
        return [self.problems[index] for index in order[begin : begin + self.size]]

    def new_epoch(self) -> None:
        self.epoch, self.taken = self.epoch + 1, 0
