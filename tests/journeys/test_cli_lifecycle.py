"""The whole road with the real command: init, check, plan, apply, status, destroy, and what each says on the way."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import json_schemas
import pytest
from cli_harness import DESTROY, JSON, DeploymentRecord, cli_harness, create_counts, remaining_resources

from grpo_wizard.tui.viewmodels.labels import format_plan_counts

LIMIT_S = 60.0  # of the whole road at speed max, on two cores that do nothing else
_BUSY = 4  # how much longer it may take where they do


@dataclass(frozen=True)
class Taken:
    """What destroy said, and what was there after it."""

    events: list[JSON]
    writes: list[JSON]
    world: list[JSON]
    again: list[JSON]
    written_again: list[JSON]
    status: JSON
    plan: JSON
    seconds: float
    requests: int


@pytest.fixture(scope="module")
def taken(deployed: DeploymentRecord, tmp_path_factory: pytest.TempPathFactory) -> Taken:
    with cli_harness(deployed.copy(tmp_path_factory.mktemp("whole") / "home")) as walk:
        begun = time.monotonic()
        events = walk.events(*DESTROY)
        seconds, writes, requests = (
            time.monotonic() - begun,
            walk.mutating_requests(),
            len(walk.server.recorded_requests()),
        )
        world, again = walk.server.cloud_resources(), walk.events(*DESTROY)
        status, plan = walk.json("status"), walk.json("plan")
        return Taken(
            events,
            writes,
            world,
            again,
            walk.mutating_requests()[len(writes) :],
            status,
            plan,
            seconds,
            requests,
        )


def test_every_document_and_event_has_exactly_the_keys_of_the_design(
    deployed: DeploymentRecord, taken: Taken
) -> None:
    json_schemas.assert_valid(deployed.check, json_schemas.CHECK)
    json_schemas.assert_valid(deployed.plan, json_schemas.PLAN)
    json_schemas.assert_valid(deployed.status, json_schemas.STATUS)
    json_schemas.assert_valid_events(deployed.apply)
    json_schemas.assert_valid_events(taken.events)


def test_check_and_plan_send_nothing_that_writes(deployed: DeploymentRecord) -> None:
    assert deployed.preflight_requests == []
    assert deployed.check["ok"]
    assert {row["action"] for row in deployed.plan["resources"] if row["kind"] != "project"} == {"create"}


def test_apply_makes_every_resource_once_and_says_so(deployed: DeploymentRecord) -> None:
    summary, planned = deployed.apply[-1], {row["id"] for row in deployed.apply[0]["resources"]}
    done = [line["id"] for line in deployed.apply if line["event"] == "resource_done"]
    assert summary["ok"] and summary["failed"] == []
    assert sorted(done) == sorted(planned) and summary["created"] == len(planned)
    assert set(create_counts(deployed.mutating_requests).values()) == {1}


def test_nothing_starts_before_its_needs_are_done_and_the_rest_runs_at_the_same_time(
    deployed: DeploymentRecord,
) -> None:
    place = {(line["event"], line.get("id")): number for number, line in enumerate(deployed.apply)}
    for row in deployed.apply[0]["resources"]:
        for need in row["needs"]:
            assert place["resource_done", need] < place["resource_started", row["id"]], (row["id"], need)
    running = most = 0
    for line in deployed.apply:
        running += (line["event"] == "resource_started") - (line["event"] == "resource_done")
        most = max(most, running)
    assert most >= 9, "the eight RDMA subnets and more"


def test_status_sees_every_resource_ready_created_and_without_drift(deployed: DeploymentRecord) -> None:
    rows = [row for row in deployed.status["resources"] if row["step"] != "grpo"]
    assert {row["id"] for row in rows} == {row["id"] for row in deployed.apply[0]["resources"]}
    assert [
        row for row in rows if (row["state"], row["origin"], row["drift"]) != ("ready", "created", [])
    ] == []
    assert deployed.status["job"] is None


def test_destroy_leaves_only_what_is_kept_by_design(deployed: DeploymentRecord, taken: Taken) -> None:
    summary = taken.events[-1]
    assert summary["ok"] and summary["next"] == "nothing left" and summary["usd_per_hour"] == 0
    assert len(remaining_resources(deployed.cloud_resources)) >= 47 and remaining_resources(taken.world) == []
    assert [row for row in taken.world if not row["kept_by_design"]] == []
    assert {row["kind"] for row in taken.world} == {"api"}


def test_the_plan_of_destroy_tells_beforehand_what_goes_and_what_stays(taken: Taken) -> None:
    for events in (taken.events, taken.again):
        planned, summary = events[0]["resources"], events[-1]
        going = [row for row in planned if row["action"] == "delete" and row["state"] != "absent"]
        staying = {row["id"] for row in planned if row["action"] == "keep"}
        assert (len(going), len(staying)) == (summary["deleted"], summary["kept"])
        assert staying <= {line.get("id") for line in events if line["event"] == "notice"}
    assert format_plan_counts(taken.events[0]["resources"]).startswith(
        f"{taken.events[-1]['deleted']} to delete"
    )
    gone = sum(row["state"] == "absent" for row in taken.again[0]["resources"])
    assert f"{gone} absent" in format_plan_counts(taken.again[0]["resources"])


def test_a_second_destroy_finds_nothing_to_do(taken: Taken) -> None:
    assert taken.again[-1]["ok"] and taken.again[-1]["deleted"] == 0
    assert taken.written_again == []


def test_the_whole_road_takes_less_than_a_minute_on_a_quiet_machine(
    deployed: DeploymentRecord, taken: Taken
) -> None:
    seconds, requests = deployed.seconds + taken.seconds, len(deployed.recorded) + taken.requests
    print(f"the whole road: {seconds:.1f} s, {requests} requests")
    assert seconds < LIMIT_S * _BUSY
    assert requests < 1500


def test_a_destroyed_deployment_can_be_looked_at_and_planned_again(taken: Taken) -> None:
    """Its peering, for one, is asked of a network that is not there any more."""
    assert {row["state"] for row in taken.status["resources"] if row["kind"] not in ("api", "project")} == {
        "absent"
    }
    assert {row["action"] for row in taken.plan["resources"]} == {"create", "keep"}


def test_proxies_of_the_environment_are_not_asked_for_loopback(
    deployed: DeploymentRecord, tmp_path: Path
) -> None:
    """HTTP_PROXY as offices set it: every client of a rehearsal goes past it, on the port of which nothing listens here."""
    names = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY")
    nowhere = dict.fromkeys(names, "http://127.0.0.1:9") | {"NO_PROXY": "", "no_proxy": ""}
    with cli_harness(deployed.copy(tmp_path / "home")) as walk:
        done = walk.run("status", "--json", **nowhere)
        assert done.returncode == 0, done.stderr
        rows = {row["id"]: row["state"] for row in json.loads(done.stdout)["resources"]}
        for id in ("networks.network.nemo-net", "lustre.peering.nemo-net", "lustre.pvc.lustre-pvc"):
            assert rows[id] == "ready"


def test_lustre_that_is_kept_stays_with_what_it_needs_and_is_not_called_nothing(
    deployed: DeploymentRecord, tmp_path: Path
) -> None:
    with cli_harness(deployed.copy(tmp_path / "home")) as walk:
        events = walk.events(*DESTROY, "--keep", "lustre")
        assert events[-1]["ok"] and events[-1]["next"] == "status"
        kept = {
            "nemo-net",
            "nemo-lustre-range",
            "servicenetworking-googleapis-com",
            "nemo-lustre-lnet",
            "nemo-lustre",
        }
        assert {row["name"] for row in remaining_resources(walk.server.cloud_resources())} == kept
        assert any("lustre.lustre.nemo-lustre" in row["detail"] for row in events if row["event"] == "notice")
        assert walk.events(*DESTROY)[-1]["next"] == "nothing left"
        assert remaining_resources(walk.server.cloud_resources()) == []
