"""The duration of a training job. Two runs of one model are published; every other estimate is scaled from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import DurationEstimate
from grpo_wizard.steps.grpo.constraints.model import RunLayout

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

# Google's published log of gemma-3-27b-it: 4th to 10th step, 1,024 samples on 16 training GPUs (24 in all), 2026-02-27.
_SLOW_STEP_SECONDS, _FAST_STEP_SECONDS, _SETUP_SECONDS = 1076.0, 925.0, 300.0
_MODEL, _SIZE_B, _SAMPLES_PER_GPU = "google/gemma-3-27b-it", 27.4, 64
_SPREAD = 0.5  # of a scaled figure, either way: response lengths and kernels differ that much
_UNKNOWN_SIZE = DurationEstimate(
    _SETUP_SECONDS,
    24 * 3600.0,
    "there is no published figure, and the catalog does not list the model's size",
)


@dataclass(frozen=True)
class TrainingEstimate(DurationEstimate):
    """The duration of a job in seconds, with its parts, so that a resumed run is not estimated from its first step."""

    steps: int = 0
    step_low: float = 0.0
    step_high: float = 0.0
    limit: float = float("inf")

    @classmethod
    def from_steps(
        cls, steps: int, step_low: float, step_high: float, limit: float, source: str
    ) -> TrainingEstimate:
        low, high = (min(_SETUP_SECONDS + steps * each, limit) for each in (step_low, step_high))
        return cls(round(low), round(high), source, steps, step_low, step_high, limit)

    def remaining_after(self, steps: int) -> TrainingEstimate:
        """Estimate the steps that are left once `steps` of them are in a checkpoint; setup is repeated."""
        left = max(0, self.steps - steps)
        source = f"{left} of {self.steps} steps left; {self.source}"
        return self.from_steps(left, self.step_low, self.step_high, self.limit, source)


def estimate_training(answers: Answers) -> DurationEstimate:
    """Estimate the seconds from submission to the end, bounded by grpo.max_hours if set."""
    run = RunLayout.from_answers(answers)
    size, steps = run.model.params_b, run.config.number("grpo.max_num_steps")
    if size is None or run.train_gpus < 1:
        return _UNKNOWN_SIZE
    load = (run.samples_per_step / run.train_gpus / _SAMPLES_PER_GPU) * (size / _SIZE_B)
    published = "925 to 1,076 s per step and 300 s of setup (Google's published log, 2026-02-27)"
    if run.model_name == _MODEL and load == 1:
        low, high, source = _FAST_STEP_SECONDS, _SLOW_STEP_SECONDS, published
    else:
        low, high = _FAST_STEP_SECONDS * load * (1 - _SPREAD), _SLOW_STEP_SECONDS * load * (1 + _SPREAD)
        source = f"scaled by model size and samples per GPU from {published}, plus or minus 50%"
    limit = float(answers.grpo.max_hours) * 3600 or float("inf")
    if _SETUP_SECONDS + steps * high > limit:
        source += f"; capped at {answers.grpo.max_hours:g} hours (grpo.max_hours)"
    return TrainingEstimate.from_steps(steps, low, high, limit, source)
