"""`stop`: ends the job and keeps the machines."""

from __future__ import annotations

import argparse
import asyncio

from grpo_wizard.steps.jobs.watch import JobWatcher
from grpo_wizard.tui.commands._output import print_json
from grpo_wizard.tui.commands._session import open_session


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    watch = JobWatcher(session)
    stopped = asyncio.run(stop_job(watch))
    said = f"job {watch.job_id} is {watch.status}" + ("" if stopped else " already")
    if args.json:
        print_json(
            session.deployment.mode, session.deployment.name, {"stopped": stopped, "job": watch.to_json()}
        )
    else:
        print(
            f"{said}; the machines stay and cost on: grpo-wizard destroy takes them down, apply goes on from the last complete step_N"
        )
    return 0


async def stop_job(watcher: JobWatcher) -> bool:
    """Asks for the end and waits for it. False when it had ended before."""
    async with watcher.open() as head:
        job = await watcher.find(head)
        if job.ended:
            return False
        await head.jobs.stop(job.id)
        while not (job := await head.jobs.get(job.id)).ended:
            await asyncio.sleep(0.3)
        watcher.status, watcher.job = job.status, job
        return True
