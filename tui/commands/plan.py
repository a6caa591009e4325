"""`plan`: what apply would do, what it costs, and how long it takes. Writes nothing."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from grpo_wizard.steps.differences import rows
from grpo_wizard.steps.engine import Options, plan
from grpo_wizard.steps.plan import Decision, expected_seconds, price
from grpo_wizard.steps.session import Session
from grpo_wizard.steps.takeover import advice
from grpo_wizard.tui.opening import open_session
from grpo_wizard.tui.output import duration, money, print_json


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    decisions = asyncio.run(plan(session, Options()))
    if args.json:
        print_json(session.deployment.mode, session.deployment.name, document(session, decisions))
    else:
        show(session, decisions)
    return 1 if any(d.action == "conflict" for d in decisions) else 0


def document(session: Session, decisions: Sequence[Decision]) -> dict[str, Any]:
    known, unknown = price([d.resource for d in decisions if d.action != "delete"])
    return {
        "resources": [_row(d) for d in decisions],
        "usd_per_hour": {"known": known, "unknown": unknown},
        "expected_seconds": expected_seconds(decisions),
        "differences": rows(session.answers),
    }


def _row(decision: Decision) -> dict[str, Any]:
    r = decision.resource
    return {
        "id": r.id,
        "kind": r.kind,
        "name": r.name,
        "step": r.step,
        "action": decision.action,
        "needs": list(r.needs),
        "command": r.command,
        "usual_seconds": [r.usual.low, r.usual.high],
        "usd_per_hour": r.usd_per_hour,
        "note": decision.note,
    }


def show(session: Session, decisions: Sequence[Decision]) -> None:
    for d in decisions:
        cost = (
            ""
            if d.resource.usd_per_hour == 0
            else " price unknown"
            if d.resource.usd_per_hour is None
            else f" {d.resource.usd_per_hour:.2f} USD/h"
        )
        print(f"{d.action:9}{d.resource.id}{cost}" + (f"  {d.note}" if d.note else ""))
    counts = {
        action: sum(d.action == action for d in decisions)
        for action in ("create", "keep", "adopt", "change", "replace", "conflict", "delete")
    }
    print("\n" + ", ".join(f"{count} to {action}" for action, count in counts.items() if count))
    known, unknown = price([d.resource for d in decisions if d.action != "delete"])
    print(f"price: {money(known, len(unknown))}" + (f": {', '.join(unknown)}" if unknown else ""))
    print(
        f"time:  up to {duration(expected_seconds(decisions))} of a real deployment's time, the longest chain at its usual upper end"
    )
    if sentence := advice(decisions):
        print(f"note:  {sentence}")
    print("\nbetter than the tutorial:")
    for row in rows(session.answers):
        print(f"  [{'x' if row['on'] else ' '}] {row['what']}: {row['why']}")
