"""What a log is parsed into: one row per training step, and facts about the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from grpo_wizard.steps.training.grammar import TqdmBar


@dataclass
class StepMetrics:
    """One training step. A value that the log does not contain (yet) is None; nan is float nan, "nan" in JSON."""

    step: int  # over the whole run
    epoch: int | None = None
    total_steps: int | None = None  # of the whole run
    batch_size: int | None = None  # samples: prompts times generations
    loss: float | None = None
    generation_kl_error: float | None = None
    avg_reward: float | None = None
    mean_generation_length: float | None = None  # tokens per sample, without the prompt
    total_step_seconds: float | None = None
    timing: dict[str, float] = field(default_factory=dict)  # seconds; the parts overlap
    timing_percent: dict[str, float] = field(default_factory=dict)
    throughput: dict[str, float] = field(default_factory=dict)  # by the log's own labels
    validation: dict[str, float] | None = None
    checkpoint: bool = False  # a save began after this step

    @property
    def has_results(self) -> bool:
        """Whether the step's results have been printed."""
        return any(v is not None for v in (self.loss, self.avg_reward, self.generation_kl_error))

    def copy(self) -> StepMetrics:
        """Return a copy that later lines of the log do not change."""
        return replace(
            self,
            timing=dict(self.timing),
            timing_percent=dict(self.timing_percent),
            throughput=dict(self.throughput),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the row with the keys of `metrics --json`."""
        return {key: json_safe(value) for key, value in vars(self).items()}


def json_safe(value: object) -> object:
    """Return the value with non-finite numbers as strings: "nan", "inf", "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(item) for item in value]
    return value


@dataclass
class RunInfo:
    """What the log says about the run besides its steps."""

    total_steps: int | None = None
    epoch: int | None = None
    max_epochs: int | None = None
    step: int | None = None  # started last, counted over the whole run
    phase: str | None = None  # "Training policy", "Validation", "Saving checkpoint" …
    progress_bar: TqdmBar | None = None  # the phase's last progress bar
    config: dict[str, Any] | None = None  # the "Final config" that the run printed
    overrides: tuple[str, ...] = ()
    log_dir: str | None = None
    checkpoint_dir: str | None = None
    setup_seconds: dict[str, float] = field(default_factory=dict)
    setup_complete: bool = False
    end_reason: str | None = None  # max_steps | timeout | async_complete
    finished: bool = False  # the job script's own last line
    last_saved_step: int | None = None
    initial_validation: dict[str, float] | None = None
    prompts_with_nonzero_std: tuple[int, int] | None = None  # dynamic sampling: have, need
    train_data: dict[int, str] = field(default_factory=dict)  # step -> path on the head
    wandb_url: str | None = None
    last_error: str | None = None  # last line that names an exception

    def setting(self, dotted: str) -> object:
        """Look up a setting by its dotted name: in the printed config, else in the overrides (as text); None if neither."""
        node: Any = self.config
        for part in dotted.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        if node is not None:
            return node
        given = [
            o.split("=", 1)[1]
            for o in self.overrides
            if "=" in o and o.split("=", 1)[0].lstrip("+") == dotted
        ]
        return given[-1] if given else None

    def number(self, dotted: str) -> float | None:
        """Look up a setting as a number; None when it is not one."""
        value = self.setting(dotted)
        try:
            return float(value) if isinstance(value, str | int | float) else None
        except ValueError:
            return None
