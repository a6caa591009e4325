"""`status`: shows every resource, drift, the job and the cost so far. Changes nothing."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence

from grpo_wizard.steps.core.model import ABSENT
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.apply import plan
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.engine.plan import Decision
from grpo_wizard.steps.engine.recovery import recovery_hint
from grpo_wizard.steps.jobs.status import describe_job
from grpo_wizard.steps.pricing.book import hourly_cost
from grpo_wizard.steps.pricing.budget import BudgetGuard, CostToDate, cost_to_date, spending_limit
from grpo_wizard.steps.pricing.reservation import format_reservation_bill, reservation_bill
from grpo_wizard.tui.commands._output import print_json, print_wrapped, status_glyph
from grpo_wizard.tui.commands._session import open_session
from grpo_wizard.tui.viewmodels.labels import count_unpriced, format_hourly_price

_STATE_ICONS = {"ready": "pass", "creating": "work", "absent": "todo", "failed": "failed", "deleting": "work"}


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    decisions, job, bill = asyncio.run(_read_status(session))
    so_far = cost_to_date(session.deployment, session.resources(), time.time())
    if args.json:
        print_json(
            session.deployment.mode,
            session.deployment.name,
            {
                "resources": [resource_row(d) for d in decisions],
                "job": job,
                "spent_usd": so_far.to_json(),
                "reservation": bill,
            },
        )
    else:
        print_status(decisions, job)
        _print_cost_to_date(session, so_far, bill)
    return 0


def resource_row(decision: Decision) -> dict[str, object]:
    r, observed = decision.resource, decision.observed
    return {
        "id": r.id,
        "kind": r.kind,
        "name": r.name,
        "step": r.step,
        "needs": list(r.depends_on),
        "usd_per_hour": r.usd_per_hour,
        "state": observed.state,
        "origin": decision.ownership,
        "detail": observed.detail,
        "drift": [str(d) for d in observed.drift] if decision.ownership != "none" else [],
    }


async def _read_status(
    session: Session,
) -> tuple[list[Decision], dict[str, object] | None, dict[str, object] | None]:
    """Return every resource, the job with the last step in its log, and the reservation's bill."""
    decisions = await plan(session, ApplyOptions(), strict=True)
    observed = next((d.observed for d in decisions if d.resource.kind == "job"), ABSENT)
    return decisions, await describe_job(session, observed), await reservation_bill(session)


def print_status(decisions: Sequence[Decision], job: dict[str, object] | None) -> None:
    """Print a row per resource with its drift, the current price, and the job."""
    print(f"  {'STATE':9}{'ORIGIN':9}RESOURCE")
    for d in decisions:
        detail = f"  {d.observed.detail}" if d.observed.detail and d.observed.state != "ready" else ""
        print(
            f"{status_glyph(_STATE_ICONS[d.observed.state])} {d.observed.state:9}{_format_origin(d):9}{d.resource.id}{detail}"
        )
        for drift in d.observed.drift if d.ownership != "none" else ():
            print_wrapped(f"  {status_glyph('warn')} drift: {drift}", hanging=4)
    if hint := recovery_hint(decisions):
        print_wrapped(f"Note: {end_with_period(hint)}")
    known, unknown = hourly_cost(
        [d.resource for d in decisions if d.observed.state not in ("absent", "deleting")]
    )
    print(f"\nCurrent price: {format_hourly_price(known, len(unknown))}")
    if job:
        step = f", step {job['step']} of {job['total_steps']}" if job.get("step") is not None else ""
        print(f"Job {job['id']}: {job['status']}{step}")


def _format_origin(decision: Decision) -> str:
    if decision.ownership != "none":
        return decision.ownership
    return "-" if decision.observed.state == "absent" else "foreign"


def _print_cost_to_date(session: Session, so_far: CostToDate, bill: dict[str, object] | None) -> None:
    more = f" + {count_unpriced(len(so_far.unpriced))}" if so_far.unpriced else ""
    notional = " (not billed, because this is a rehearsal)" if session.deployment.mode == "rehearsal" else ""
    if so_far.since:
        print(f"Spent: {so_far.known_usd:,.2f} USD{more} since {so_far.since}{notional}")
    limit = spending_limit(session.answers, None)
    if text := BudgetGuard(session.deployment, session.resources(), limit).warning():
        print_wrapped(f"Note: {end_with_period(text)}")
    if bill:
        print_wrapped(f"Note: {end_with_period(format_reservation_bill(bill))}")
