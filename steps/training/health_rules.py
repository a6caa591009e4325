"""The checks of a run's health; advice and source of each are in assets/health_rules.toml."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from statistics import median

from grpo_wizard.steps.training.rows import RunInfo, StepMetrics, json_safe
from grpo_wizard.steps.training.samples import GroupStats

_STALL_BEFORE_STEPS_S = 15 * 60.0  # loading a 27B model prints nothing for minutes
# A 27B checkpoint took 68 s in a published log; a save that hung for 35 h: https://github.com/NVIDIA-NeMo/RL/pull/3504
_STALL_WHILE_SAVING_S = 10 * 60.0


@dataclass(frozen=True)
class HealthContext:
    """Everything a rule may use. Times are epoch seconds; `status` is Ray's or LOST, None for a saved log."""

    rows: Sequence[StepMetrics]
    run_info: RunInfo
    status: str | None = None
    now: float | None = None
    last_output_at: float | None = None
    groups: Sequence[GroupStats] = field(default_factory=list)
    stall_floor_s: float = 60.0

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self.status in {"SUCCEEDED", "FAILED", "STOPPED", "LOST"} or bool(self.run_info.end_reason)


@dataclass(frozen=True)
class RuleMatch:
    """A rule that applies. `level` overrides the rule's own."""

    title: str
    evidence: str
    since_step: int | None = None
    level: str | None = None


@dataclass(frozen=True)
class HealthRule:
    """One rule; `check` returns a RuleMatch when it applies."""

    id: str
    level: str
    advice: str
    source: str
    check: Callable[[HealthContext], RuleMatch | None]


def _trailing_rows(
    rows: Sequence[StepMetrics], predicate: Callable[[StepMetrics], bool]
) -> list[StepMetrics]:
    """Return the last consecutive rows that satisfy `predicate`."""
    found: list[StepMetrics] = []
    for row in reversed(rows):
        if not predicate(row):
            break
        found.append(row)
    return found[::-1]


def _format_steps(n: int) -> str:
    return f"{n} step" if n == 1 else f"{n} steps"


def _not_finite(ctx: HealthContext) -> RuleMatch | None:
    for row in ctx.rows:
        bad = [
            (name, value)
            for name, value in (
                ("Loss", row.loss),
                ("Generation KL Error", row.generation_kl_error),
                ("Avg Reward", row.avg_reward),
                ("Mean Generation Length", row.mean_generation_length),
            )
            if value is not None and not math.isfinite(value)
        ]
        if bad:
            return RuleMatch(
                f"{bad[0][0]} has been {json_safe(bad[0][1])} since step {row.step}",
                f"step {row.step}: nan or inf in {', '.join(name for name, _ in bad)}",
                row.step,
            )
    return None


def _zero_reward(ctx: HealthContext) -> RuleMatch | None:
    zeros = _trailing_rows(ctx.rows, lambda row: row.avg_reward == 0.0)
    if not zeros:
        return None
    # One step of few samples may be bad luck; hundreds of samples, or two steps, are not.
    certain = len(zeros) >= 2 or (zeros[0].batch_size or 0) >= 64
    if not certain:
        return RuleMatch(
            "Reward was 0.0 in the first step",
            f"step {zeros[0].step}: Avg Reward 0.0000",
            zeros[0].step,
            "warning",
        )
    title = f"Reward has been 0.0 for {_format_steps(len(zeros))}: the reward or dataset setting is probably wrong"
    samples = sum(row.batch_size or 0 for row in zeros)
    return RuleMatch(
        title,
        f"Avg Reward 0.0000 in steps {zeros[0].step} to {zeros[-1].step}"
        + (f", {samples} samples" if samples else ""),
        zeros[0].step,
    )


def _full_reward(ctx: HealthContext) -> RuleMatch | None:
    ones = _trailing_rows(ctx.rows, lambda row: row.avg_reward == 1.0)
    if len(ones) < 2:
        return None
    return RuleMatch(
        f"Reward has been 1.0 for {_format_steps(len(ones))}: nothing is left to learn from this data",
        f"Avg Reward 1.0000 since step {ones[0].step}",
        ones[0].step,
    )


def _zero_variance(ctx: HealthContext) -> RuleMatch | None:
    if not ctx.groups:
        return None
    last = ctx.groups[-1]
    share = last.zero_variance_share
    if share <= 0.5:
        return None
    return RuleMatch(
        f"{share:.0%} of the groups give no learning signal because all their rewards are equal",
        f"step {last.step}: {round(share * last.groups)} of {last.groups} groups",
        last.step,
        "critical" if share > 0.9 else "warning",
    )


