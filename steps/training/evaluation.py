"""The result that an evaluation (NeMo RL's examples/run_eval.py) prints at its end."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

_SCORE = re.compile(r"score=(?P<score>[\d.]+|nan) \((?P<points>[\d.]+|nan)/(?P<samples>\d+)\)$")
_PAIR = re.compile(r"([a-z_@]+)=('[^']*'|\S+)")
_PREFIXES = ("model_name=", "max_new_tokens=", "metric=", "score=")


@dataclass
class Evaluation:
    """One result. `score` is points ÷ samples, 0 to 1; the rest as printed, None where the log does not say."""

    score: float | None = None
    points: float | None = None
    samples: int | None = None
    metric: str | None = None
    num_tests_per_prompt: int | None = None
    model_name: str | None = None
    dataset_name: str | None = None
    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None

    def parse_line(self, text: str) -> bool:
        """Parse a clean line; True if it belongs to a result."""
        if not text.startswith(_PREFIXES):
            return False
        if found := _SCORE.match(text):
            self.score, self.points = float(found["score"]), float(found["points"])
            self.samples = int(found["samples"])
            return True
        for key, value in _PAIR.findall(text):
            self._set(key, value.strip("'"))
        return True

    def _set(self, key: str, value: str) -> None:
        kinds: dict[str, type] = {
            "metric": str,
            "model_name": str,
            "dataset_name": str,
            "num_tests_per_prompt": int,
            "max_new_tokens": int,
            "temperature": float,
            "top_p": float,
            "top_k": int,
            "seed": int,
        }
        if key in kinds:
            try:
                setattr(self, key, kinds[key](value))
            except ValueError:  # a word where a number was expected: skipped, only the score matters
                return

    def to_json(self) -> dict[str, Any]:
        """Return the value of `{"eval": …}`."""
        return asdict(self)
