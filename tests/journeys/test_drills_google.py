"""The drills of Google through the real command: what the user reads, what is left, and how it goes on when they have ended.

One deployment meets one drill after the other. None of them makes anything twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cli_harness import APPLY, DESTROY, JSON, CliHarness, cli_harness, create_counts, remaining_resources

POOL, CLUSTER = "cluster.node_pool.gpu-pool", "cluster.cluster.nemo-cluster"
USAGE = "serviceusage.googleapis.com"
LOGIN = "gcloud auth application-default login"
# Met by the last look at the checks, before anything billable: (drill, what failed, words of it, words of its fix).
BLOCKED = (
    ("quota-short", "check cluster.cpu_quota", "N2_CPUS quota in us-central1", "iam-admin/quotas"),
    (
        "reservation-gone",
        "check quotas.reservation",
        "Reservation nemo-res was not found",
        "quotas.reservation",
    ),
    ("org-policy", "check project.policy_restrictVpcPeering", "compute.restrictVpcPeering", "administrator"),
    (
        "api-disabled",
        "check cluster.version",
        "container.googleapis.com has not taken effect yet",
        "Re-run apply",
    ),
)


@dataclass
class Try:
    """One command while a drill ran: its events, what it wrote, what it said on stderr."""

    code: int
    events: list[JSON]
    writes: list[JSON]
    stderr: str

    @property
    def failed(self) -> dict[str, JSON]:
        return {entry["id"]: entry for entry in self.events[-1]["failed"]}

    def about(self, id: str, event: str) -> list[JSON]:
        return [line for line in self.events if line.get("id") == id and line["event"] == event]


@dataclass
class Walk:
    """All that was met on the way."""

    tries: dict[str, Try] = field(default_factory=dict)
    checks: dict[str, JSON] = field(default_factory=dict)
    writes: list[JSON] = field(default_factory=list)
    status: JSON = field(default_factory=dict)
    left: list[JSON] = field(default_factory=list)


@contextmanager
def drill(walk: CliHarness, name: str) -> Iterator[None]:
    assert walk.server.call("POST", f"/_rehearsal/drills/{name}")[0] == 200
    try:
        yield
    finally:
        assert walk.server.call("DELETE", f"/_rehearsal/drills/{name}")[0] == 200


def tried(
    walk: CliHarness,
    words: Sequence[str],
    begin: str = "",
    when: Callable[[JSON], bool] = lambda event: False,
    end: Callable[[JSON], bool] = lambda event: False,
) -> Try:
    """One command to its end; the drill `begin` begins at the event `when` and ends at the event `end`, or after it."""
    before, begun, over = len(walk.mutating_requests()), False, False
    command, events = walk.start_forked(*words), list[JSON]()
    for line in command.stdout:
        events.append(json.loads(line))
        if begin and not begun and when(events[-1]):
            begun = walk.server.call("POST", f"/_rehearsal/drills/{begin}")[0] == 200
        if begun and not over and end(events[-1]):
            over = walk.server.call("DELETE", f"/_rehearsal/drills/{begin}")[0] == 200
    code = command.wait(60)
    assert begun or not begin
    if begin:
        walk.server.call("DELETE", f"/_rehearsal/drills/{begin}")
    return Try(code, events, walk.mutating_requests()[before:], command.stderr())


def done(id: str) -> Callable[[JSON], bool]:
    return lambda event: event["event"] == "resource_done" and event["id"].endswith(id)


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """From nothing to nothing, through every drill."""
    found = Walk()
    with cli_harness(tmp_path_factory.mktemp("drills") / "home") as walk:
        walk.init()
        for name, *_ in BLOCKED:
            with drill(walk, name):
                found.tries[name] = tried(walk, APPLY)
            found.checks[name] = walk.json("check")  # with the APIs on, and the drill over
        for name, *_ in BLOCKED[:3]:
            with drill(walk, name):
                found.checks[name] = walk.json("check", code=1)
        with drill(walk, "stock-out"):
            found.tries["stock-out"] = tried(walk, APPLY)
        found.tries["sign-in, in the middle"] = tried(
            walk, APPLY, "expired-credentials", lambda event: str(event.get("id")).startswith("raycluster")
        )
        with drill(walk, "expired-credentials"):
            found.checks["expired-credentials"] = walk.json("check", code=1)
            found.tries["sign-in"] = tried(walk, APPLY)
        found.tries["at last"] = tried(walk, APPLY, "token-expired", lambda event: event["event"] == "plan")
        found.status, found.writes = walk.json("status"), walk.mutating_requests()
        for name in ("api-disabled", "expired-credentials"):
            with drill(walk, name):
                found.tries[f"destroy, {name}"] = tried(walk, DESTROY)
                for words in ("status", "metrics"):
                    found.tries[f"{words}, {name}"] = tried(walk, (words, "--json"))
        found.tries["destroy, in the middle"] = tried(
            walk, DESTROY, "expired-credentials", done("ray-cluster-kuberay")
        )
        found.tries["gone"] = tried(walk, DESTROY)
        found.left = remaining_resources(walk.server.cloud_resources())
    return found


@pytest.mark.parametrize("name, id, title, fix", BLOCKED)
def test_what_a_check_can_see_stops_apply_before_anything_billable(
    met: Walk, name: str, id: str, title: str, fix: str
) -> None:
    seen = met.tries[name]
    assert seen.code == 1 and title in seen.failed[id]["title"] + seen.failed[id]["detail"]
    assert fix in seen.failed[id]["fix"]
    assert {row["service"] for row in seen.writes} <= {USAGE}
    assert f"Active drill: {name}." in seen.stderr and "grpo-wizard rehearsal end-drill" in seen.stderr


def test_check_itself_says_so_at_once(met: Walk) -> None:
    for name, id, *_ in BLOCKED[:3]:
        blocks = [row for row in met.checks[name]["checks"] if row["level"] == "block"]
        assert id.removeprefix("check ") in [row["id"] for row in blocks] and all(
            row["fix"] for row in blocks
        )
    (only,) = [row for row in met.checks["expired-credentials"]["checks"] if row["level"] == "block"]
    assert only["title"] == "Sign-in"
    assert "sign-in has expired" in only["detail"] and "invalid_grant: Token" in only["detail"]


def test_a_stock_out_names_the_zone_and_leaves_the_rest_standing(met: Walk) -> None:
    seen = met.tries["stock-out"]
    assert seen.code == 1 and list(seen.failed) == [POOL]
    assert seen.failed[POOL]["title"].startswith(
        "Zone us-central1-b has no capacity for this machine type: 0 of 1"
    )
    assert "GCE_STOCKOUT" in seen.failed[POOL]["detail"] and "another zone" in seen.failed[POOL]["fix"]
    assert seen.events[-1]["next"] == "apply" and seen.events[-1]["usd_per_hour"] > 0
    assert not seen.about(POOL, "retry")


def test_a_sign_in_that_expires_says_how_to_sign_in_again(met: Walk) -> None:
    seen = met.tries["sign-in, in the middle"]
    assert seen.code == 1 and seen.failed
    told = [line for line in seen.events if line["event"] == "resource_failed"]
    assert {line["title"] for line in told} == {"Your sign-in has expired or is missing"}
    assert {(line["fix"], line["command"]) for line in told} == {("Sign in again.", LOGIN)}
    before = met.tries["sign-in"]
    assert before.code == 1 and not before.writes
    assert [line["error"]["command"] for line in before.events] == [LOGIN]


def test_after_all_that_the_same_command_gets_there_with_tokens_that_run_out_and_nothing_made_twice(
    met: Walk,
) -> None:
    seen = met.tries["at last"]
    assert seen.code == 0 and seen.events[-1]["ok"] and seen.events[-1]["failed"] == []
    assert {row["state"] for row in met.status["resources"] if row["kind"] != "job"} == {"ready"}
    again = {thing: count for thing, count in create_counts(met.writes).items() if count > 1}
    assert again == {}, "the pool that the stock-out left has mended by itself"


def test_destroy_takes_nothing_for_gone_that_it_cannot_see(met: Walk) -> None:
    off = met.tries["destroy, api-disabled"]
    assert off.code == 1 and not off.writes
    for words in (
        "The API container.googleapis.com is not enabled",
        "may still exist and be billed",
        "gcloud services enable container.googleapis.com --project=my-project",
    ):
        assert words in off.stderr and words in met.tries["status, api-disabled"].stderr
    assert met.tries["status, api-disabled"].code == 1, "absent would be a guess, and a price of 0 a lie"
    assert not met.tries["destroy, expired-credentials"].writes


def test_what_may_not_be_looked_at_is_not_told_as_missing(met: Walk) -> None:
    for words in ("status", "metrics"):
        seen = met.tries[f"{words}, expired-credentials"]
        assert seen.code == 1 and "Your sign-in has expired" in seen.stderr and LOGIN in seen.stderr
        assert "no job" not in seen.stderr


def test_destroy_that_loses_its_sign_in_goes_on_where_it_was(met: Walk) -> None:
    cut = met.tries["destroy, in the middle"]
    assert cut.code == 1 and cut.events[-1]["next"] == "destroy"
    assert {entry["title"] for entry in cut.failed.values()} == {"Your sign-in has expired or is missing"}
    assert met.tries["gone"].code == 0 and met.tries["gone"].events[-1]["next"] == "nothing left"
    assert met.left == []


def test_drills_that_begin_and_end_in_the_middle_of_an_apply(tmp_path: Path) -> None:
    """GKE's API goes off once the cluster stands, then the zone's machines: told once each, and it goes on by itself."""
    with cli_harness(tmp_path / "home") as walk:
        walk.init()
        off = tried(
            walk,
            (*APPLY[:2], "--until", "cluster", "--json"),
            "api-disabled",
            done(CLUSTER),
            lambda event: event["event"] == "retry",
        )
        ray = "raycluster.raycluster.ray-cluster-kuberay"
        none = tried(
            walk,
            APPLY,
            "stock-out",
            lambda event: event["event"] == "plan",
            lambda event: (
                event.get("id") == ray and "no capacity for this machine type" in event.get("detail", "")
            ),
        )
        assert off.code == none.code == 0, (off.stderr, none.stderr, none.events[-1])
        retries = [line["id"] for line in off.events if line["event"] == "retry"]
        assert retries and len(set(retries)) == len(retries)
        assert set(create_counts(walk.mutating_requests()).values()) == {1}


def test_a_policy_that_is_met_late_is_named_and_what_it_left_is_made_anew_when_told(tmp_path: Path) -> None:
    with cli_harness(tmp_path / "home") as walk:
        walk.init()
        until = ("apply", "--yes", "--until", "lustre", "--json")
        late = tried(walk, until, "org-policy", done("lustre.address.nemo-lustre-range"))
        assert late.code == 1 and {"lustre.peering.nemo-net"} <= set(late.failed) <= {
            "lustre.peering.nemo-net", POOL, CLUSTER
        }  # fmt: skip
        for entry in late.failed.values():
            assert "An organization policy forbids this: constraints/compute." in entry["title"]
        if CLUSTER in late.failed:
            told = tried(walk, until)
            assert f"--replace {CLUSTER}" in told.failed[CLUSTER]["fix"]
            until = (*until, "--replace", CLUSTER)
        assert tried(walk, until).code == 0
