"""`health`: a diagnosis of the job, or of a saved NeMo RL log. 1 when it is warning or critical."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from grpo_wizard.steps.jobs.watch import read_job
from grpo_wizard.steps.training.health import Verdict, diagnose
from grpo_wizard.steps.training.rows import Facts
from grpo_wizard.tui.commands._output import glyph, print_json
from grpo_wizard.tui.commands._session import mode_of, open_session
from grpo_wizard.tui.commands.metrics import read_log

_SIGNS = {"critical": "block", "warning": "warn", "info": "info"}
# NeMo RL says "stopping training early" also of a run that has done all its steps.
_ENDINGS = {
    "max_steps": "the run is completed",
    "async_complete": "the run is completed",
    "timeout": "the run ended at its time limit",
}


def run(args: argparse.Namespace) -> int:
    name = None
    if args.source:
        reader = read_log(args.source)
        verdict, rows, facts = diagnose(reader), reader.document().get("rows", []), reader.facts
    else:
        session = open_session(args)
        name = session.deployment.name
        watch = asyncio.run(read_job(session))
        verdict, rows, facts = watch.health(), watch.rows(), watch.reader.facts
    if args.json:
        print_json(mode_of(args), name, verdict.as_json())
    else:
        _show(verdict, rows, facts)
    return 1 if verdict.verdict in ("warning", "critical") else 0


def _show(verdict: Verdict, rows: Sequence[dict[str, Any]], facts: Facts) -> None:
    print(f"health: {verdict.verdict}")
    rewards = [row["avg_reward"] for row in rows if isinstance(row.get("avg_reward"), float)]
    if rewards:
        print(
            f"reward {rewards[0]:.4f} at step {rows[0]['step']}, {rewards[-1]:.4f} at step {rows[-1]['step']}"
        )
    elif verdict.verdict == "unknown":
        print("no training step was found in this log")
    if facts.ending in _ENDINGS and rows:
        print(f"{_ENDINGS[facts.ending]}: step {rows[-1]['step']} of {rows[-1]['total_steps']}")
    for found in verdict.findings:
        since = f" (since step {found.since_step})" if found.since_step is not None else ""
        print(f"{glyph(_SIGNS[found.level])} {found.level}: {found.title}{since}")
        print(f"  seen: {found.evidence}\n  do:   {found.advice}\n  from: {found.source}")
