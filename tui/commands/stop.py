"""`stop`: stops the job and keeps its nodes."""

from __future__ import annotations

import argparse
import asyncio

from grpo_wizard.steps.jobs.stop import stop_job
from grpo_wizard.steps.jobs.watch import JobWatcher
from grpo_wizard.tui.commands._output import print_json, print_wrapped
from grpo_wizard.tui.commands._session import open_session


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    watcher = JobWatcher(session)
    stopped = asyncio.run(stop_job(watcher))
    if args.json:
        print_json(
            session.deployment.mode, session.deployment.name, {"stopped": stopped, "job": watcher.to_json()}
        )
        return 0
    verb = "now has" if stopped else "already has"
    print_wrapped(
        f"Job {watcher.job_id} {verb} status {watcher.status}. Its nodes are still running and being billed: "
        "use `grpo-wizard destroy` to delete them, or `grpo-wizard apply` to resume from the last complete checkpoint."
    )
    return 0
