"""How long a training job takes. Two runs are published for one model; everything else is scaled from them and says so."""

from __future__ import annotations

from .rule import Run
from .step import Answers, Usual

# Google's published log of gemma-3-27b-it: 4th to 10th step, 1,024 answers on 16 training GPUs (24 in all), 2026-02-27.
_SLOW, _FAST, _SETUP = 1076.0, 925.0, 300.0
_MODEL, _SIZE_B, _ANSWERS_A_GPU = "google/gemma-3-27b-it", 27.4, 64
_SPREAD = 0.5  # of a scaled figure, either way: lengths of answers and kernels differ that much
_UNKNOWN_SIZE = Usual(
    _SETUP, 24 * 3600.0, "no figure is published, and the model's size is not in the catalogue"
)


def training_time(answers: Answers) -> Usual:
    """Seconds from submission to the end, bounded by grpo.max_hours where that is set."""
    run = Run.of(answers)
    size, steps = run.model.params_b, run.settings.number("grpo.max_num_steps")
    if size is None or run.train_gpus < 1:
        return _UNKNOWN_SIZE
    load = (run.batch / run.train_gpus / _ANSWERS_A_GPU) * (size / _SIZE_B)
    published = "925 to 1,076 s a step and 300 s of set-up (published log of 2026-02-27)"
    if run.model_name == _MODEL and load == 1:
        low, high, source = _SETUP + steps * _FAST, _SETUP + steps * _SLOW, published
    else:
        low = _SETUP + steps * _FAST * load * (1 - _SPREAD)
        high = _SETUP + steps * _SLOW * load * (1 + _SPREAD)
        source = f"scaled by model size and answers a GPU from {published}: half of it to half as much again"
    limit = float(answers["grpo"]["max_hours"]) * 3600 or float("inf")
    if high > limit:
        source += f"; stopped after {answers['grpo']['max_hours']:g} hours (grpo.max_hours)"
    return Usual(round(min(low, limit)), round(min(high, limit)), source)
