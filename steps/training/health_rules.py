"""When a run is not well: the checks; what each says and where it comes from stands in
assets/health_rules.toml."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from statistics import median

from grpo_wizard.steps.training.rows import Facts, Row, finite
from grpo_wizard.steps.training.samples import Groups

_SILENT_BEFORE_STEPS_S = 15 * 60.0  # loading a 27B model says nothing for minutes
_SILENT_WHILE_SAVING_S = 10 * 60.0  # a 27B checkpoint took 68 s (published log); 35 h hang: R/pull/3504


@dataclass(frozen=True)
class Context:
    """All that a rule may look at. Times are epoch seconds; `status` is Ray's word or LOST, None for a
    saved log."""

    rows: Sequence[Row]
    facts: Facts
    status: str | None = None
    now: float | None = None
    last_output_at: float | None = None
    groups: Sequence[Groups] = field(default_factory=list)
    stall_floor_s: float = 60.0

    @property
    def ended(self) -> bool:
        """Whether nothing more is to come."""
        return self.status in {"SUCCEEDED", "FAILED", "STOPPED", "LOST"} or bool(self.facts.ending)


@dataclass(frozen=True)
class Hit:
    """A rule that holds. `level` overrides the rule's own."""

    title: str
    evidence: str
    since_step: int | None = None
    level: str | None = None


@dataclass(frozen=True)
class Rule:
    """One rule; `check` gives a Hit or None."""

    id: str
    level: str
    advice: str
    source: str
    check: Callable[[Context], Hit | None]


def _trailing(rows: Sequence[Row], holds: Callable[[Row], bool]) -> list[Row]:
    """The last rows for which `holds`, without a gap."""
    found: list[Row] = []
    for row in reversed(rows):
        if not holds(row):
            break
        found.append(row)
    return found[::-1]


def _steps(n: int) -> str:
    return f"{n} step" if n == 1 else f"{n} steps"


def _not_finite(ctx: Context) -> Hit | None:
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
            return Hit(
                f"{bad[0][0]} is {finite(bad[0][1])} since step {row.step}",
                f"step {row.step}: {', '.join(name for name, _ in bad)} nan or inf",
                row.step,
            )
    return None


def _zero_reward(ctx: Context) -> Hit | None:
    zeros = _trailing(ctx.rows, lambda row: row.avg_reward == 0.0)
    if not zeros:
        return None
    # One step of few samples may be bad luck; hundreds of samples, or two steps, are not.
    certain = len(zeros) >= 2 or (zeros[0].batch_size or 0) >= 64
    if not certain:
        return Hit(
            "Reward was 0.0 in the first step",
            f"step {zeros[0].step}: Avg Reward 0.0000",
            zeros[0].step,
            "warning",
        )
    title = f"Reward has been 0.0 for {_steps(len(zeros))}: the reward or dataset setting is probably wrong"
    samples = sum(row.batch_size or 0 for row in zeros)
    return Hit(
        title,
        f"Avg Reward 0.0000 in steps {zeros[0].step} to {zeros[-1].step}"
        + (f", {samples} samples" if samples else ""),
        zeros[0].step,
    )


def _full_reward(ctx: Context) -> Hit | None:
    ones = _trailing(ctx.rows, lambda row: row.avg_reward == 1.0)
    if len(ones) < 2:
        return None
    return Hit(
        f"Reward has been 1.0 for {_steps(len(ones))}: nothing is left to learn from this data",
        f"Avg Reward 1.0000 since step {ones[0].step}",
        ones[0].step,
    )


def _zero_variance(ctx: Context) -> Hit | None:
    if not ctx.groups:
        return None
    last = ctx.groups[-1]
    share = last.zero_variance_share
    if share <= 0.5:
        return None
    return Hit(
        f"{share:.0%} of the groups teach nothing: all their rewards are alike",
        f"step {last.step}: {round(share * last.groups)} of {last.groups} groups",
        last.step,
        "critical" if share > 0.9 else "warning",
    )


def _kl_error(ctx: Context) -> Hit | None:
    values = [
        (row.step, row.generation_kl_error)
        for row in ctx.rows
        if row.generation_kl_error is not None and math.isfinite(row.generation_kl_error)
    ]
    recent = [value for _, value in values[-3:]]
    if not recent or values[-1][0] != ctx.rows[-1].step:  # nan since: said by its own rule
        return None
    if median(recent) <= 1e-3 and recent[-1] <= 1e-2:
        return None
    since = next(step for step, value in values if value > 1e-3)
    return Hit(
        f"Generation KL Error is {recent[-1]:.4f}; up to 0.001 is usual",
        f"last steps: {', '.join(f'{value:.4f}' for value in recent)}",
        since,
    )


def _prob_error(ctx: Context) -> Hit | None:
    values = [(g.step, g.token_mult_prob_error) for g in ctx.groups if g.token_mult_prob_error is not None]
    if not values or values[-1][1] <= 1.05:
        return None
    step, value = values[-1]
    return Hit(
        f"Training and generation disagree on probabilities (token_mult_prob_error {value:.3f})",
        f"step {step}: {value:.3f}; about 1.0 is right, above 1.05 look into it",
        step,
    )


def _lengths(ctx: Context) -> list[tuple[Row, float]]:
    return [
        (row, row.mean_generation_length)
        for row in ctx.rows
        if row.mean_generation_length is not None and math.isfinite(row.mean_generation_length)
    ]


