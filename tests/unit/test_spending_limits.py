"""Spending limits: what stops a plan, what a limit cannot promise, and which prices a deployment opens with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from sample_answers import answers

from grpo_wizard.state.home import Home
from grpo_wizard.state.model import Deployment, Mode
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.google.billing_catalog import CACHE_TTL_S, write_cache
from grpo_wizard.steps.core.model import ABSENT, ObservedState, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.plan import Action, Decision
from grpo_wizard.steps.engine.spending import spending_errors, spending_notices
from grpo_wizard.steps.pricing.book import BUILT_IN_PRICES, PriceBook
from grpo_wizard.steps.pricing.budget import BudgetGuard, SpendingLimits
from grpo_wizard.steps.pricing.refresh import load_price_book
from grpo_wizard.steps.registry import WORKFLOW, all_resources

SKUS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "fixtures" / "skus.json").read_text("utf-8"))
CATALOG = PriceBook.from_catalog(SKUS, "2026-11-30T00:00:00Z")
TOTAL, HOURLY = SpendingLimits(total_usd=100.0), SpendingLimits(usd_per_hour=1000.0)


def _budget(mode: Mode = "real", book: PriceBook = BUILT_IN_PRICES, spent: float = 0.0) -> BudgetGuard:
    deployment = Deployment(lineage="abcd", mode=mode, name="nemo-cluster", spent_usd=spent)
    return BudgetGuard(deployment, all_resources(answers(), book), 100.0)


def _decisions(action: Action, resources: list[Resource]) -> list[Decision]:
    state = ABSENT if action == "create" else ObservedState("ready")
    return [
        Decision(r, action, state, "none" if action in ("create", "adopt") else "created") for r in resources
    ]


def _titles(
    budget: BudgetGuard, limits: SpendingLimits, action: Action = "create", **options: Any
) -> list[str]:
    decisions = _decisions(action, list(budget.resources))
    return [error["title"] for error in spending_errors(decisions, budget, limits, **options)]


@pytest.mark.parametrize("limits", [TOTAL, HOURLY])
def test_a_limit_is_refused_while_a_billed_resource_has_no_price(limits: SpendingLimits) -> None:
    [title] = _titles(_budget(), limits)
    assert title == "The spending limit cannot be enforced because no price is known for node pool gpu-pool"
    assert _titles(_budget(book=CATALOG), limits) == []


def test_without_a_limit_an_unknown_price_stops_nothing() -> None:
    assert _titles(_budget(), SpendingLimits()) == []


def test_an_unenforceable_limit_stops_nothing_where_nothing_is_created_or_the_user_accepted_it() -> None:
    assert _titles(_budget(), TOTAL, "keep") == []
    assert _titles(_budget(), TOTAL, allow_unpriced=True) == []


def test_adopted_resources_need_no_price_because_no_limit_counts_them() -> None:
    budget = _budget()
    pool = next(r for r in budget.resources if r.kind == "node_pool")
    others = [r for r in budget.resources if r is not pool]
    decisions = [*_decisions("create", others), Decision(pool, "keep", ObservedState("ready"), "adopted")]
    assert spending_errors(decisions, budget, TOTAL) == []
    decisions[-1] = Decision(pool, "adopt", ObservedState("ready"), "none")
    assert spending_errors(decisions, budget, TOTAL) == []
    decisions[-1] = Decision(pool, "keep", ObservedState("ready"), "created")
    assert len(spending_errors(decisions, budget, TOTAL)) == 1


def test_a_rehearsal_says_that_the_limit_counts_known_prices_only_and_goes_ahead() -> None:
    budget = _budget("rehearsal")
    decisions = _decisions("create", list(budget.resources))
    assert spending_errors(decisions, budget, TOTAL) == []
    [notice] = spending_notices(decisions, budget, TOTAL)
    assert "only known prices" in notice and "node pool gpu-pool" in notice


def test_the_hourly_limit_compares_with_the_whole_plan_at_todays_prices() -> None:
    [title] = _titles(_budget(book=CATALOG), SpendingLimits(usd_per_hour=100.0))
    assert title == "The cost of 271.48 USD/h exceeds the limit of 100.00 USD/h"
    stale = _decisions("create", all_resources(answers()))  # planned before the catalog could be read
    assert len(spending_errors(stale, _budget(book=CATALOG), SpendingLimits(usd_per_hour=100.0))) == 1


def test_a_reached_limit_stops_what_would_change_something_and_nothing_else() -> None:
    [title] = _titles(_budget(book=CATALOG, spent=100.0), TOTAL)
    assert title == "Spending limit reached: 100.00 of 100.00 USD has been spent"
    assert _titles(_budget(book=CATALOG, spent=100.0), TOTAL, "keep") == []


# ---- the price book of a deployment -----------------------------------------------------------------------------


def _session(home: Path, mode: Mode) -> Session:
    store = StateStore(Home(home))
    deployment = store.create("nemo-cluster", mode, {})
    return Session(store, deployment, CloudContext(mode, None, "me"), answers(), WORKFLOW)


def _gpu_price(session: Session) -> float | None:
    return next(r for r in session.resources() if r.kind == "node_pool").usd_per_hour


def test_a_deployment_opens_with_the_prices_read_last_however_old_they_are(tmp_path: Path) -> None:
    write_cache(tmp_path, SKUS, 1000.0)  # in 1970
    session = _session(tmp_path, "real")
    assert _gpu_price(session) == pytest.approx(2 * 128.88)
    assert session.price_book.read_at == "1970-01-01T00:16:40Z"  # its sources say so


def test_a_rehearsal_never_opens_with_real_prices(tmp_path: Path) -> None:
    write_cache(tmp_path, SKUS, CACHE_TTL_S)
    assert _gpu_price(_session(tmp_path, "rehearsal")) is None


def test_the_price_file_is_parsed_once_for_each_version_of_it(tmp_path: Path) -> None:
    assert load_price_book(tmp_path, "real") is BUILT_IN_PRICES
    write_cache(tmp_path, SKUS, 1000.0)
    first = load_price_book(tmp_path, "real")
    assert first is load_price_book(tmp_path, "real") and first.skus
    write_cache(tmp_path, SKUS[:1], 2000.0)
    os.utime(tmp_path / "prices.json", ns=(1, 1))
    assert len(load_price_book(tmp_path, "real").skus) == 1
    (tmp_path / "prices.json").write_text("{")
    assert load_price_book(tmp_path, "real") is BUILT_IN_PRICES
