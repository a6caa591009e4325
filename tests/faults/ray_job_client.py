"""A pod, a real Ray head for it, and jobs through plain Ray Jobs REST: shared by the tests and the table of
rewards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from grpo_wizard.steps.emulator.context import PodView
from grpo_wizard.steps.emulator.ray.heads import LocalRayHeadManager
from grpo_wizard.steps.grpo.entrypoint import entrypoint

RECIPE = "grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long"
TOKEN = "0123456789abcdef0123456789abcdef"
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


def tutorial_overrides(steps: int, seed: int = 42, where: str = "run") -> list[str]:
    """Return the tutorial's overrides, for `steps` steps with `seed`; files go below /data/<where>."""
    return [
        "cluster.num_nodes=2",
        "cluster.gpus_per_node=8",
        f"grpo.max_num_steps={steps}",
        f"grpo.seed={seed}",
        "grpo.num_prompts_per_step=16",
        "grpo.num_generations_per_prompt=32",
        f"checkpointing.checkpoint_dir=/data/{where}/ckpt",
        f"logger.log_dir=/data/{where}/logs",
        "logger.tensorboard_enabled=false",
        "logger.wandb_enabled=false",
        "policy.dtensor_cfg.tensor_parallel_size=8",
        "policy.generation.colocated.enabled=false",
        "policy.generation.colocated.resources.num_nodes=1",
        "policy.generation.colocated.resources.gpus_per_node=8",
        "policy.generation.vllm_cfg.tensor_parallel_size=8",
        "policy.generation.vllm_cfg.gpu_memory_utilization=0.9",
    ]


def pod_view(root: Path, name: str = "ray-head", env: dict[str, str] | None = None) -> PodView:
    """Return a head pod with /data and its Secret mounted from below `root`."""
    for folder in ("data", "tokens"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    return PodView(
        "c",
        "default",
        name,
        "ray",
        env or {},
        {"/data": root / "data", "/etc/tokens": root / "tokens"},
        TOKEN,
        "https://127.0.0.1:1",
        root / "ca.pem",
        "kube-token",
    )


@dataclass
class JobResult:
    """A finished job. `wall` is Ray's own duration in seconds; `log` the bytes of its file on the head."""

    info: dict[str, Any]
    wall: float
    log: bytes


@dataclass
class RayJobsApi:
    """Ray's REST interface of one head."""

    session: aiohttp.ClientSession
    agent: str

    async def get(self, path: str) -> Any:
        async with self.session.get(path) as answer:
            answer.raise_for_status()
            return json.loads(await answer.text())

    async def submit(self, job: str, overrides: Sequence[str], *, final_number_answers: bool = True) -> None:
        script = entrypoint(RECIPE, overrides, final_number_answers=final_number_answers)
        async with self.session.post(
            "/api/jobs/", json={"entrypoint": script, "submission_id": job}
        ) as answer:
            answer.raise_for_status()

    async def stop(self, job: str) -> None:
        async with self.session.post(f"/api/jobs/{job}/stop") as answer:
            answer.raise_for_status()

    async def log(self, job: str) -> bytes:
        async with self.session.get(f"{self.agent}/logs/job-driver-{job}.log") as answer:
            return await answer.read() if answer.status == 200 else b""

    async def wait_for_log(self, job: str, word: bytes, limit: float = 60) -> bytes:
        """Return the log as soon as it contains `word`."""
        for _ in range(int(limit / 0.3)):
            if word in (log := await self.log(job)):
                return log
            await asyncio.sleep(0.3)
        raise AssertionError(f"{word!r} not in the log of {job}: {log[-2000:]!r}")

    async def wait_for_end(self, job: str, limit: float = 180) -> JobResult:
        for _ in range(int(limit / 0.3)):
            info = await self.get(f"/api/jobs/{job}")
            if info["status"] in ENDED:
                return JobResult(info, (info["end_time"] - info["start_time"]) / 1000, await self.log(job))
            await asyncio.sleep(0.3)
        raise AssertionError(f"{job} has not ended: {(await self.log(job))[-2000:]!r}")


@asynccontextmanager
async def ray_jobs_api(heads: LocalRayHeadManager, view: PodView) -> AsyncIterator[RayJobsApi]:
    """The head of `view`, started if needed."""
    host, dashboard = await heads.connect(view, 8265)
    _, agent = await heads.connect(view, 52365)
    headers = {"Authorization": f"Bearer {view.token}"}
    async with aiohttp.ClientSession(f"http://{host}:{dashboard}", headers=headers) as session:
        yield RayJobsApi(session, f"http://{host}:{agent}")
