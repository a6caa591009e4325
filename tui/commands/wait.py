"""`wait`: follows the job to its end. 0 when it SUCCEEDED."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from grpo_wizard.state.journal import Journal
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.plan import hourly_cost
from grpo_wizard.steps.jobs.watch import JobWatcher
from grpo_wizard.tui.commands._events import EventRenderer
from grpo_wizard.tui.commands._session import open_session


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    watch, ok = asyncio.run(_wait(session, args.timeout, args.json))
    deployment = session.deployment
    renderer = EventRenderer(deployment.mode, deployment.name, args.json, args.home or "")
    renderer.show(Event("summary", None, job_summary(watch, ok)))
    return 0 if ok else 1


async def _wait(session: Session, timeout: float | None, as_json: bool) -> tuple[JobWatcher, bool]:
    watch = JobWatcher(session)
    try:
        async with asyncio.timeout(timeout):
            await follow_job(watch, as_json)
    except TimeoutError:
        watch.detail = f"still {watch.status} after {timeout:g} s"
    return watch, watch.status == "SUCCEEDED"


def job_summary(watch: JobWatcher, ok: bool) -> dict[str, Any]:
    failed = (
        []
        if ok
        else [
            {
                "id": "grpo.job",
                "title": f"the job is {watch.status or 'LOST'}",
                "detail": watch.detail[-400:],
                "fix": "grpo-wizard health says why; apply goes on from the last complete step_N",
            }
        ]
    )
    return {
        "ok": ok,
        "created": 0,
        "adopted": 0,
        "kept": 0,
        "deleted": 0,
        "failed": failed,
        "seconds": 0.0,
        "usd_per_hour": hourly_cost(watch.session.resources())[0],
        "next": "metrics" if ok else "health",
    }


async def follow_job(watch: JobWatcher, as_json: bool) -> None:
    """Follows into the spool and tells each status and each training step."""
    session = watch.session
    renderer = EventRenderer(session.deployment.mode, session.deployment.name, as_json)
    journal = Journal(session.store.home.journal_file(session.deployment.name))
    told, status = len(watch.reader.rows), ""
    async for _ in watch.run():
        rows = watch.reader.rows
        if watch.status == status and len(rows) <= told:
            continue
        event = Event("job", "grpo.job", job_event_data(watch))
        told, status = len(rows), watch.status
        journal.append(event.to_json())
        renderer.show(event)


def job_event_data(watch: JobWatcher) -> dict[str, Any]:
    rows = watch.reader.rows
    last = rows[-1].to_json() if rows else {}
    return {
        "job_id": watch.job_id,
        "status": watch.status,
        "step": last.get("step"),
        "total_steps": watch.reader.run_info.total_steps,
        "avg_reward": last.get("avg_reward"),
        "detail": f"reward {last['avg_reward']:.4f}" if isinstance(last.get("avg_reward"), float) else "",
    }
