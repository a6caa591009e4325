"""From when to when a resource is billed, and what the spending limit allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from decision_samples import a_deployment, a_resource, observed

from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.steps.core.model import ABSENT, ObservedState, Resource
from grpo_wizard.steps.engine.plan import Decision
from grpo_wizard.steps.engine.spending import creates_free_resources, spending_errors, spending_notices
from grpo_wizard.steps.pricing.budget import (
    BudgetGuard,
    SpendingLimits,
    cost_to_date,
    parse_time,
    record_final_cost,
    record_release,
)

NOON, NOW = "2026-11-30T12:00:00Z", parse_time("2026-11-30T16:00:00Z")  # four hours later
POOL = a_resource("node_pool", "gpu", "cluster", usd_per_hour=100.0)
CLUSTER = a_resource("cluster", "nemo", "cluster", usd_per_hour=2.0)
RAY = a_resource("raycluster", "nemo", "raycluster")


def _record(
    resource: Resource, origin: str = "created", done_at: str = NOON, intended_at: str = NOON, **facts: str
) -> ResourceRecord:
    return ResourceRecord(
        kind=resource.kind,
        name=resource.name,
        step=resource.step,
        origin=origin,
        done_at=done_at,
        intended_at=intended_at,
        facts=facts,
    )  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """The defaults are a cluster of 2 USD an hour, four hours after its creation."""

    rule: str
    usd: float
    resource: Resource = CLUSTER
    record: ResourceRecord | None = None
    ray: ResourceRecord | None = None
    since: str = NOON
    unpriced: tuple[str, ...] = ()


CASES = [
    Case("created: billed from its creation on", 8.0, record=_record(CLUSTER)),
    Case("adopted: another's bill", 0.0, record=_record(CLUSTER, "adopted"), since=""),
    Case("begun and not finished: not counted", 0.0, record=_record(CLUSTER, "intended"), since=""),
    Case("not on record: not counted", 0.0, since=""),
    Case("on record without a time: not counted", 0.0, record=_record(CLUSTER, done_at=""), since=""),
    Case("free: does not begin the bill", 0.0, a_resource("network"), _record(a_resource("network")), since=""),
    Case("no known price: named", 0.0, a_resource("lustre", usd_per_hour=None), _record(a_resource("lustre")), unpriced=("networks.lustre.nemo",)),
    Case("a clock that was set back costs nothing", 0.0, record=_record(CLUSTER, done_at="2026-11-30T18:00:00Z"), since="2026-11-30T18:00:00Z"),
    Case("a GPU pool without a RayCluster has no nodes", 0.0, POOL, _record(POOL), since=""),
    Case("a GPU pool is billed from when the RayCluster asked for nodes", 300.0, POOL, _record(POOL), _record(RAY, intended_at="2026-11-30T13:00:00Z"), "2026-11-30T13:00:00Z"),
    Case("a GPU pool is billed until the workers were released", 100.0, POOL, _record(POOL), _record(RAY, released="2026-11-30T13:00:00Z after 1 h"), NOON),
    Case("a release in the future does not lengthen the bill", 400.0, POOL, _record(POOL), _record(RAY, released="2026-11-30T20:00:00Z planned"), NOON),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_what_a_resource_has_cost(case: Case) -> None:
    records = {str(number): record for number, record in enumerate((case.record, case.ray)) if record}
    spent = cost_to_date(a_deployment(**records), [case.resource], NOW)
    assert (spent.known_usd, spent.since, spent.unpriced) == (
        pytest.approx(case.usd),
        case.since,
        case.unpriced,
    )


def test_what_is_gone_and_what_exists_are_added_and_the_bill_begins_with_the_first() -> None:
    deployment = a_deployment(
        one=_record(CLUSTER, done_at="2026-11-30T14:00:00Z"), two=_record(POOL), ray=_record(RAY)
    )
    deployment.spent_usd = 7.004
    spent = cost_to_date(deployment, [CLUSTER, POOL], NOW)
    assert (spent.known_usd, spent.since) == (pytest.approx(7.004 + 4 + 400), NOON)
    assert spent.to_json() == {"known": 411.0, "since": NOON}
    assert cost_to_date(a_deployment(), [CLUSTER], NOW).to_json() == {"known": 0.0, "since": None}


@pytest.mark.parametrize("id,usd", [(CLUSTER.id, 8.0), (RAY.id, 400.0), (POOL.id, 400.0), ("unknown", 0.0)])
def test_a_record_that_is_dropped_leaves_its_cost(id: str, usd: float) -> None:
    deployment = a_deployment(one=_record(CLUSTER), two=_record(POOL), ray=_record(RAY))
    record_final_cost(deployment, [CLUSTER, POOL, RAY], id, NOW)
    assert deployment.spent_usd == pytest.approx(usd)


@pytest.mark.parametrize(
    "seen,released",
    [
        (
            ObservedState("ready", outputs={"released": "2026-11-30T13:00:00Z done"}),
            "2026-11-30T13:00:00Z done",
        ),
        (ObservedState("ready"), ""),
        (ABSENT, "before"),
        (None, "before"),
    ],
    ids=["released", "workers asked for again", "RayCluster gone", "not observed"],
)
def test_the_release_of_the_workers_is_recorded_as_observed(
    seen: ObservedState | None, released: str
) -> None:
    deployment = a_deployment(ray=_record(RAY, released="before"), cluster=_record(CLUSTER))
    record_release(deployment, {CLUSTER.id: observed()} | ({RAY.id: seen} if seen else {}))
    assert deployment.resources[RAY.id].facts["released"] == released
    assert "released" not in deployment.resources[CLUSTER.id].facts


def _guard(spent: float, limit: float | None) -> BudgetGuard:
    deployment: Deployment = a_deployment()
    deployment.spent_usd = spent
    return BudgetGuard(deployment, [], limit)


@pytest.mark.parametrize(
    "spent,limit,warns,stops",
    [
        (79.99, 100.0, False, False),
        (80.0, 100.0, True, False),
        (99.99, 100.0, True, False),
        (100.0, 100.0, True, True),
        (250.0, 100.0, True, True),
        (250.0, None, False, False),
        (0.0, 0.0, True, True),
    ],
)
def test_the_limit_warns_from_80_percent_on_and_stops_at_100(
    spent: float, limit: float | None, warns: bool, stops: bool
) -> None:
    guard = _guard(spent, limit)
    assert (bool(guard.warning()), guard.limit_error() is not None) == (warns, stops)
    if warns:
        assert f"{spent:.2f}" in guard.warning() and f"{limit:.2f}" in guard.warning()


def test_what_stops_at_the_limit_names_both_sums_and_the_way_out() -> None:
    stop = _guard(120.5, 100.0).limit_error()
    assert stop and stop["id"] == "price" and "120.50" in stop["title"] and "100.00" in stop["title"]
    assert "--max-usd" in stop["fix"] and "project.max_usd" in stop["fix"] and stop["detail"]


def test_what_runs_counts_against_the_limit_at_this_moment() -> None:
    deployment = a_deployment(one=_record(CLUSTER, done_at="2020-01-01T00:00:00Z"))
    guard = BudgetGuard(deployment, [CLUSTER], 1000.0)
    assert guard.spent_usd() > 50_000 and guard.limit_error()


UNPRICED = a_resource("lustre", usd_per_hour=None)
NO_LIMIT, TOTAL, HOURLY = SpendingLimits(), SpendingLimits(total_usd=100.0), SpendingLimits(usd_per_hour=10.0)


@pytest.mark.parametrize(
    "spent,limits,mode,accepted,names",
    [
        (0.0, NO_LIMIT, "rehearsal", True, []),
        (0.0, TOTAL, "rehearsal", False, ["lustre nemo"]),
        (0.0, HOURLY, "rehearsal", False, ["lustre nemo"]),
        (0.0, TOTAL, "real", True, ["lustre nemo"]),
        (0.0, TOTAL, "real", False, []),
        (85.0, TOTAL, "real", False, ["85.00"]),
        (85.0, TOTAL, "rehearsal", False, ["85.00", "lustre nemo"]),
    ],
    ids=["no limit", "rehearsal", "hourly", "accepted", "an error, and no notice", "warning", "both"],
)
def test_what_a_user_is_told_about_a_limit_that_does_not_stop_the_plan(
    spent: float, limits: SpendingLimits, mode: Any, accepted: bool, names: list[str]
) -> None:
    deployment = a_deployment()
    deployment.spent_usd, deployment.mode = spent, mode
    budget = BudgetGuard(deployment, [UNPRICED], limits.total_usd)
    decisions = [Decision(UNPRICED, "create", ABSENT, "none")]
    notices = spending_notices(decisions, budget, limits, allow_unpriced=accepted)
    assert len(notices) == len(names)
    assert [name for name, text in zip(names, notices, strict=True) if name not in text] == []


def test_a_plan_without_an_unknown_price_needs_no_notice() -> None:
    budget = BudgetGuard(a_deployment(), [CLUSTER], 100.0)
    assert (
        spending_notices([Decision(CLUSTER, "create", ABSENT, "none")], budget, TOTAL, allow_unpriced=True)
        == []
    )


def test_an_unknown_price_is_accepted_only_when_the_user_says_so() -> None:
    deployment = a_deployment()
    deployment.mode = "real"
    budget, decisions = (
        BudgetGuard(deployment, [UNPRICED], 100.0),
        [Decision(UNPRICED, "create", ABSENT, "none")],
    )
    assert spending_notices(decisions, budget, TOTAL) == []
    [error] = spending_errors(decisions, budget, TOTAL)
    assert error["id"] == "price" and "lustre nemo" in error["title"] and error["detail"] and error["fix"]
    assert error.keys() == {"id", "title", "detail", "fix"}
    assert spending_errors(decisions, budget, TOTAL, allow_unpriced=True) == []


def test_an_hourly_limit_that_is_exceeded_is_an_error_of_the_same_form() -> None:
    budget = BudgetGuard(a_deployment(), [], None)
    [error] = spending_errors([Decision(POOL, "create", ABSENT, "none")], budget, HOURLY)
    assert error == error | {"id": "price", "detail": ""} and error.keys() == {"id", "title", "detail", "fix"}


def test_prices_of_today_go_before_those_that_the_plan_was_made_with() -> None:
    budget = BudgetGuard(a_deployment(), [a_resource("node_pool", "gpu", "cluster", usd_per_hour=5.0)], None)
    assert spending_errors([Decision(POOL, "create", ABSENT, "none")], budget, HOURLY) == []


@pytest.mark.parametrize(
    "kind,action,free",
    [
        ("api", "create", True),
        ("project", "create", True),
        ("api", "keep", False),
        ("cluster", "create", False),
    ],
)
def test_the_price_catalog_is_read_again_once_an_api_is_enabled(kind: str, action: Any, free: bool) -> None:
    assert creates_free_resources([Decision(a_resource(kind), action, ABSENT, "none")]) == free


def test_a_resource_that_is_not_billed_hides_none_behind_it() -> None:
    deployment = a_deployment(one=_record(CLUSTER))
    spent = cost_to_date(deployment, [a_resource("network"), POOL, CLUSTER], NOW)
    assert spent.known_usd == pytest.approx(8.0)
    pool_first = cost_to_date(a_deployment(pool=_record(POOL), one=_record(CLUSTER)), [POOL, CLUSTER], NOW)
    assert pool_first.known_usd == pytest.approx(8.0), "a pool without nodes comes first"


def test_the_cost_that_is_recorded_is_exact_to_a_hundredth_of_a_cent() -> None:
    tiny = a_resource("cluster", "nemo", "cluster", usd_per_hour=0.0000125)
    deployment = a_deployment(one=_record(tiny))
    record_final_cost(deployment, [tiny], tiny.id, NOW + 3600)
    assert deployment.spent_usd == 0.0001
