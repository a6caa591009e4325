"""Prices: read from SKUs as the Cloud Billing Catalog shapes them, else from the assets with source and date, never guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_answers import answers

from grpo_wizard.state.model import Deployment, JobRecord, ResourceRecord
from grpo_wizard.steps.clients.google.billing_catalog import CACHE_TTL_S, read_cache, write_cache
from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.model import ABSENT, ObservedState, Resource
from grpo_wizard.steps.engine.estimate import (
    estimated_phases,
    estimated_range,
    estimated_seconds,
    format_estimate,
)
from grpo_wizard.steps.engine.plan import Decision, make_plan
from grpo_wizard.steps.grpo.duration import TrainingEstimate, estimate_training
from grpo_wizard.steps.pricing.book import (
    PriceBook,
    hourly_cost,
    parse_sku,
    price_sources,
    sku_pattern,
    with_prices,
)
from grpo_wizard.steps.pricing.budget import (
    BudgetGuard,
    cost_to_date,
    parse_time,
    record_final_cost,
    record_release,
    spending_limit,
)
from grpo_wizard.steps.registry import all_resources

SKUS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "fixtures" / "skus.json").read_text("utf-8"))
READ = "2026-11-30T00:00:00Z"
TODAY = PriceBook.from_catalog(SKUS, READ)
LUSTRE = 18000 * 0.34 / 730  # USD an hour in us-central1, at the tutorial's size and tier
ELSEWHERE = {"project__region": "europe-west1", "project__zone": "europe-west1-b"}
H200 = {"quotas__gpu_type": "nvidia-h200-141gb", "quotas__machine_type": "a3-ultragpu-8g"}


def test_a_machine_is_the_sum_of_its_parts() -> None:
    n2 = TODAY.machine_price("n2-highmem-80", "us-central1")
    assert (
        n2.usd == pytest.approx(80 * 0.031611 + 640 * 0.004237, abs=1e-4)
        and "retrieved 2026-11-30" in n2.source
    )
    b200 = TODAY.machine_price("a4-highgpu-8g", "us-central1", "reservation")
    assert (b200.usd, b200.date) == (8 * 16.11, "2026-10-01")


def test_spot_is_known_by_its_name_though_its_usage_type_says_on_demand() -> None:
    assert TODAY.machine_price("a4-highgpu-8g", "us-central1", "spot").usd == pytest.approx(8 * 4.9542)


def test_a_part_without_exactly_one_price_in_the_region_leaves_the_machine_to_the_assets() -> None:
    listed = PriceBook().machine_price("a3-ultragpu-8g", "us-central1")
    assert TODAY.machine_price("a3-ultragpu-8g", "us-central1") == listed  # its Ram is missing in the fixture
    assert (listed.usd, listed.date) == (83.49, "2026-10-13")
    assert TODAY.machine_price("n2-highmem-80", "europe-west1").usd is None  # two prices there: never guessed


def test_what_nobody_prices_is_unknown_and_named() -> None:
    known, unknown = hourly_cost(all_resources(answers()))
    assert known == pytest.approx(5.34 + LUSTRE, abs=0.01) and unknown == ["cluster.node_pool.gpu-pool"]
    known, unknown = hourly_cost(all_resources(answers(), TODAY))
    assert known == pytest.approx(2 * 128.88 + 5.24056 + 0.1 + LUSTRE, abs=0.01) and unknown == []


def test_lustre_is_priced_by_its_tier_and_capacity_where_a_source_names_the_region() -> None:
    def price(**changed: Any) -> float | None:
        return next(r for r in all_resources(answers(**changed)) if r.kind == "lustre").usd_per_hour

    assert price() == pytest.approx(LUSTRE, abs=1e-4)
    assert price(lustre__per_unit_storage_throughput=1000) == pytest.approx(18000 * 0.60 / 730, abs=1e-4)
    assert price(lustre__capacity_gib=36000) == pytest.approx(2 * LUSTRE, abs=1e-3)
    assert price(**ELSEWHERE) is None


@pytest.mark.parametrize(
    "capacity,usd", [("reservation", 166.98), ("on_demand", 166.98), ("spot", 100.16), ("flex_start", None)]
)
def test_each_way_to_capacity_has_its_own_price(capacity: str, usd: float | None) -> None:
    pool = next(r for r in all_resources(answers(quotas__capacity=capacity, **H200)) if r.kind == "node_pool")
    assert pool.usd_per_hour == (None if usd is None else pytest.approx(usd))


def test_every_price_in_the_assets_says_where_and_when_from() -> None:
    known = catalog.load("prices")
    rows = [*known["on_demand"].values(), *known["spot"].values(), known["gke_cluster"]]
    assert all(row["source"] and row["date"].startswith("20") for row in rows)
    told = price_sources(all_resources(answers(**H200)), answers(**H200), PriceBook())
    assert "2026-10-13" in told["cluster.node_pool.gpu-pool"]
    assert "2026-06-05" in told["lustre.lustre.nemo-lustre"]
    elsewhere = price_sources(all_resources(answers(**ELSEWHERE)), answers(**ELSEWHERE), PriceBook())
    assert elsewhere["lustre.lustre.nemo-lustre"] == "no source lists a price"
    assert "GKE pricing page" in told["cluster.cluster.nemo-cluster"]


@pytest.mark.parametrize(
    "change",
    [
        {"usageUnit": "mo"},
        {"tieredRates": []},
        {"tieredRates": [{"unitPrice": {"currencyCode": "EUR", "units": "1"}}]},
        {
            "tieredRates": [
                {"startUsageAmount": 0, "unitPrice": {"units": "2"}},
                {"startUsageAmount": 9, "unitPrice": {"units": "1"}},
            ]
        },
    ],
)
def test_a_sku_that_is_not_one_price_an_hour_in_usd_is_left_out(change: dict[str, Any]) -> None:
    row = json.loads(json.dumps(SKUS[0]))
    assert parse_sku(row) is not None
    row["pricingInfo"][0]["pricingExpression"] |= change
    assert parse_sku(row) is None


def test_a_free_first_tier_is_no_second_price_and_a_sku_without_prices_is_left_out() -> None:
    row = json.loads(json.dumps(SKUS[0]))
    row["pricingInfo"][0]["pricingExpression"]["tieredRates"].insert(
        0, {"unitPrice": {"units": "0", "nanos": 0}}
    )
    seen = parse_sku(row)
    assert seen is not None and seen.usd == pytest.approx(0.031611)
    assert parse_sku({"description": "x"}) is None


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.integers(0, 500), st.integers(0, 999_999_999))
def test_units_and_nanos_are_one_number(units: int, nanos: int) -> None:
    row = json.loads(json.dumps(SKUS[0]))
    rate = {"unitPrice": {"currencyCode": "USD", "units": str(units), "nanos": nanos}}
    row["pricingInfo"][0]["pricingExpression"]["tieredRates"] = [rate]
    seen = parse_sku(row)
    whole = units + nanos / 1e9
    assert (seen is None) == (whole == 0) and (seen is None or seen.usd == pytest.approx(whole))


def test_only_descriptions_of_our_machines_are_wanted() -> None:
    pattern = sku_pattern()
    assert pattern.fullmatch("N2 Instance Core running in Americas")
    assert not pattern.fullmatch("N2D AMD Instance Core running in Americas")
    assert not pattern.fullmatch("Commitment v1: A4 Nvidia B200 (1 gpu slice) in Americas for 1 Year")


def test_prices_are_kept_for_a_day_and_a_broken_file_counts_as_none(tmp_path: Path) -> None:
    write_cache(tmp_path, SKUS, 1000.0)
    seen = read_cache(tmp_path, 1000.0 + CACHE_TTL_S - 1)
    assert seen is not None and seen["skus"] == SKUS
    assert read_cache(tmp_path, 1000.0 + CACHE_TTL_S) is None and read_cache(tmp_path, 0.0) is None
    (tmp_path / "prices.json").write_text("{")
    assert read_cache(tmp_path, 1000.0) is None


# ---- spending -------------------------------------------------------------------------------------------------


def _deployment(**done: str) -> tuple[Deployment, list[Resource]]:
    """The H200 tutorial with some things made, each at its time."""
    resources = all_resources(answers(**H200))
    made = Deployment(lineage="abcd", mode="real", name="nemo-cluster")
    for kind, when in done.items():
        it = next(r for r in resources if r.kind == kind)
        made.resources[it.id] = ResourceRecord(
            kind=kind, name=it.name, step=it.step, origin="created", intended_at=when, done_at=when
        )
    return made, resources


NOW = parse_time("2026-11-30T12:00:00Z")


def test_spending_counts_from_when_each_thing_stood_and_gpu_nodes_from_when_workers_asked_for_them() -> None:
    made, resources = _deployment(cluster="2026-11-30T08:00:00Z", node_pool="2026-11-30T08:30:00Z")
    assert cost_to_date(made, resources, NOW).known_usd == pytest.approx(
        4 * 5.34
    )  # a pool of no machines costs nothing
    made, resources = _deployment(
        cluster="2026-11-30T08:00:00Z", node_pool="2026-11-30T08:30:00Z", raycluster="2026-11-30T10:00:00Z"
    )
    seen = cost_to_date(made, resources, NOW)
    assert seen.known_usd == pytest.approx(4 * 5.34 + 2 * 166.98)
    assert seen.to_json() == {"known": round(seen.known_usd, 2), "since": "2026-11-30T08:00:00Z"}


def test_released_gpu_nodes_cost_nothing_any_more() -> None:
    made, resources = _deployment(node_pool="2026-11-30T08:30:00Z", raycluster="2026-11-30T10:00:00Z")
    id = next(r.id for r in resources if r.kind == "raycluster")
    record_release(
        made, {id: ObservedState("ready", outputs={"released": "2026-11-30T11:00:00Z job SUCCEEDED"})}
    )
    assert cost_to_date(made, resources, NOW).known_usd == pytest.approx(166.98)
    record_release(made, {id: ObservedState("ready")})  # asked for again
    assert cost_to_date(made, resources, NOW).known_usd == pytest.approx(2 * 166.98)


def test_what_is_gone_stays_in_the_sum_once() -> None:
    made, resources = _deployment(
        cluster="2026-11-30T08:00:00Z", node_pool="2026-11-30T08:30:00Z", raycluster="2026-11-30T10:00:00Z"
    )
    before = cost_to_date(made, resources, NOW).known_usd
    for kind in ("raycluster", "node_pool", "cluster"):  # the order of a teardown
        id = next(r.id for r in resources if r.kind == kind)
        record_final_cost(made, resources, id, NOW)
        made.resources.pop(id)
        assert cost_to_date(made, resources, NOW).known_usd == pytest.approx(before, abs=0.01), kind
    assert cost_to_date(made, resources, NOW + 9e4).known_usd == pytest.approx(before, abs=0.01)


def test_adopted_things_are_somebody_elses_bill_and_unpriced_ones_are_named() -> None:
    made, resources = _deployment(cluster="2026-11-30T08:00:00Z", lustre="2026-11-30T08:00:00Z")
    for record in made.resources.values():
        record.origin = "adopted"
    assert cost_to_date(made, resources, NOW).known_usd == 0
    made, _ = _deployment(lustre="2026-11-30T08:00:00Z")
    unpriced = all_resources(answers(**ELSEWHERE, **H200))
    assert cost_to_date(made, unpriced, NOW).unpriced == ("lustre.lustre.nemo-lustre",)


@pytest.mark.parametrize(
    "share,warned,refused", [(0.79, False, False), (0.8, True, False), (0.99, True, False), (1.0, True, True)]
)
def test_a_limit_warns_at_80_percent_and_stops_at_100(share: float, warned: bool, refused: bool) -> None:
    made, resources = _deployment()
    made.spent_usd = 100 * share
    meter = BudgetGuard(made, resources, 100.0)
    assert (bool(meter.warning()), meter.limit_error() is not None) == (warned, refused)
    assert (
        BudgetGuard(made, resources, None).limit_error() is None
        and not BudgetGuard(made, resources, None).warning()
    )


def test_the_command_lines_limit_goes_before_the_answer_and_0_is_none() -> None:
    assert spending_limit(answers(project__max_usd=50), None) == 50
    assert spending_limit(answers(project__max_usd=50), 7.5) == 7.5
    assert spending_limit(answers(), None) is None


def test_the_range_of_time_is_the_same_chain_at_both_ends() -> None:
    decisions = [Decision(r, "create", ABSENT, "none") for r in all_resources(answers())]
    low, high = estimated_range(decisions)
    assert 0 < low < high == estimated_seconds(decisions)
    ready = [Decision(r, "keep", ObservedState("ready"), "created") for r in all_resources(answers())]
    assert estimated_range(ready) == (0.0, 0.0)


def test_the_time_is_said_in_two_parts_and_without_a_training_that_is_not_to_come() -> None:
    decisions = [Decision(r, "create", ABSENT, "none") for r in all_resources(answers())]
    making, training = estimated_phases(decisions)
    assert training == (300 + 9250, 300 + 10760)
    low, high = estimated_range(decisions)
    assert (making[0] + training[0], making[1] + training[1]) == pytest.approx((low, high))
    assert format_estimate(decisions).endswith("m, then 2 h 39 m–3 h 04 m of training")
    kept = [
        Decision(r, "keep" if r.kind == "job" else "create", ABSENT, "none") for r in all_resources(answers())
    ]
    assert "training" not in format_estimate(kept)
    assert format_estimate([Decision(d.resource, "keep", ABSENT, "none") for d in kept]) == "nothing to do"
    assert format_estimate([Decision(kept[0].resource, "change", ABSENT, "none")]) == "moments"


def test_a_job_that_goes_on_is_expected_to_take_the_steps_that_are_left() -> None:
    resources = all_resources(answers())
    job = next(r for r in resources if r.kind == "job")
    deployment = _deployment()[0]
    lineage = deployment.lineage

    def training(resume_step: int | None) -> tuple[float, float]:
        seen = {r.id: ObservedState("ready", lineage) for r in resources} | {
            job.id: ObservedState("failed", lineage, resume_step=resume_step)
        }
        return estimated_phases(make_plan(resources, [], seen, deployment))[1]

    assert training(7) == (300 + 3 * 925, 300 + 3 * 1076)
    assert training(None) == (9550, 11060)
    assert training(10) == (300, 300)


def test_the_limit_of_hours_bounds_what_is_left_and_not_what_is_done() -> None:
    usual = estimate_training(answers(grpo__max_num_steps=1000))
    assert isinstance(usual, TrainingEstimate) and usual.high == 24 * 3600
    assert usual.remaining_after(500).high == 24 * 3600 and usual.remaining_after(990).high == 300 + 10760


def test_a_job_record_does_not_disturb_the_sum() -> None:
    made, resources = _deployment(cluster="2026-11-30T08:00:00Z")
    made.job = JobRecord(submission_id="x", parameters_hash="y")
    assert cost_to_date(made, with_prices(resources, answers(**H200)), NOW).known_usd == pytest.approx(
        4 * 5.34
    )
