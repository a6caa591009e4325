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
    already = "" if stopped else " already"
    print_wrapped(
        f"Job {watcher.job_id} is {watcher.status}{already}. Its nodes are still running and billed: "
        "`grpo-wizard destroy` deletes them, `grpo-wizard apply` resumes from the last complete checkpoint."
    )
    return 0
