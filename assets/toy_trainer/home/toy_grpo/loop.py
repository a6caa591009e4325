"""The synchronous GRPO loop, with NeMo RL's order of steps and its output."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ray

from toy_grpo import grpo, report
from toy_grpo.checkpoint import Keeper, metric_of
from toy_grpo.cluster import Crew
from toy_grpo.data import Loader
from toy_grpo.faults import Fault
from toy_grpo.logger import write_samples
from toy_grpo.report import StepNumbers, Timer
from toy_grpo.rollout import Rollout, generate, samples
from toy_grpo.rules import Layout
from toy_grpo.task import ENV_TOKENS, Problem

VALIDATION = 10_000_000  # added to the step, so that validation and training draw different samples


def pace(max_num_steps: int) -> float:
    """Return the seconds that a step's generation takes, so that a run lasts about half a minute and can be watched."""
    return min(1.5, max(0.3, 16.0 / max(1, max_num_steps)))


@dataclass
class Run:
    """One job: its parts and its counters."""

    config: dict[str, Any]
    config_yaml: str
    layout: Layout
    crew: Crew
    loader: Loader
    validation: list[Problem]
    keeper: Keeper
    log_folder: str
    fault: Fault
    info: dict[str, Any] = field(
        default_factory=lambda: {
            "consumed_samples": 0,
            "current_step": 0,
            "current_epoch": 0,
            "total_steps": 0,
            "total_valid_tokens": 0,
            "val_reward": -99999999.0,
        }
    )
    stale: bool = True
    began: float = field(default_factory=time.monotonic)

    @property
    def grpo(self) -> dict[str, Any]:
        settings: dict[str, Any] = self.config["grpo"]
        return settings


def resume(run: Run) -> None:
    """Resume from the latest step_N, if any: weights, optimizer, loader and counters."""
    found = run.keeper.latest() if run.config["checkpointing"]["enabled"] else None
    if found is None:
        return
    step, info = found
    run.info.update(info)
    ray.get(run.crew.policy.load.remote(f"{run.keeper.folder}/step_{step}"))
    state = run.keeper.loader_state(step)
    run.loader.epoch, run.loader.taken = state["epoch"], state["taken"]


def train(run: Run) -> None:
    """Run until max_num_steps, the timeout or the last epoch; prints nothing if already there (NeMo RL
    v0.5.0, grpo.py:1063).
    """
    print("🚀 Running synchronous GRPO training", flush=True)
    if run.grpo["val_at_start"] and run.info["total_steps"] == 0:
        print("\n🔍 Running initial validation...", flush=True)
        _refit(run, Timer())
        _validate(run, 0)
    while (
        run.info["current_epoch"] < run.grpo["max_num_epochs"]
        and run.info["total_steps"] < run.grpo["max_num_steps"]
    ):
        print(report.rule(f"Epoch {run.info['current_epoch'] + 1}/{run.grpo['max_num_epochs']}"), flush=True)
        if _epoch(run):
            return
        run.info["current_epoch"] += 1
        run.info["current_step"] = 0
        run.loader.new_epoch()


def _epoch(run: Run) -> bool:
    """Run one epoch; True when the run has ended."""
    while run.loader.taken < len(run.loader):
        shown = min(len(run.loader), run.grpo["max_num_steps"])
        print(report.rule(f"Step {run.info['current_step'] + 1}/{shown}"), flush=True)
        timed_out = _step(run)
        if timed_out:
            print("Timeout has been reached, stopping training early", flush=True)
            return True
        if run.info["total_steps"] >= run.grpo["max_num_steps"]:
            print("Max number of steps has been reached, stopping training early", flush=True)
            return True
    return False


def _step(run: Run) -> bool:
    """Run one step; True when checkpoint_must_save_by has passed."""
    timer, step = Timer(), run.info["total_steps"] + 1
    rollout, advantages = _collect(run, timer, step)
    batch = _logprobs(run, timer, rollout, advantages)
    loss = _update(run, timer, step, batch)
    tokens = int(rollout.lengths.sum() + rollout.prompt_lengths.sum())
    _count(run, step, rollout, tokens)
    last = step >= run.grpo["max_num_steps"] or (
        run.loader.taken >= len(run.loader) and run.info["current_epoch"] + 1 >= run.grpo["max_num_epochs"]
    )
    measured = {"train": {"reward": float(rollout.reward.mean()), "loss": loss}, "val": {}}
    if run.grpo["val_period"] > 0 and step % run.grpo["val_period"] == 0:
        _refit(run, timer)
        measured["val"] = _validate(run, step)
    timed_out = time.monotonic() - run.began > _limit(run.config["checkpointing"]["checkpoint_must_save_by"])
    if run.config["checkpointing"]["enabled"] and (
        last or timed_out or step % run.config["checkpointing"]["save_period"] == 0
    ):
        with timer.time("checkpointing"):
            _save(run, step, measured)
    write_samples(run.log_folder, step, samples(rollout, batch.prev_logprobs))
    kl = grpo.generation_kl_error(rollout.logprobs, batch.prev_logprobs, rollout.mask)
    length = float(rollout.lengths.mean())
    numbers = StepNumbers(
        loss, kl, float(rollout.reward.mean()), length, length + ENV_TOKENS, tokens, len(rollout.reward)
    )
    total = timer.total()
    print(report.training(numbers))
    print(report.timing(total, timer.seconds))
    print(report.performance(numbers, total, timer.seconds, run.layout), flush=True)
    return timed_out


