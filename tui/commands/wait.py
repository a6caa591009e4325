"""`wait`: follows the job to its end. 0 when it SUCCEEDED."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from grpo_wizard.state.journal import Journal
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.plan import price
from grpo_wizard.steps.jobs.watch import JobWatch
from grpo_wizard.tui.commands._events import Renderer
from grpo_wizard.tui.commands._session import open_session


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    watch, ok = asyncio.run(_wait(session, args.timeout, args.json))
    deployment = session.deployment
    renderer = Renderer(deployment.mode, deployment.name, args.json, args.home or "")
    renderer.show(Event("summary", None, summary(watch, ok)))
    return 0 if ok else 1


async def _wait(session: Session, timeout: float | None, as_json: bool) -> tuple[JobWatch, bool]:
    watch = JobWatch(session)
    try:
        async with asyncio.timeout(timeout):
            await until_ended(watch, as_json)
    except TimeoutError:
        watch.detail = f"still {watch.status} after {timeout:g} s"
    return watch, watch.status == "SUCCEEDED"


def summary(watch: JobWatch, ok: bool) -> dict[str, Any]:
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
        "usd_per_hour": price(watch.session.resources())[0],
        "next": "metrics" if ok else "health",
    }


async def until_ended(watch: JobWatch, as_json: bool) -> None:
    """Follows into the spool and tells each status and each training step."""
    session = watch.session
    renderer = Renderer(session.deployment.mode, session.deployment.name, as_json)
    journal = Journal(session.store.home.journal_file(session.deployment.name))
    told, status = len(watch.reader.rows), ""
    async for _ in watch.run():
        rows = watch.reader.rows
        if watch.status == status and len(rows) <= told:
            continue
        event = Event("job", "grpo.job", job_data(watch))
        told, status = len(rows), watch.status
        journal.append(event.document())
        renderer.show(event)


def job_data(watch: JobWatch) -> dict[str, Any]:
    rows = watch.reader.rows
    last = rows[-1].as_json() if rows else {}
    return {
        "job_id": watch.job_id,
        "status": watch.status,
        "step": last.get("step"),
        "total_steps": watch.reader.facts.total_steps,
        "avg_reward": last.get("avg_reward"),
        "detail": f"reward {last['avg_reward']:.4f}" if isinstance(last.get("avg_reward"), float) else "",
    }
