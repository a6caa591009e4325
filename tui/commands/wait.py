"""`wait`: follows the job until it ends. Exits with 0 when it SUCCEEDED."""

from __future__ import annotations

import argparse
import asyncio

from grpo_wizard.state.journal import Journal
from grpo_wizard.steps.core import events
from grpo_wizard.steps.jobs.follow import job_events, job_failures
from grpo_wizard.steps.jobs.watch import JobWatcher
from grpo_wizard.steps.pricing.book import hourly_cost
from grpo_wizard.tui.commands._events import EventRenderer
from grpo_wizard.tui.commands._session import open_session


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    deployment = session.deployment
    renderer = EventRenderer(deployment.mode, deployment.name, args.json, args.home or "")
    watcher = JobWatcher(session)
    asyncio.run(_follow(watcher, renderer, args.timeout))
    failed = job_failures(watcher)
    renderer.show(
        events.summary(
            failed=failed,
            usd_per_hour=hourly_cost(session.resources())[0],
            next_command="health" if failed else "metrics",
        )
    )
    return 1 if failed else 0


async def _follow(watcher: JobWatcher, renderer: EventRenderer, timeout: float | None) -> None:
    session = watcher.session
    journal = Journal(session.store.home.journal_file(session.deployment.name))
    try:
        async with asyncio.timeout(timeout):
            async for event in job_events(watcher):
                journal.append(event.to_json())
                renderer.show(event)
    except TimeoutError:
        watcher.detail = f"still {watcher.status} after {timeout:g} s"
