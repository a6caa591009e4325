"""`health`: diagnoses the job or a saved NeMo RL log. Exits with 1 if the verdict is warning or critical."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from grpo_wizard.steps.jobs.watch import load_job
from grpo_wizard.steps.training.health import HealthReport, diagnose
from grpo_wizard.steps.training.rows import RunInfo
from grpo_wizard.tui.commands._output import print_json, print_wrapped, status_glyph
from grpo_wizard.tui.commands._session import mode_of, open_session
from grpo_wizard.tui.commands.metrics import read_log

_LEVEL_ICONS = {"critical": "block", "warning": "warn", "info": "info"}
# NeMo RL logs "stopping training early" also for a run that has completed all steps.
_END_MESSAGES = {
    "max_steps": "The run is complete",
    "async_complete": "The run is complete",
    "timeout": "The run reached its time limit",
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
    print(f"Health: {verdict.verdict}")
    rewards = [row["avg_reward"] for row in rows if isinstance(row.get("avg_reward"), float)]
    if rewards:
        print(
            f"Reward: {rewards[0]:.4f} at step {rows[0]['step']}, {rewards[-1]:.4f} at step {rows[-1]['step']}"
        )
    elif verdict.verdict == "unknown":
        print("The log contains no training steps.")
    if facts.end_reason in _END_MESSAGES and rows:
        print(f"{_END_MESSAGES[facts.end_reason]}: step {rows[-1]['step']} of {rows[-1]['total_steps']}.")
    for finding in verdict.findings:
        since = f" (since step {finding.since_step})" if finding.since_step is not None else ""
        print_wrapped(
            f"{status_glyph(_LEVEL_ICONS[finding.level])} {finding.level}: {finding.title}{since}", hanging=2
        )
        for label, text in (
            ("Evidence", finding.evidence),
            ("Advice", finding.advice),
            ("Source", finding.source),
        ):
            print_wrapped(f"  {label}: {text}", hanging=2)
