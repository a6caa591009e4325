"""`apply`: makes what is missing. Run again, it resumes by looking."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from grpo_wizard.state.errors import CommandUsageError, WizardError
from grpo_wizard.state.journal import Journal
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.apply import ApplyOptions, apply
from grpo_wizard.steps.engine.preflight import blocking, inconclusive, run_checks
from grpo_wizard.steps.jobs.watch import JobWatcher
from grpo_wizard.steps.registry import STEP_NAMES, STEPS
from grpo_wizard.tui.commands._events import EventRenderer
from grpo_wizard.tui.commands._session import load_deployment, locked_session
from grpo_wizard.tui.commands.wait import follow_job, job_summary


def run(args: argparse.Namespace) -> int:
    if not args.yes:
        raise CommandUsageError(
            "apply makes things that cost money", "", "look at grpo-wizard plan first, then add --yes"
        )
    if args.until is not None and args.until not in STEP_NAMES:
        raise CommandUsageError(f"--until {args.until}", f"it is one of {', '.join(STEP_NAMES)}")
    if args.detach:
        return _run_detached(args)
    with locked_session(args) as session:
        return asyncio.run(_apply(session, args))


async def _apply(session: Session, args: argparse.Namespace) -> int:
    options = ApplyOptions(
        adopt=args.adopt,
        replace=tuple(args.replace),
        until=args.until or STEP_NAMES[-1],
        gate=None if args.skip_checks else lambda: preflight_gate(session),
        max_usd_per_hour=args.max_usd_per_hour,
        max_usd=getattr(args, "max_usd", None),
        allow_unpriced=args.skip_checks,
    )
    story = apply(session, options)
    waits = args.wait and options.until == STEP_NAMES[-1]
    told = _with_job_events(session, story, args.json) if waits else story
    ok = await record_and_render(session, told, args.json, args.home or "")
    return 0 if ok else 1


async def _with_job_events(
    session: Session, events: AsyncIterator[Event], as_json: bool
) -> AsyncIterator[Event]:
    """The same story, with the job's own between the last resource and the summary."""
    async for event in events:
        if event.event == "summary" and event.data["ok"]:
            watch = JobWatcher(session)
            started = time.monotonic()
            await follow_job(watch, as_json)
            ended = job_summary(watch, watch.status == "SUCCEEDED")
            data = dict(event.data) | {key: ended[key] for key in ("ok", "failed", "next")}
            yield Event(
                "summary", None, data | {"seconds": round(data["seconds"] + time.monotonic() - started, 3)}
            )
        else:
            yield event


async def preflight_gate(session: Session) -> Sequence[Mapping[str, str]]:
    """The last look before anything billable: every check, with the APIs on. What blocks stops the rest, and so does what stays unknown.

    An API takes effect minutes after it was enabled (cases a07): in an empty project all checks are unknown at first.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + backoff.force_delete_after(session.cloud.time_scale)
    for wait in backoff.poll_intervals(session.cloud.time_scale):
        world = CachedCloudReader(session.cloud, session.deployment.lineage)
        found = await run_checks(STEPS, session.answers, world)
        if blocking(found) or not inconclusive(found) or loop.time() > until:
            break
        await asyncio.sleep(wait)
    later = (
        "an API that was just enabled may take some minutes: run apply again (--skip-checks goes on without)"
    )
    return [
        {
            "id": f"check {checked.id}",
            "title": checked.finding.title,
            "detail": checked.finding.detail,
            "fix": checked.finding.fix or later,
        }
        for checked in blocking(found) or inconclusive(found)
    ]


async def record_and_render(
    session: Session, events: AsyncIterator[Event], as_json: bool, home: str = ""
) -> bool:
    """Writes every event into the journal and shows it. True when the summary says so."""
    journal = Journal(session.store.home.journal_file(session.deployment.name))
    renderer = EventRenderer(session.deployment.mode, session.deployment.name, as_json, home)
    ok = False
    try:
        async for event in events:
            journal.append(event.to_json())
            renderer.show(event)
            ok = bool(event.data.get("ok")) if event.event == "summary" else ok
    except WizardError as error:
        journal.append(Event("summary", None, {"ok": False, "failed": [error.to_json()]}).to_json())
        raise
    except asyncio.CancelledError:  # ctrl+c: the stream ends with a summary all the same
        event = Event("summary", None, _interrupted_summary())
        journal.append(event.to_json())
        if as_json:
            renderer.show(event)
        raise
    return ok


def _interrupted_summary() -> dict[str, Any]:
    entry = {
        "id": "",
        "title": "interrupted",
        "detail": "what runs in the cloud goes on there",
        "fix": "run the same command again: it goes on by looking",
    }
    counts = dict.fromkeys(("created", "adopted", "kept", "deleted"), 0)
    return {"ok": False, **counts, "failed": [entry], "seconds": 0.0, "usd_per_hour": 0.0, "next": "apply"}


def _run_detached(args: argparse.Namespace) -> int:
    """The same command in a process of its own."""
    from grpo_wizard.tui.commands._detach import start_detached

    store, deployment = load_deployment(args)
    pid, log = start_detached(
        store.home, deployment.name, [word for word in sys.argv[1:] if word != "--detach"]
    )
    print(
        f"going on in the background as process {pid}; grpo-wizard status shows it, {log} holds what it says"
    )
    return 0
