"""`logs`: prints the job's log to stdout."""

from __future__ import annotations

import argparse
import asyncio
import sys

from grpo_wizard.steps.clients.ray.log_follower import LogChunk, Notice
from grpo_wizard.steps.jobs.watch import JobWatcher, load_job
from grpo_wizard.tui.commands._session import open_session


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    if not args.follow:
        watch = asyncio.run(load_job(session))
        if watch.spool.exists():
            sys.stdout.buffer.write(watch.spool.read_bytes())
        return 0
    asyncio.run(_follow(JobWatcher(session)))
    return 0


async def _follow(watch: JobWatcher) -> None:
    """Print the log so far, then what follows until the job ends. Connection notices go to stderr."""
    shown = 0
    async for event in watch.run():
        if isinstance(event, Notice):
            print(f"{event.kind}: {event.detail}", file=sys.stderr)
        elif isinstance(event, LogChunk) or not shown:
            with watch.spool.open("rb") as file:
                file.seek(shown)
                data = file.read()
            shown += len(data)
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