def _length_explosion(ctx: Context) -> Hit | None:
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
    return Hit(
        f"Answers have grown to {last:.0f} tokens without a better reward",
        f"step {row.step}: {last:.1f} tokens; the steps before: {usual:.1f}",
        row.step,
    )


def _length_limit(ctx: Context) -> Hit | None:
    limit, known = ctx.facts.number("policy.generation.max_new_tokens"), _lengths(ctx)
    if not limit or not known or known[-1][1] < 0.95 * limit:
        return None
    row, last = known[-1]
    return Hit(
        f"Answers reach the limit of {limit:.0f} tokens", f"step {row.step}: mean {last:.1f}", row.step
    )


def _length_collapse(ctx: Context) -> Hit | None:
    known = _lengths(ctx)
    if len(known) < 4:
        return None
    usual = median(length for _, length in known[:-1])
    row, last = known[-1]
    if last >= 0.25 * usual:
        return None
    return Hit(
        f"Answers have shrunk to {last:.0f} tokens",
        f"step {row.step}: {last:.1f}; before: {usual:.1f}",
        row.step,
    )


def _truncation(ctx: Context) -> Hit | None:
    values = [(g.step, g.truncated_share) for g in ctx.groups if g.truncated_share is not None]
    if not values or values[-1][1] <= 0.1:
        return None
    return Hit(
        f"{values[-1][1]:.0%} of the samples are cut at the length limit",
        f"step {values[-1][0]}",
        values[-1][0],
    )


def _overfit(ctx: Context) -> Hit | None:
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
    return Hit(
        "Training reward rises, validation does not",
        f"accuracy {start:.4f} at step {first.step}, then " + ", ".join(f"{a:.4f}" for _, a in later),
        later[0][0].step,
    )


def _phase_share(ctx: Context) -> Hit | None:
    percents = ctx.rows[-1].timing_percent if ctx.rows else {}
    train, generate = percents.get("policy_training", 0.0), percents.get("generation", 100.0)
    colocated = ctx.facts.setting("policy.generation.colocated.enabled")
    if colocated in (True, "true", "True") or train <= 70 or generate >= 5:
        return None
    return Hit(
        "The inference nodes are nearly idle",
        f"step {ctx.rows[-1].step}: policy_training {train:g}%, generation {generate:g}% of the time",
        ctx.rows[-1].step,
    )


def _stall(ctx: Context) -> Hit | None:
    if ctx.ended or ctx.now is None or ctx.last_output_at is None or ctx.status == "PENDING":
        return None
    silent, usual = ctx.now - ctx.last_output_at, usual_step_seconds(ctx.rows)
    if silent <= silence_allowed(ctx, usual):
        return None
    since = datetime.fromtimestamp(ctx.last_output_at).strftime("%H:%M")
    told = f" (usual step {usual:.0f} s)" if usual else ""
    return Hit(
        f"No output since {since}{told}",
        f"{silent:.0f} s without a line" + (f", in: {ctx.facts.phase}" if ctx.facts.phase else ""),
        ctx.facts.step,
    )


def usual_step_seconds(rows: Sequence[Row]) -> float | None:
    """The median time of the last ten steps."""
    times = [row.total_step_seconds for row in rows[-10:] if row.total_step_seconds is not None]
    return median(times) if times else None


def silence_allowed(ctx: Context, usual: float | None) -> float:
    """Seconds without a line that mean nothing yet, in the phase that the run is in."""
    if usual is None:
        return _SILENT_BEFORE_STEPS_S
    allowed = max(3 * usual, ctx.stall_floor_s)
    if ctx.facts.phase == "Saving checkpoint":
        return max(allowed, _SILENT_WHILE_SAVING_S)
    if ctx.facts.phase == "Validation":
        took = [
            r.validation["total_validation_seconds"]
            for r in ctx.rows
            if r.validation and "total_validation_seconds" in r.validation
        ]
        return max(allowed, 3 * max(took) if took else _SILENT_BEFORE_STEPS_S)
    return allowed


def _resumed_at_end(ctx: Context) -> Hit | None:
    if not ctx.facts.setup_complete or ctx.facts.step is not None:
        return None
    if ctx.status != "SUCCEEDED" and not (ctx.status is None and ctx.facts.finished):
        return None
    return Hit(
        "The run ended at once: its checkpoint was already at the last step",
        "set-up complete, then no step at all",
    )


def _failed(ctx: Context) -> Hit | None:
    if ctx.status != "FAILED":
        return None
    return Hit("The job failed", ctx.facts.last_error or "no exception is named in the log", ctx.facts.step)


def _lost(ctx: Context) -> Hit | None:
    if ctx.status != "LOST":
        return None
    return Hit(
        "The job is lost: the Ray head was restarted and does not know it",
        "Ray answers that it does not exist",
        ctx.facts.step,
    )


_CHECKS: dict[str, Callable[[Context], Hit | None]] = {
    "job_lost": _lost,
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
    "validation_gap": _overfit,
    "resumed_at_end": _resumed_at_end,
    "idle_generation": _phase_share,
    "job_failed": _failed,
}


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, causes before their consequences."""
    text = resources.files("grpo_wizard.assets").joinpath("health_rules.toml").read_text(encoding="utf-8")
    return tuple(Rule(check=_CHECKS[entry["id"]], **entry) for entry in tomllib.loads(text)["rule"])
