"""`plan`: what apply would do, what it costs, and how long it takes. Writes nothing."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from grpo_wizard.steps.core.tutorial_differences import rows
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.apply import plan
from grpo_wizard.steps.engine.estimate import estimated_range, estimated_seconds, format_estimate
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.engine.plan import Decision
from grpo_wizard.steps.engine.recovery import recovery_hint
from grpo_wizard.steps.engine.spending import spending_errors, spending_notices
from grpo_wizard.steps.pricing.book import hourly_cost, price_sources
from grpo_wizard.steps.pricing.budget import BudgetGuard, SpendingLimits, spending_limit
from grpo_wizard.steps.pricing.refresh import refresh_prices
from grpo_wizard.steps.pricing.reservation import format_reservation_bill, reservation_bill
from grpo_wizard.tui.commands._output import print_json
from grpo_wizard.tui.commands._session import open_session
from grpo_wizard.tui.viewmodels.labels import format_hourly_price


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    decisions, bill, why = asyncio.run(_read_plan(session))
    if args.json:
        print_json(
            session.deployment.mode,
            session.deployment.name,
            plan_document(session, decisions) | {"reservation": bill},
        )
    else:
        print_plan(session, decisions)
        _print_costs(session, decisions, bill, why)
    return 1 if any(d.action == "conflict" for d in decisions) else 0


async def _read_plan(session: Session) -> tuple[list[Decision], dict[str, object] | None, str]:
    """The plan at today's prices, the reservation, and why these are not today's prices."""
    why = await refresh_prices(session)
    return await plan(session, ApplyOptions()), await reservation_bill(session), why


def plan_document(session: Session, decisions: Sequence[Decision]) -> dict[str, object]:
    known, unknown = hourly_cost([d.resource for d in decisions if d.action != "delete"])
    return {
        "resources": [_resource_row(d) for d in decisions],
        "usd_per_hour": {"known": known, "unknown": unknown},
        "price_sources": price_sources([d.resource for d in decisions], session.answers, session.price_book),
        "expected_seconds": estimated_seconds(decisions),
        "expected_seconds_range": list(estimated_range(decisions)),
        "differences": rows(session.answers),
    }


def _resource_row(decision: Decision) -> dict[str, object]:
    r = decision.resource
    return {
        "id": r.id,
        "kind": r.kind,
        "name": r.name,
        "step": r.step,
        "action": decision.action,
        "needs": list(r.depends_on),
        "command": r.command,
        "usual_seconds": [r.expected_duration.low, r.expected_duration.high],
        "usd_per_hour": r.usd_per_hour,
        "note": decision.note,
    }


def print_plan(session: Session, decisions: Sequence[Decision]) -> None:
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
    known, unknown = hourly_cost([d.resource for d in decisions if d.action != "delete"])
    print(
        f"price: {format_hourly_price(known, len(unknown))}" + (f": {', '.join(unknown)}" if unknown else "")
    )
    how = (
        " (of a real deployment: its longest chain at the usual ends)" if estimated_seconds(decisions) else ""
    )
    print(f"time:  {format_estimate(decisions)}{how}")
    if words := recovery_hint(decisions):
        print(f"note:  {words}")
    print("\nbetter than the tutorial:")
    for row in rows(session.answers):
        print(f"  [{'x' if row['on'] else ' '}] {row['what']}: {row['why']}")


def _print_costs(
    session: Session, decisions: Sequence[Decision], bill: dict[str, object] | None, why: str
) -> None:
    """Where prices are from, what the whole may come to, and what bills whatever is done."""
    print("\nprices:")
    for id, source in price_sources(
        [d.resource for d in decisions], session.answers, session.price_book
    ).items():
        print(f"  {id}: {source}")
    if why:
        print(f"  note: {why}")
    known, _ = hourly_cost([d.resource for d in decisions if d.action != "delete"])
    low, high = estimated_range(decisions)
    print(
        f"  known prices come to {known * low / 3600:,.0f} to {known * high / 3600:,.0f} USD until the job ends"
    )
    limit = spending_limit(session.answers, None)
    budget, limits = BudgetGuard(session.deployment, session.resources(), limit), SpendingLimits(limit)
    for error in spending_errors(decisions, budget, limits):
        print(f"  note: {error['title']}. {error['fix']}")
    for text in spending_notices(decisions, budget, limits):
        print(f"  note: {text}")
    if limit is not None and known * high / 3600 > limit:
        print(
            f"  note: that may exceed project.max_usd ({limit:.2f} USD); nothing more is created once it is spent"
        )
    if bill:
        print(f"  {format_reservation_bill(bill)}")
