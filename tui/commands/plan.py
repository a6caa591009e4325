"""`plan`: shows what apply would do, what it costs and how long it takes. Changes nothing."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from grpo_wizard.steps.core.text import end_with_period
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
from grpo_wizard.tui.commands._output import print_json, print_wrapped
from grpo_wizard.tui.commands._session import open_session
from grpo_wizard.tui.viewmodels.labels import format_hourly_price, format_plan_counts


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
    """Return the plan at today's prices, the reservation's bill, and why prices may be older."""
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
        _print_decision(d)
    print(f"\nPlan:  {format_plan_counts([_resource_row(d) for d in decisions])}")
    known, unknown = hourly_cost([d.resource for d in decisions if d.action != "delete"])
    names = f" ({', '.join(unknown)})" if unknown else ""
    print_wrapped(f"Price: {format_hourly_price(known, len(unknown))}{names}", hanging=7)
    basis = " in Google Cloud, along the longest dependency chain" if estimated_seconds(decisions) else ""
    print_wrapped(f"Time:  {format_estimate(decisions)}{basis}", hanging=7)
    if hint := recovery_hint(decisions):
        print_wrapped(f"Note:  {end_with_period(hint)}", hanging=7)
    print("\nDifferences from the tutorial:")
    for row in rows(session.answers):
        print_wrapped(f"  [{'x' if row['on'] else ' '}] {row['what']}: {row['why']}", hanging=6)


def _print_decision(decision: Decision) -> None:
    price = decision.resource.usd_per_hour
    cost = "  price unknown" if price is None else f"  {price:.2f} USD/h" if price else ""
    note = f"  {decision.note}" if decision.note else ""
    print_wrapped(f"{decision.action:9}{decision.resource.id}{cost}{note}", hanging=9)


def _print_costs(
    session: Session, decisions: Sequence[Decision], bill: dict[str, object] | None, why: str
) -> None:
    """Print the sources of the prices, the expected total, and what is billed in any case."""
    print("\nPrices:")
    for id, source in price_sources(
        [d.resource for d in decisions], session.answers, session.price_book
    ).items():
        print_wrapped(f"  {id}: {source}", hanging=4)
    known, _ = hourly_cost([d.resource for d in decisions if d.action != "delete"])
    low, high = estimated_range(decisions)
    print_wrapped(
        f"Estimated total until the job ends, at known prices: {known * low / 3600:,.0f} to {known * high / 3600:,.0f} USD"
    )
    limit = spending_limit(session.answers, None)
    budget, limits = BudgetGuard(session.deployment, session.resources(), limit), SpendingLimits(limit)
    errors = spending_errors(decisions, budget, limits)
    notes = [why, *(f"{error['title']}. {error['fix']}" for error in errors)]
    notes += spending_notices(decisions, budget, limits)
    if limit is not None and known * high / 3600 > limit:
        notes.append(
            f"This may exceed project.max_usd ({limit:.2f} USD). Nothing more will be created once that much has been spent"
        )
    notes.append(format_reservation_bill(bill) if bill else "")
    for note in filter(None, notes):
        print_wrapped(f"Note: {end_with_period(note)}", hanging=6)
