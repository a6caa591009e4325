"""Does the rehearsal's GRPO learn? 10 seeds x {10, 30} steps through a real Ray head by the Jobs API, and
the table of it.

    python tests/bench/grpo_table.py [--seeds 10] [--steps 10 30]

One row a job: mean reward of the first and the last third of its steps, their ratio (2 or more is wanted),
validation accuracy,
and the job's wall time by Ray. Ends with 1 when a ratio is below 2 or a wall time is outside 20 to 60 s.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from ray_job_client import RayJobsApi, pod_view, ray_jobs_api, tutorial_overrides

from grpo_wizard.steps.emulator.ray.heads import LocalRayHeadManager
from grpo_wizard.steps.training import reader


def thirds(rewards: list[float]) -> tuple[float, float]:
    """(mean of the first third, mean of the last)."""
    size = len(rewards) // 3
    return fmean(rewards[:size]), fmean(rewards[-size:])


async def row(ray: RayJobsApi, steps: int, seed: int) -> bool:
    name = f"s{steps}-{seed}"
    await ray.submit(name, tutorial_overrides(steps, seed, name))
    done = await ray.wait_for_end(name)
    rewards = [
        float(step.avg_reward) for step in reader.parse_log(done.log).rows if step.avg_reward is not None
    ]
    if done.info["status"] != "SUCCEEDED" or len(rewards) != steps:
        print(f"{steps:5} {seed:5}  {done.info['status']} with {len(rewards)} steps")
        return False
    first, last = thirds(rewards)
    good = last >= 2 * first and 20 <= done.wall <= 60
    print(
        f"{steps:5} {seed:5} {first:8.4f} {last:8.4f} {last / first:6.2f} {done.wall:6.1f}  "
        f"{'' if good else 'NOT AS WANTED'}",
        flush=True,
    )
    return good


async def table(seeds: int, lengths: list[int]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        heads = LocalRayHeadManager(Path(folder))
        try:
            async with ray_jobs_api(heads, pod_view(Path(folder))) as ray:
                print("steps  seed    first     last  ratio   wall", flush=True)
                return all([await row(ray, steps, seed) for steps in lengths for seed in range(1, seeds + 1)])
        finally:
            await heads.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 30])
    options = parser.parse_args()
    return 0 if asyncio.run(table(options.seeds, options.steps)) else 1


if __name__ == "__main__":
    sys.exit(main())
