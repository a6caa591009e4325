"""Stopping the job. Its nodes keep running."""

from __future__ import annotations

import asyncio

from grpo_wizard.steps.jobs.watch import JobWatcher

_POLL_SECONDS = 0.3


async def stop_job(watcher: JobWatcher) -> bool:
    """Ask Ray to stop the job and wait until it has. False when it had ended before."""
    async with watcher.open() as head:
        job = await watcher.find(head)
        if job.ended:
            return False
        await head.jobs.stop(job.id)
        while not (job := await head.jobs.get(job.id)).ended:
            await asyncio.sleep(_POLL_SECONDS)
        watcher.status, watcher.job = job.status, job
        return True
