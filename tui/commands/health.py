"""`health`: a diagnosis of the job, or of a saved NeMo RL log. 1 when it is warning or critical."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from grpo_wizard.steps.jobs.watch import load_job
from grpo_wizard.steps.training.health import HealthReport, diagnose
from grpo_wizard.steps.training.rows import RunInfo
from grpo_wizard.tui.commands._output import print_json, status_glyph
from grpo_wizard.tui.commands._session import mode_of, open_session
from grpo_wizard.tui.commands.metrics import read_log

_LEVEL_ICONS = {"critical": "block", "warning": "warn", "info": "info"}
# NeMo RL says "stopping training early" also of a run that has done all its steps.
_END_MESSAGES = {
    "max_steps": "the run is completed",
    "async_complete": "the run is completed",
    "timeout": "the run ended at its time limit",
}


def run(args: argparse.Namespace) -> int:
    name = None
    if args.source:
        reader = read_log(args.source)
        verdict, rows, facts = diagnose(reader), reader.to_json().get("rows", []), reader.run_info
    else:
        session = open_session(args)
        name = session.deployment.name
        watch = asyncio.run(load_job(session))
        verdict, rows, facts = watch.health(), watch.rows(), watch.reader.run_info
    if args.json:
        print_json(mode_of(args), name, verdict.to_json())
    else:
        _print_verdict(verdict, rows, facts)
    return 1 if verdict.verdict in ("warning", "critical") else 0


def _print_verdict(verdict: HealthReport, rows: Sequence[dict[str, object]], facts: RunInfo) -> None:
    print(f"health: {verdict.verdict}")
    rewards = [row["avg_reward"] for row in rows if isinstance(row.get("avg_reward"), float)]
    if rewards:
        print(
            f"reward {rewards[0]:.4f} at step {rows[0]['step']}, {rewards[-1]:.4f} at step {rows[-1]['step']}"
        )
    elif verdict.verdict == "unknown":
        print("no training step was found in this log")
    if facts.end_reason in _END_MESSAGES and rows:
        print(f"{_END_MESSAGES[facts.end_reason]}: step {rows[-1]['step']} of {rows[-1]['total_steps']}")
    for found in verdict.findings:
        since = f" (since step {found.since_step})" if found.since_step is not None else ""
        print(f"{status_glyph(_LEVEL_ICONS[found.level])} {found.level}: {found.title}{since}")
        print(f"  seen: {found.evidence}\n  do:   {found.advice}\n  from: {found.source}")
