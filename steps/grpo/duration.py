"""How long a training job takes. Two runs are published for one model; everything else is scaled from them and says so."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from grpo_wizard.steps.core.model import Answers, Resource, Sight, Usual
from grpo_wizard.steps.grpo.constraints.model import Run

# Google's published log of gemma-3-27b-it: 4th to 10th step, 1,024 answers on 16 training GPUs (24 in all), 2026-02-27.
_SLOW, _FAST, _SETUP = 1076.0, 925.0, 300.0
_MODEL, _SIZE_B, _ANSWERS_A_GPU = "google/gemma-3-27b-it", 27.4, 64
_SPREAD = 0.5  # of a scaled figure, either way: lengths of answers and kernels differ that much
_UNKNOWN_SIZE = Usual(
    _SETUP, 24 * 3600.0, "no figure is published, and the model's size is not in the catalogue"
)
_RESUMES = re.compile(r"goes on from step_(\d+)")  # what is said of a job that ended before its last step


@dataclass(frozen=True)
class Training(Usual):
    """A job's time with its parts, so that a run that goes on is not counted from its beginning. Seconds."""

    steps: int = 0
    step_low: float = 0.0
    step_high: float = 0.0
    limit: float = float("inf")

    @classmethod
    def of(cls, steps: int, step_low: float, step_high: float, limit: float, source: str) -> Training:
        low, high = (min(_SETUP + steps * each, limit) for each in (step_low, step_high))
        return cls(round(low), round(high), source, steps, step_low, step_high, limit)

    def after(self, done: int) -> Training:
        """Of the steps that are left once `done` of them are in a checkpoint; set-up is there again."""
        left = max(0, self.steps - done)
        source = f"{left} of {self.steps} steps are left; {self.source}"
        return self.of(left, self.step_low, self.step_high, self.limit, source)


def as_left(resource: Resource, sight: Sight) -> Resource:
    """The resource with the time of what is left of it: a job goes on from its last complete checkpoint."""
    found = _RESUMES.search(sight.detail)
    if found is None or not isinstance(resource.usual, Training):
        return resource
    return replace(resource, usual=resource.usual.after(int(found[1])))


def training_time(answers: Answers) -> Usual:
    """Seconds from submission to the end, bounded by grpo.max_hours where that is set."""
    run = Run.of(answers)
    size, steps = run.model.params_b, run.settings.number("grpo.max_num_steps")
    if size is None or run.train_gpus < 1:
        return _UNKNOWN_SIZE
    load = (run.batch / run.train_gpus / _ANSWERS_A_GPU) * (size / _SIZE_B)
    published = "925 to 1,076 s a step and 300 s of set-up (published log of 2026-02-27)"
    if run.model_name == _MODEL and load == 1:
        low, high, source = _FAST, _SLOW, published
    else:
        low, high = _FAST * load * (1 - _SPREAD), _SLOW * load * (1 + _SPREAD)
        source = f"scaled by model size and answers a GPU from {published}: half of it to half as much again"
    limit = float(answers["grpo"]["max_hours"]) * 3600 or float("inf")
    if _SETUP + steps * high > limit:
        source += f"; stopped after {answers['grpo']['max_hours']:g} hours (grpo.max_hours)"
    return Training.of(steps, low, high, limit, source)
