"""Real GRPO on a real Ray head: it learns, prints NeMo RL's output, resumes, and fails like real runs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from ray_job_client import JobResult, RayJobsApi, pod_view, ray_jobs_api, tutorial_overrides

from grpo_wizard.steps.emulator.ray.heads import LocalRayHeadManager
from grpo_wizard.steps.training import checkpoints
from grpo_wizard.steps.training import reader as metrics

CANARY = "hf_canary0123456789abcdefghijklmnop"


def _on_a_head(root: Path, work: Callable[[RayJobsApi, Path], Awaitable[None]]) -> None:
    async def whole() -> None:
        heads = LocalRayHeadManager(root)
        view = pod_view(root, env={"HF_TOKEN_PATH": "/etc/tokens/hf_token"})
        (root / "tokens/hf_token").write_text(CANARY, encoding="utf-8")
        try:
            async with ray_jobs_api(heads, view) as ray:
                await work(ray, root / "data")
        finally:
            await heads.close()

    asyncio.run(whole())


def _learns(done: JobResult, steps: int) -> metrics.LogReader:
    assert done.info["status"] == "SUCCEEDED", done.log[-3000:].decode()
    reader = metrics.parse_log(done.log)
    rewards = [float(row.avg_reward or 0) for row in reader.rows]
    third = steps // 3
    assert [row.step for row in reader.rows] == list(range(1, steps + 1))
    assert fmean(rewards[-third:]) >= 2 * fmean(rewards[:third])
    assert done.wall >= 15  # 20 to 60 s on two free cores (tests/bench/grpo_table.py); the suite shares them
    return reader


async def _ten(ray: RayJobsApi, data: Path) -> None:
    """Ten steps; the same folder again: silent success; raised to twelve: it goes on at step 11."""
    await ray.submit("ten", tutorial_overrides(10))
    done = await ray.wait_for_end("ten")
    reader = _learns(done, 10)
    assert reader.rows[-1].checkpoint and reader.rows[-1].validation is not None
    assert all(row.batch_size == 512 and row.throughput["mean_total_tokens"] > 3 for row in reader.rows)
    assert b"(DTensorPolicyWorker[rank=0] pid=" in done.log and b"\rProcessed prompts: 100%" in done.log
    for step in range(1, 11):
        lines = (
            (data / f"run/logs/exp_001/train_data_step{step}.jsonl").read_text(encoding="utf-8").splitlines()
        )
        row, reward = json.loads(lines[0]), fmean(json.loads(line)["rewards"][0] for line in lines)
        assert (
            len(lines) == 512
            and {"content", "rewards", "generation_logprobs", "prev_logprobs", "input_lengths", "idx"}
            <= row.keys()
        )
        assert reward == pytest.approx(reader.rows[step - 1].avg_reward, abs=1e-4)
    await _nothing_leaked(ray, done.log)
    await ray.submit("again", tutorial_overrides(10))
    again = await ray.wait_for_end("again")
    assert again.info["status"] == "SUCCEEDED" and b"Running synchronous GRPO training" in again.log
    assert not metrics.parse_log(again.log).rows and b"= Step " not in again.log
    await ray.submit("on", [*tutorial_overrides(12), "checkpointing.save_period=2"])
    on = metrics.parse_log((await ray.wait_for_end("on")).log)
    assert [row.step for row in on.rows] == [11, 12]
    assert float(on.rows[0].avg_reward or 0) > 1.5 * float(reader.rows[0].avg_reward or 0)
    files = [(str(path), path.stat().st_size) for path in (data / "run/ckpt").rglob("*") if path.is_file()]
    assert [(row.step, row.complete) for row in checkpoints.list_from_files(files).rows] == [
        (10, True),
        (12, True),
    ]


async def _nothing_leaked(ray: RayJobsApi, log: bytes) -> None:
    for path in (
        "/api/v0/tasks?detail=1",
        "/api/v0/actors?detail=1",
        "/api/jobs/",
        "/api/v0/runtime_envs?detail=1",
    ):
        assert CANARY not in json.dumps(await ray.get(path)), path
    assert CANARY.encode() not in log
    async with ray.session.get(f"{ray.agent}/logs/runtime_env_agent.log") as answer:
        shipped = await answer.read()
    assert b"HF_TOKEN_PATH" in shipped and CANARY.encode() not in shipped


async def _thirty(ray: RayJobsApi) -> None:
    await ray.submit("thirty", tutorial_overrides(30, 5, "thirty"))
    _learns(await ray.wait_for_end("thirty"), 30)


def test_ten_and_thirty_steps_learn_are_resumed_and_leak_nothing(tmp_path: Path) -> None:
    async def both(ray: RayJobsApi, data: Path) -> None:
        await asyncio.gather(_ten(ray, data), _thirty(ray))

    _on_a_head(tmp_path, both)


async def _faults(ray: RayJobsApi, data: Path) -> None:
    small = [
        "grpo.num_prompts_per_step=4",
        "grpo.num_generations_per_prompt=8",
        "policy.train_global_batch_size=32",
    ]

    async def failing(name: str, fault: str, *more: str) -> JobResult:
        await ray.submit(name, [*tutorial_overrides(4, where=name), *small, f"+toy.fault={fault}", *more])
        return await ray.wait_for_end(name)

    zero, nan, worker, oom = await asyncio.gather(
        failing("zero", "zero_reward"),
        failing("nan", "nan@2"),
        failing("worker", "worker@2"),
        failing("oom", "oom@2"),
    )
    assert [row.avg_reward for row in metrics.parse_log(zero.log).rows] == [0.0] * 4
    losses = [row.loss for row in metrics.parse_log(nan.log).rows]
    assert (
        nan.info["status"] == "SUCCEEDED"
        and losses[0] == losses[0]
        and all(loss != loss for loss in losses[1:])
    )
    assert (
        worker.info["status"] == "FAILED"
        and b"ActorDiedError" in worker.log
        and worker.info["driver_exit_code"] == 1
    )
    assert oom.info["status"] == "FAILED" and oom.info["driver_exit_code"] == 137
    assert len(metrics.parse_log(worker.log).rows) >= 1


async def _refusals(ray: RayJobsApi, data: Path) -> None:
    await ray.submit("typo", [*tutorial_overrides(2), "grpo.max_stepz=3"])
    await ray.submit("raw", [*tutorial_overrides(2, where="raw")], final_number_answers=False)
    await ray.submit("stall", [*tutorial_overrides(3, where="stall"), "+toy.fault=stall@2"])
    typo, raw = await ray.wait_for_end("typo"), await ray.wait_for_end("raw")
    assert typo.info["status"] == "FAILED" and b"Could not override 'grpo.max_stepz'" in typo.log
    assert [row.avg_reward for row in metrics.parse_log(raw.log).rows] == [0.0, 0.0]
    await ray.wait_for_log("stall", b"= Step 2/3")
    before = await _quiet(ray, "stall")
    await ray.stop("stall")
    stalled = await ray.wait_for_end("stall")
    assert stalled.info["status"] == "STOPPED" and stalled.log[: len(before)] == before


async def _quiet(ray: RayJobsApi, job: str) -> bytes:
    """The log once it has not grown for three seconds: the job is still running, and says nothing."""
    began, seen = time.monotonic(), b""
    while (log := await ray.log(job)) != seen or time.monotonic() - began < 3:
        began, seen = (time.monotonic(), log) if log != seen else (began, seen)
        await asyncio.sleep(0.5)
    info: dict[str, Any] = await ray.get(f"/api/jobs/{job}")
    assert info["status"] == "RUNNING"
    return seen


@pytest.mark.heavy
def test_faults_show_as_in_real_runs_and_refusals_are_hydras(tmp_path: Path) -> None:
    async def both(ray: RayJobsApi, data: Path) -> None:
        await asyncio.gather(_faults(ray, data), _refusals(ray, data))

    _on_a_head(tmp_path, both)