def _kl_error(ctx: HealthContext) -> RuleMatch | None:
    values = [
        (row.step, row.generation_kl_error)
        for row in ctx.rows
        if row.generation_kl_error is not None and math.isfinite(row.generation_kl_error)
    ]
    recent = [value for _, value in values[-3:]]
    if not recent or values[-1][0] != ctx.rows[-1].step:  # nan has its own rule
        return None
    if median(recent) <= 1e-3 and recent[-1] <= 1e-2:
        return None
    since = next(step for step, value in values if value > 1e-3)
    return RuleMatch(
        f"Generation KL Error is {recent[-1]:.4f}, but should be at most 0.001",
        f"latest steps: {', '.join(f'{value:.4f}' for value in recent)}",
        since,
    )


def _prob_error(ctx: HealthContext) -> RuleMatch | None:
    values = [(g.step, g.token_mult_prob_error) for g in ctx.groups if g.token_mult_prob_error is not None]
    if not values or values[-1][1] <= 1.05:
        return None
    step, value = values[-1]
    return RuleMatch(
        f"Training and generation disagree on probabilities (token_mult_prob_error {value:.3f})",
        f"step {step}: {value:.3f}; about 1.0 is expected; values above 1.05 need attention",
        step,
    )


def _lengths(ctx: HealthContext) -> list[tuple[StepMetrics, float]]:
    return [
        (row, row.mean_generation_length)
        for row in ctx.rows
        if row.mean_generation_length is not None and math.isfinite(row.mean_generation_length)
    ]


def _length_explosion(ctx: HealthContext) -> RuleMatch | None:
    known = _lengths(ctx)
    if len(known) < 4:
        return None
    (row, last), before = known[-1], known[-11:-1]
    usual = median(length for _, length in before)
    rewards = [r.avg_reward for r, _ in before if r.avg_reward is not None]
    gained = row.avg_reward is not None and bool(rewards) and row.avg_reward > median(rewards) + 0.02
    grown = last >= 2 * usual or (last >= 1.5 * usual and before[-1][1] >= 1.5 * usual)
    if not grown or gained:
        return None
    return RuleMatch(
        f"Answers have grown to {last:.0f} tokens without an increase in reward",
        f"step {row.step}: {last:.1f} tokens; median of previous steps: {usual:.1f}",
        row.step,
    )


def _length_limit(ctx: HealthContext) -> RuleMatch | None:
    limit, known = ctx.run_info.number("policy.generation.max_new_tokens"), _lengths(ctx)
    if not limit or not known or known[-1][1] < 0.95 * limit:
        return None
    row, last = known[-1]
    return RuleMatch(
        f"Answers are reaching the limit of {limit:.0f} tokens", f"step {row.step}: mean {last:.1f}", row.step
    )


def _length_collapse(ctx: HealthContext) -> RuleMatch | None:
    known = _lengths(ctx)
    if len(known) < 4:
        return None
    usual = median(length for _, length in known[:-1])
    row, last = known[-1]
    if last >= 0.25 * usual:
        return None
    return RuleMatch(
        f"Answers have shrunk to {last:.0f} tokens",
        f"step {row.step}: {last:.1f} tokens; median of previous steps: {usual:.1f}",
        row.step,
    )


def _truncation(ctx: HealthContext) -> RuleMatch | None:
    values = [(g.step, g.truncated_share) for g in ctx.groups if g.truncated_share is not None]
    if not values or values[-1][1] <= 0.1:
        return None
    return RuleMatch(
        f"{values[-1][1]:.0%} of the samples are truncated at the length limit",
        f"step {values[-1][0]}",
        values[-1][0],
    )


def _validation_gap(ctx: HealthContext) -> RuleMatch | None:
    known = [
        (row, row.validation["accuracy"])
        for row in ctx.rows
        if row.validation and "accuracy" in row.validation
    ]
    if len(known) < 4:
        return None
    (first, start), later = known[-4], known[-3:]
    up = first.avg_reward is not None and later[-1][0].avg_reward is not None
    if not up or (later[-1][0].avg_reward or 0) <= (first.avg_reward or 0) + 0.02:
        return None
    if max(accuracy for _, accuracy in later) > start:
        return None
    return RuleMatch(
        "Training reward is rising, but validation accuracy is not",
        f"accuracy {start:.4f} at step {first.step}, then " + ", ".join(f"{a:.4f}" for _, a in later),
        later[0][0].step,
    )


def _idle_generation(ctx: HealthContext) -> RuleMatch | None:
    percents = ctx.rows[-1].timing_percent if ctx.rows else {}
    train, generate = percents.get("policy_training", 0.0), percents.get("generation", 100.0)
    colocated = ctx.run_info.setting("policy.generation.colocated.enabled")
    if colocated in (True, "true", "True") or train <= 70 or generate >= 5:
        return None
    return RuleMatch(
        "The generation nodes are nearly idle",
        f"step {ctx.rows[-1].step}: policy_training {train:g}%, generation {generate:g}% of the time",
        ctx.rows[-1].step,
    )


def _stall(ctx: HealthContext) -> RuleMatch | None:
    if ctx.ended or ctx.now is None or ctx.last_output_at is None or ctx.status == "PENDING":
        return None
    silent, usual = ctx.now - ctx.last_output_at, median_step_seconds(ctx.rows)
    if silent <= stall_timeout(ctx, usual):
        return None
    since = datetime.fromtimestamp(ctx.last_output_at).strftime("%H:%M")
    usual_step = f" (a step usually takes {usual:.0f} s)" if usual else ""
    return RuleMatch(
        f"No output since {since}{usual_step}",
        f"no log line for {silent:.0f} s" + (f", phase: {ctx.run_info.phase}" if ctx.run_info.phase else ""),
        ctx.run_info.step,
    )


def median_step_seconds(rows: Sequence[StepMetrics]) -> float | None:
    """Return the median duration of the last ten steps."""
    times = [row.total_step_seconds for row in rows[-10:] if row.total_step_seconds is not None]
    return median(times) if times else None


def stall_timeout(ctx: HealthContext, step_seconds: float | None) -> float:
    """Return how many seconds without output are normal in the run's present phase."""
    if step_seconds is None:
        return _STALL_BEFORE_STEPS_S
    allowed = max(3 * step_seconds, ctx.stall_floor_s)
    if ctx.run_info.phase == "Saving checkpoint":
        return max(allowed, _STALL_WHILE_SAVING_S)
    if ctx.run_info.phase == "Validation":
        took = [
            r.validation["total_validation_seconds"]
            for r in ctx.rows
            if r.validation and "total_validation_seconds" in r.validation
        ]
        return max(allowed, 3 * max(took) if took else _STALL_BEFORE_STEPS_S)
    return allowed


def _resumed_at_end(ctx: HealthContext) -> RuleMatch | None:
    if not ctx.run_info.setup_complete or ctx.run_info.step is not None:
        return None
    if ctx.status != "SUCCEEDED" and not (ctx.status is None and ctx.run_info.finished):
        return None
    return RuleMatch(
        "The run ended immediately because its checkpoint was already at the last step",
        "setup completed, but no training step followed",
    )


def _job_failed(ctx: HealthContext) -> RuleMatch | None:
    if ctx.status != "FAILED":
        return None
    return RuleMatch(
        "The job failed", ctx.run_info.last_error or "no exception in the log", ctx.run_info.step
    )


def _job_lost(ctx: HealthContext) -> RuleMatch | None:
    if ctx.status != "LOST":
        return None
    return RuleMatch(
        "The job is lost: the Ray head was restarted and has no record of it",
        "Ray reports that the job does not exist",
        ctx.run_info.step,
    )


_CHECKS: dict[str, Callable[[HealthContext], RuleMatch | None]] = {
    "job_lost": _job_lost,
    "nan": _not_finite,
    "zero_reward": _zero_reward,
    "zero_variance": _zero_variance,
    "full_reward": _full_reward,
    "stall": _stall,
    "kl_error": _kl_error,
    "prob_error": _prob_error,
    "length_explosion": _length_explosion,
    "length_limit": _length_limit,
    "length_collapse": _length_collapse,
    "truncation": _truncation,
    "validation_gap": _validation_gap,
    "resumed_at_end": _resumed_at_end,
    "idle_generation": _idle_generation,
    "job_failed": _job_failed,
}


@cache
def load_rules() -> tuple[HealthRule, ...]:
    """Return all rules, causes before their consequences."""
    text = resources.files("grpo_wizard.assets").joinpath("health_rules.toml").read_text(encoding="utf-8")
    return tuple(HealthRule(check=_CHECKS[entry["id"]], **entry) for entry in tomllib.loads(text)["rule"])
