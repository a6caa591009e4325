"""Price and time as the commands tell them: plan, status, apply's limits, and what bills after a teardown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cli_harness import DESTROY, JSON, CliHarness, DeploymentRecord, cli_harness


@pytest.fixture(scope="module")
def walk(deployed: DeploymentRecord, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliHarness]:
    """The tutorial's deployment up to the RayCluster, on a server of its own."""
    with cli_harness(deployed.copy(tmp_path_factory.mktemp("prices") / "home")) as found:
        yield found


RESERVED = {
    "name": "nemo-res",
    "project": "my-project",
    "machines": 4,
    "machine_type": "a4-highgpu-8g",
    "ends": None,
    "usd_per_hour": None,
}


def test_the_plan_names_prices_with_their_sources_unknown_parts_a_range_of_time_and_the_reservation(
    deployed: DeploymentRecord,
) -> None:
    plan = deployed.plan
    assert plan["usd_per_hour"]["unknown"] == ["cluster.node_pool.gpu-pool"]
    assert "2026-10" in plan["price_sources"]["cluster.cluster.nemo-cluster"]
    assert plan["price_sources"]["cluster.node_pool.gpu-pool"] == "no source lists a price"
    low, high = plan["expected_seconds_range"]
    assert 9550 < low < high == plan["expected_seconds"]
    assert plan["reservation"] == RESERVED | {"machines": None}  # no API is on yet, so nobody can be asked


def test_status_tells_what_is_spent_since_when_and_that_the_reservation_bills(walk: CliHarness) -> None:
    status = walk.json("status")
    made: JSON = walk.state()["resources"]["cluster.cluster.nemo-cluster"]
    assert status["spent_usd"]["since"] == made["done_at"] and status["spent_usd"]["known"] >= 0
    assert status["reservation"] == RESERVED


def test_at_the_limit_the_job_is_not_submitted_and_the_plan_warns(walk: CliHarness) -> None:
    before = len(walk.server.recorded_requests())
    ended = walk.events("apply", "--yes", "--json", "--max-usd", "0.0000001", code=1)[-1]
    assert [failure["id"] for failure in ended["failed"]] == ["price"]
    assert "Spending limit reached" in ended["failed"][0]["title"] and ended["created"] == 0
    assert "No more resources will be created" in ended["failed"][0]["detail"]
    assert walk.mutating_requests(before) == []
    assert walk.run("init", "--set", "project.max_usd=0.0000001").returncode == 0
    text = " ".join(walk.run("plan").stdout.split())
    assert (
        "once that much has been spent" in text
        and "Estimated total until the job ends" in text
        and "built-in price list" in text
    )


def test_a_teardown_says_what_goes_on_billing_and_state_keeps_what_was_spent(walk: CliHarness) -> None:
    events = walk.events(*DESTROY)
    notices = [event["detail"] for event in events if event["event"] == "notice"]
    assert any(
        "reservation nemo-res (4 x a4-highgpu-8g)" in text and "no end time" in text for text in notices
    )
    assert events[-1]["ok"] and walk.state()["spent_usd"] > 0
    after = " ".join(
        walk.run("status").stdout.split()
    )  # its own limit is reached, and the reservation bills on
    assert (
        "USD limit has been spent" in after and "4 x a4-highgpu-8g" in after and "even after destroy" in after
    )
