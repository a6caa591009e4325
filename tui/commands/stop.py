"""`stop`: ends the job and keeps the machines."""

from __future__ import annotations

import argparse
import asyncio

from grpo_wizard.steps.jobs.watch import JobWatch
from grpo_wizard.tui.commands._output import print_json
from grpo_wizard.tui.commands._session import open_session


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    watch = JobWatch(session)
    stopped = asyncio.run(stop_job(watch))
    said = f"job {watch.job_id} is {watch.status}" + ("" if stopped else " already")
    if args.json:
        print_json(
            session.deployment.mode, session.deployment.name, {"stopped": stopped, "job": watch.document()}
        )
    else:
        print(
            f"{said}; the machines stay and cost on: grpo-wizard destroy takes them down, apply goes on from the last complete step_N"
        )
    return 0


async def stop_job(watch: JobWatch) -> bool:
    """Asks for the end and waits for it. False when it had ended before."""
    async with watch.open() as head:
        job = await watch.find(head)
        if job.ended:
            return False
        await head.jobs.stop(job.id)
        while not (job := await head.jobs.get(job.id)).ended:
            await asyncio.sleep(0.3)
        watch.status, watch.job = job.status, job
        return True
