"""`status`: the cloud as it is, drift, and the job. Looks only."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from typing import Any

from grpo_wizard.steps.core.model import ABSENT
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.apply import Options, plan
from grpo_wizard.steps.engine.plan import Decision, price
from grpo_wizard.steps.engine.recovery import advice
from grpo_wizard.steps.jobs.status import describe
from grpo_wizard.steps.pricing.budget import Meter, Spent, limit_of, spent
from grpo_wizard.steps.pricing.refresh import remembered
from grpo_wizard.steps.pricing.reservation import reservation_bill, sentence
from grpo_wizard.tui.commands._output import glyph, money, print_json
from grpo_wizard.tui.commands._session import open_session

_SIGNS = {"ready": "pass", "creating": "work", "absent": "todo", "failed": "failed", "deleting": "work"}


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    decisions, job, bill = asyncio.run(_look(session))
    so_far = spent(session.deployment, session.resources(), time.time())
    if args.json:
        print_json(
            session.deployment.mode,
            session.deployment.name,
            {
                "resources": [row(d) for d in decisions],
                "job": job,
                "spent_usd": so_far.document(),
                "reservation": bill,
            },
        )
    else:
        show(decisions, job)
        _show_spent(session, so_far, bill)
    return 0


def row(decision: Decision) -> dict[str, Any]:
    r, seen = decision.resource, decision.sight
    return {
        "id": r.id,
        "kind": r.kind,
        "name": r.name,
        "step": r.step,
        "needs": list(r.needs),
        "usd_per_hour": r.usd_per_hour,
        "state": seen.state,
        "origin": decision.origin,
        "detail": seen.detail,
        "drift": [str(d) for d in seen.drift] if decision.origin != "none" else [],
    }


async def _look(
    session: Session,
) -> tuple[list[Decision], dict[str, Any] | None, dict[str, Any] | None]:
    """Every resource, the job as Ray tells it now with the step that its log has come to, and the reservation."""
    session.book = remembered(session) or session.book
    decisions = await plan(session, Options(), strict=True)
    sight = next((d.sight for d in decisions if d.resource.kind == "job"), ABSENT)
    return decisions, await describe(session, sight), await reservation_bill(session)


def show(decisions: Sequence[Decision], job: dict[str, Any] | None) -> None:
    for d in decisions:
        detail = f"  {d.sight.detail}" if d.sight.detail and d.sight.state != "ready" else ""
        print(f"{glyph(_SIGNS[d.sight.state])} {d.sight.state:9}{d.origin:9}{d.resource.id}{detail}")
        for drift in d.sight.drift if d.origin != "none" else ():
            print(f"  {glyph('warn')} drift: {drift}")
    if words := advice(decisions):
        print(f"note: {words}")
    known, unknown = price([d.resource for d in decisions if d.sight.state not in ("absent", "deleting")])
    print(f"\nprice now: {money(known, len(unknown))}")
    if job:
        step = f", step {job['step']} of {job['total_steps']}" if job.get("step") is not None else ""
        print(f"job {job['id']}: {job['status']}{step}")


def _show_spent(session: Session, so_far: Spent, bill: dict[str, Any] | None) -> None:
    more = f", and {len(so_far.unknown)} parts without a known price" if so_far.unknown else ""
    notional = " (a rehearsal: nothing is billed)" if session.deployment.mode == "rehearsal" else ""
    if so_far.since:
        print(f"spent: {so_far.known:,.2f} USD since {so_far.since}{more}{notional}")
    limit = limit_of(session.answers, None)
    if text := Meter(session.deployment, session.resources(), limit).warning():
        print(f"note: {text}")
    if bill:
        print(sentence(bill))
