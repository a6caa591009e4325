"""`apply`: creates or updates what differs from the settings. Re-running it resumes."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator

from grpo_wizard.state.errors import CommandUsageError, WizardError
from grpo_wizard.state.journal import Journal
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.apply import apply
from grpo_wizard.steps.engine.crash_report import unexpected_error
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.jobs.follow import job_events, job_failures
from grpo_wizard.steps.jobs.watch import JobWatcher
from grpo_wizard.steps.registry import STEP_NAMES
from grpo_wizard.tui.commands._events import EventRenderer
from grpo_wizard.tui.commands._output import deployment_flags, print_wrapped
from grpo_wizard.tui.commands._session import load_deployment, locked_session


def run(args: argparse.Namespace) -> int:
    if not args.yes:
        raise CommandUsageError(
            "apply creates billable resources", "", "Review the output of `grpo-wizard plan`, then add --yes."
        )
    if args.until is not None and args.until not in STEP_NAMES:
        raise CommandUsageError(
            f"Unknown step {args.until} for --until", "", f"Use one of {', '.join(STEP_NAMES)}."
        )
    if args.detach:
        return _run_detached(args)
    with locked_session(args) as session:
        return asyncio.run(_apply(session, args))


def options_from(args: argparse.Namespace) -> ApplyOptions:
    """What the command line allows apply to do."""
    return ApplyOptions(
        adopt=args.adopt,
        replace=tuple(args.replace),
        until=args.until or "",
        skip_checks=args.skip_checks,
        max_usd_per_hour=args.max_usd_per_hour,
        max_usd=args.max_usd,
    )


async def _apply(session: Session, args: argparse.Namespace) -> int:
    options = options_from(args)
    stream = apply(session, options)
    if args.wait and options.until in ("", STEP_NAMES[-1]):
        stream = _with_job_events(session, stream)
    ok = await record_and_render(session, stream, args.json, args.home or "")
    return 0 if ok else 1


async def _with_job_events(session: Session, stream: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """Yield the events, with those of the job before the summary."""
    async for event in stream:
        if event.event != "summary" or not event.data["ok"]:
            yield event
            continue
        started, watcher = time.monotonic(), JobWatcher(session)
        async for job_event in job_events(watcher):
            yield job_event
        failed = job_failures(watcher)
        ended = {"ok": not failed, "failed": failed, "next": "health" if failed else "metrics"}
        seconds = round(event.data["seconds"] + time.monotonic() - started, 3)
        yield Event("summary", None, {**event.data, **ended, "seconds": seconds})


async def record_and_render(
    session: Session, stream: AsyncIterator[Event], as_json: bool, home: str = ""
) -> bool:
    """Append every event to the journal and print it. Return whether the summary is ok."""
    journal = Journal(session.store.home.journal_file(session.deployment.name))
    renderer = EventRenderer(session.deployment.mode, session.deployment.name, as_json, home)
    ok = False
    try:
        async for event in stream:
            journal.append(event.to_json())
            renderer.show(event)
            ok = bool(event.data.get("ok")) if event.event == "summary" else ok
    except WizardError as error:
        journal.append(_failure_summary(error).to_json())
        raise
    except Exception as error:
        known = unexpected_error(session, error, "running the command")
        journal.append(_failure_summary(known).to_json())
        raise known from error
    except asyncio.CancelledError:  # Ctrl+C: a stream always ends with a summary
        event = _interrupted_summary()
        journal.append(event.to_json())
        if as_json:
            renderer.show(event)
        raise
    return ok


def _failure_summary(error: WizardError) -> Event:
    return Event("summary", None, {"ok": False, "failed": [error.to_json()]})


def _interrupted_summary() -> Event:
    entry = {
        "id": "",
        "title": "Interrupted",
        "detail": "Operations already started in the cloud will finish.",
        "fix": "Re-run the same command to continue.",
    }
    return events.summary(failed=[entry], next_command="apply")


def _run_detached(args: argparse.Namespace) -> int:
    """Start the same command in a process of its own."""
    from grpo_wizard.tui.controllers.detach import start_detached

    store, deployment = load_deployment(args)
    pid, log = start_detached(
        store.home, deployment.name, [word for word in sys.argv[1:] if word != "--detach"]
    )
    print_wrapped(f"Running in the background as process {pid}. Its output is in {log}.")
    flags = deployment_flags(args.rehearse, args.deployment or "", args.home or "")
    print(f"To see its progress: grpo-wizard status{flags}")
    return 0