def _collect(run: Run, timer: Timer, step: int) -> tuple[Rollout, Any]:
    """Return (samples of the current policy, advantages)."""
    print("▶ Preparing batch...", flush=True)
    with timer.time("data_processing"):
        problems = run.loader.next()
    print(
        "▶ Generating responses for batch of size "
        f"{len(problems) * run.grpo['num_generations_per_prompt']}...",
        flush=True,
    )
    _refit(run, timer)
    if run.fault.now("oom", step):
        os.kill(os.getpid(), signal.SIGKILL)
    trouble = next((kind for kind in ("worker", "stall") if run.fault.now(kind, step)), "")
    with timer.time("generation"):
        rollout = generate(
            run.crew,
            problems,
            run.grpo["num_generations_per_prompt"],
            step,
            pace(run.grpo["max_num_steps"]),
            trouble,
        )
    print("▶ Processing rewards...,", flush=True)
    with timer.time("reward_calculation"):
        if run.fault.now("zero_reward", step):
            rollout.reward[:] = 0.0
        print("▶ Computing advantages...", flush=True)
        advantages = grpo.advantages(
            rollout.reward,
            run.grpo["num_generations_per_prompt"],
            leave_one_out=run.grpo["use_leave_one_out_baseline"],
            normalize=run.grpo["normalize_rewards"],
        )
    return rollout, advantages


def _refit(run: Run, timer: Timer) -> None:
    """Send the trainer's weights to the generators if they have changed."""
    if not run.stale:
        return
    with timer.time("prepare_for_generation/total", "prepare_for_generation/transfer_and_update_weights"):
        weights = run.crew.policy.weights.remote()
        ray.get(
            [
                generator.set_weights.remote(weights, run.info["total_steps"] + 1)
                for generator in run.crew.generators
            ]
        )
    run.stale = False


def _logprobs(run: Run, timer: Timer, rollout: Rollout, advantages: Any) -> grpo.Batch:
    print("▶ Preparing for logprob inference...", flush=True)
    with timer.time("logprob_inference_prep"):
        shared = ray.put(rollout.tokens)
    print("▶ Computing logprobs...", flush=True)
    with timer.time("policy_and_reference_logprobs"):
        prev, reference = ray.get(run.crew.policy.logprobs.remote(rollout.a, rollout.b, shared))
    return grpo.Batch(
        rollout.a, rollout.b, rollout.tokens, rollout.mask, rollout.logprobs, prev, reference, advantages
    )


def _update(run: Run, timer: Timer, step: int, batch: grpo.Batch) -> float:
    print("▶ Preparing for training...", flush=True)
    loss = run.config["loss_fn"]
    with timer.time("training_prep"):
        updates, _ = grpo.schedule(run.grpo["max_num_steps"])
        shared = ray.put(batch)
        wanted = grpo.LossConfig(
            loss["ratio_clip_min"],
            loss["ratio_clip_max"],
            loss["reference_policy_kl_penalty"],
            loss["token_level_loss"],
        )
    print("▶ Training policy...", flush=True)
    with timer.time("policy_training"):
        value, _ = ray.get(
            run.crew.policy.train.remote(shared, wanted, updates, diverge=run.fault.now("nan", step))
        )
    run.stale = True
    return float(value)


def _count(run: Run, step: int, rollout: Rollout, tokens: int) -> None:
    run.info["total_steps"] = step
    run.info["current_step"] += 1
    run.info["consumed_samples"] += run.grpo["num_prompts_per_step"]
    run.info["total_valid_tokens"] += tokens


def _validate(run: Run, step: int) -> dict[str, float]:
    """Return the accuracy over max_val_samples, in complete validation batches (rounded down, as in NeMo RL)."""
    print(f"▶ Starting validation at step {step}...", flush=True)
    began, size = time.monotonic(), run.grpo["val_batch_size"]
    count = min(run.grpo["max_val_samples"], len(run.validation)) // size
    parts = [
        generate(run.crew, run.validation[n * size : (n + 1) * size], 1, VALIDATION + step * 1000 + n, 0.2)
        for n in range(count)
    ]
    reward = np.concatenate([part.reward for part in parts])
    length = float(np.concatenate([part.lengths for part in parts]).mean())
    print(report.validation(float(reward.mean()), length, len(reward), time.monotonic() - began), flush=True)
    run.info["val_reward"] = float(reward.mean())
    return {"accuracy": float(reward.mean()), "avg_length": length}


def _save(run: Run, step: int, measured: dict[str, dict[str, float]]) -> None:
    print(f"Saving checkpoint for step {step}...", flush=True)
    info = json.loads(json.dumps(run.info))
    metric_of(run.keeper.metric, info, measured)
    run.info = {**run.info, **info}
    folder = run.keeper.begin(step, info, run.config_yaml)
    layout = "dtensor2" if run.config["policy"]["dtensor_cfg"]["_v2"] else "dtensor1"
    ray.get(run.crew.policy.save.remote(folder, layout))
    run.keeper.finish(step, {"epoch": run.loader.epoch, "taken": run.loader.taken})


def _limit(must_save_by: str | None) -> float:
    """Return the seconds of "DD:HH:MM:SS"; infinity without one."""
    if must_save_by is None:
        return float("inf")
    days, hours, minutes, seconds = (int(part) for part in must_save_by.split(":"))
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds
