"""What Google refuses for good: said in one line with the one fix, never tried again by itself, and resumable."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cli_harness import JSON, cli_harness, fault

BODIES = Path(__file__).parent / "bodies"
GKE = "container.googleapis.com"
CLUSTERS = "/v1/projects/my-project/locations/us-central1/clusters"
POOLS = f"{CLUSTERS}/nemo-cluster/nodePools"
CLUSTER, POOL = "cluster.cluster.nemo-cluster", "cluster.node_pool.gpu-pool"
UNTIL = ("apply", "--yes", "--until", "cluster", "--json")


def body(name: str) -> Any:
    return json.loads((BODIES / f"{name}.json").read_text())


@dataclass
class Try:
    """One apply: its events, and how often the create in question was sent."""

    events: list[JSON]
    sent: int
    plan_before: dict[str, JSON] = field(default_factory=dict)

    @property
    def failed(self) -> dict[str, JSON]:
        return {entry["id"]: entry for entry in self.events[-1]["failed"]}


@pytest.fixture(scope="module")
def tries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Try]:
    """One deployment that meets one refusal after the other, and gets there."""
    faults = [
        fault(GKE, "POST", CLUSTERS, 1, status=403, body=body("quota_two_items")),
        fault(GKE, "POST", CLUSTERS, 2, operation_error=body("org_policy_condition_not_met")),
        fault(GKE, "POST", POOLS, 1, status=429, body=body("429_reservation_short")),
        fault(GKE, "POST", POOLS, 2, operation_error=body("op_done_stockout")),
    ]
    found = {}
    with cli_harness(tmp_path_factory.mktemp("refusals") / "home", faults) as walk:
        walk.init()
        for name, words, path, code in (
            ("quota", UNTIL, CLUSTERS, 1),
            ("policy", UNTIL, CLUSTERS, 1),
            ("guarded", UNTIL, CLUSTERS, 1),
            ("reservation", (*UNTIL, "--replace", CLUSTER), POOLS, 1),
            ("stockout", UNTIL, POOLS, 1),
            ("at last", UNTIL, POOLS, 0),
        ):
            before = len(walk.mutating_requests())
            events = walk.events(*words, code=code)
            sent = sum(
                row["path"] == path and row["method"] == "POST" for row in walk.mutating_requests()[before:]
            )
            found[name] = Try(events, sent, {row["id"]: row for row in events[0]["resources"]})
        found["status"] = Try(walk.json("status")["resources"], 0)
    return found


def test_a_short_quota_names_both_items_the_region_and_the_page_and_is_no_missing_permission(
    tries: dict[str, Try],
) -> None:
    seen = tries["quota"]
    entry = seen.failed[CLUSTER]
    for words in (
        "Quota exceeded",
        "CPUS: 72 needed, 48 short, limit 24",
        "IN_USE_ADDRESSES: 9 needed, 1 short, limit 8",
        "us-central1",
    ):
        assert words in entry["title"]
    assert "https://console.cloud.google.com/iam-admin/quotas?usage=USED&project=demo-proj-1" in entry["fix"]
    assert "permission" not in entry["title"] and seen.sent == 1
    assert not [line for line in seen.events if line["event"] == "retry"]


def test_a_policy_is_named_and_not_taken_for_a_stockout(tries: dict[str, Try]) -> None:
    seen = tries["policy"]
    entry = seen.failed[CLUSTER]
    assert "constraints/compute.requireShieldedVm" in entry["title"] and "administrator" in entry["fix"]
    assert "machines" not in entry["title"] and seen.sent == 1


def test_a_cluster_in_error_is_made_anew_only_when_told(tries: dict[str, Try]) -> None:
    seen = tries["guarded"]
    assert seen.plan_before[CLUSTER]["action"] == "conflict" and seen.sent == 0
    assert f"--replace {CLUSTER}" in seen.failed[CLUSTER]["detail"]
    assert tries["reservation"].plan_before[CLUSTER]["action"] == "replace"
    assert CLUSTER not in tries["reservation"].failed


def test_a_reservation_that_is_too_small_is_no_rate_limit(tries: dict[str, Try]) -> None:
    seen = tries["reservation"]
    entry = seen.failed[POOL]
    for words in ("gpu-res", "us-central1-c", "short of 1"):
        assert words in entry["title"]
    assert "gpu_nodes" in entry["fix"] and "reservation" in entry["fix"] and seen.sent == 1


def test_an_operation_that_is_done_with_an_error_has_failed_and_what_it_left_is_cleared_first(
    tries: dict[str, Try],
) -> None:
    seen = tries["stockout"]
    title = seen.failed[POOL]["title"]
    assert "0 of 2 machines" in title and "Zone us-central1-c" in title and seen.sent == 1
    assert tries["at last"].plan_before[POOL]["action"] == "replace"


def test_after_all_that_the_same_command_gets_there(tries: dict[str, Try]) -> None:
    assert tries["at last"].events[-1]["ok"]
    rows = {row["id"]: row for row in tries["status"].events}
    assert {rows[id]["state"] for id in (CLUSTER, POOL)} == {"ready"}


def test_a_check_that_an_api_does_not_answer_yet_is_waited_for_before_money_is_spent(tmp_path: Path) -> None:
    """In an empty project every check is unknown until the APIs are in effect: unknown is not passed."""
    reservations = "*/reservations/nope"
    faults = [
        fault("compute.googleapis.com", "GET", reservations, n, status=403, body=body("service_disabled"))
        for n in (1, 2)
    ]
    with cli_harness(tmp_path / "home", faults) as walk:
        walk.init("--set", "quotas.reservation=nope")
        failed = walk.events(*UNTIL, code=1)[-1]["failed"]
        assert [entry["id"] for entry in failed] == ["check quotas.reservation"]
        assert {row["service"] for row in walk.mutating_requests()} == {"serviceusage.googleapis.com"}


def test_a_check_that_stays_unknown_stops_what_costs_money(tmp_path: Path) -> None:
    off = fault(
        "compute.googleapis.com", "GET", "*/reservations/*", status=403, body=body("service_disabled")
    )
    with cli_harness(tmp_path / "home", [off]) as walk:
        walk.init()
        failed = walk.events(*UNTIL, code=1)[-1]["failed"]
        assert "check quotas.reservation" in [entry["id"] for entry in failed]
        assert all("--skip-checks" in entry["fix"] for entry in failed)
        assert {row["service"] for row in walk.mutating_requests()} == {"serviceusage.googleapis.com"}
