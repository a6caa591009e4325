"""Drills: started by name, with the server or later; what the server does while they are active."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator, stop_emulator

from grpo_wizard.steps.clients.audit import discard
from grpo_wizard.steps.clients.errors import from_message
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.emulator.drills.catalog import DRILL_CATALOG, DRILL_NAMES

DRILLS = "/_rehearsal/drills"
GKE = "/container/v1/projects/my-project/locations/europe-west4/clusters"
CLUSTER = {"name": "small", "initialNodeCount": 1, "nodeConfig": {"machineType": "n2-standard-8"}}
POOL = {
    "name": "gpu",
    "initialNodeCount": 0,
    "config": {"machineType": "a4-highgpu-8g"},
    "autoscaling": {"enabled": True, "totalMaxNodeCount": 2},
    "locations": ["europe-west4-b"],
}
RESERVATIONS = "/compute/v1/projects/my-project/zones/us-central1-b/reservations"
USAGE = "/serviceusage/v1/projects/my-project/services/compute.googleapis.com"


def running(server: EmulatorServer) -> list[str]:
    """Names of the drills that the server says run."""
    status, answer = server.call("GET", DRILLS)
    assert status == 200
    return [drill["name"] for drill in answer["drills"] if drill["running"]]


def ended(server: EmulatorServer, operation: Any) -> Any:
    """A GKE operation's end."""
    while operation["status"] != "DONE":
        where = f"/container/v1/projects/my-project/locations/{operation['location']}"
        operation = server.call("GET", f"{where}/operations/{operation['name']}")[1]
    return operation


@pytest.mark.parametrize("drill", DRILL_CATALOG, ids=lambda drill: drill.name)
def test_a_drill_says_what_happens_when_and_where_the_real_one_was_seen(drill: Any) -> None:
    assert drill.source.startswith("https://") and len(drill.title) <= 50
    for sentence in (drill.happens, drill.mends):
        assert sentence[0].isupper() or sentence.startswith(("gcloud ", "compute."))
        assert sentence.endswith(".")


def test_drills_are_listed_begun_and_ended_by_their_names(rehearsal: EmulatorServer) -> None:
    assert [d["name"] for d in rehearsal.call("GET", DRILLS)[1]["drills"]] == list(DRILL_NAMES)
    for name in ("api-disabled", "pool-maximum", "api-disabled"):
        assert rehearsal.call("POST", f"{DRILLS}/{name}")[0] == 200
    assert running(rehearsal) == ["api-disabled", "pool-maximum"]
    assert rehearsal.call("GET", "/_rehearsal/status")[1]["drills"] == ["api-disabled", "pool-maximum"]
    assert rehearsal.call("DELETE", f"{DRILLS}/api-disabled")[1]["ended"] == ["api-disabled"]
    assert running(rehearsal) == ["pool-maximum"]
    assert rehearsal.call("DELETE", DRILLS)[1]["ended"] == ["pool-maximum"] and running(rehearsal) == []
    for method in ("POST", "DELETE"):
        status, answer = rehearsal.call(method, f"{DRILLS}/spoons")
        assert status == 404 and "stock-out" in answer["error"]["message"]


def test_drills_outlive_the_server_and_a_fault_file_outlives_the_drills(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    teapot = {"status": 418, "body": {"error": {"code": 418, "message": "short and stout"}}}
    file.write_text(json.dumps([{"match": {"service": "compute.googleapis.com"}, "do": teapot}]))
    start_emulator(tmp_path, ray="none", drills=("head-lost", "quota-short"))
    process.stop(tmp_path)
    server = start_emulator(tmp_path, ray="none", faults=file)
    try:
        assert running(server) == ["quota-short", "head-lost"]
        server.call("DELETE", DRILLS)
        assert running(server) == [] and server.call("GET", RESERVATIONS)[0] == 418
    finally:
        process.stop(tmp_path)
    server = start_emulator(tmp_path, ray="none")
    assert running(server) == []
    process.stop(tmp_path)


def test_a_drill_that_is_not_known_keeps_the_server_from_starting(tmp_path: Path) -> None:
    with pytest.raises(process.EmulatorError, match="did you mean stock-out"):
        process.start(tmp_path, "max", ray="none", drills=("stok-out",))


def test_looking_at_the_drills_is_no_use_of_the_place(rehearsal: EmulatorServer) -> None:
    """A title line that asks every two seconds must not keep the server alive."""
    before = rehearsal.call("GET", "/_rehearsal/status")[1]
    running(rehearsal)
    after = rehearsal.call("GET", "/_rehearsal/status")[1]
    assert after["requests"] == before["requests"] and after["idle_seconds"] > before["idle_seconds"]


@pytest.fixture
def ready(rehearsal: EmulatorServer) -> EmulatorServer:
    """The APIs are on, and there is a network with a subnet in every region."""
    rehearsal.enable("container.googleapis.com", "compute.googleapis.com", "orgpolicy.googleapis.com")
    where = "/compute/v1/projects/my-project/global"
    network = {"name": "default", "autoCreateSubnetworks": True}
    operation = rehearsal.call("POST", f"{where}/networks", network)[1]
    assert rehearsal.call("POST", f"{where}/operations/{operation['name']}/wait")[1]["status"] == "DONE"
    return rehearsal


def test_a_stock_out_names_the_zone_that_was_asked_and_the_pool_mends_when_it_ends(
    ready: EmulatorServer,
) -> None:
    ended(ready, ready.call("POST", GKE, {"cluster": CLUSTER})[1])
    ready.call("POST", f"{DRILLS}/stock-out")
    failed = ended(ready, ready.call("POST", f"{GKE}/small/nodePools", {"nodePool": POOL})[1])
    assert "GCE_STOCKOUT" in failed["error"]["message"]
    assert "'projects/my-project/zones/europe-west4-b'" in failed["error"]["message"]
    assert ready.call("GET", f"{GKE}/small/nodePools/gpu")[1]["status"] == "ERROR"
    ready.call("DELETE", f"{DRILLS}/stock-out")
    assert ready.call("GET", f"{GKE}/small/nodePools/gpu")[1]["status"] == "RUNNING"


def test_a_short_quota_is_that_of_the_machine_that_was_asked_and_is_to_be_seen_before(
    ready: EmulatorServer,
) -> None:
    ready.call("POST", f"{DRILLS}/quota-short")
    for family in ("n2", "e2"):
        config = {"machineType": f"{family}-standard-8"}
        status, answer = ready.call("POST", GKE, {"cluster": {**CLUSTER, "nodeConfig": config}})
        assert status == 403 and f'"{family.upper()}_CPUS"' in answer["error"]["message"]
        assert "is short '24.0'" in answer["error"]["message"]  # one node in each of three zones
    region = ready.call("GET", "/compute/v1/projects/my-project/regions/europe-west4")[1]
    left = [q["limit"] - q["usage"] for q in region["quotas"] if q["metric"].endswith("_CPUS")]
    assert left and set(left) == {0.0}


def test_reservations_are_gone_whatever_their_names_and_come_back(ready: EmulatorServer) -> None:
    assert ready.call("GET", f"{RESERVATIONS}/nemo-res")[0] == 200
    ready.call("POST", f"{DRILLS}/reservation-gone")
    status, answer = ready.call("GET", f"{RESERVATIONS}/nemo-res")
    assert status == 404 and "zones/us-central1-b/reservations/nemo-res" in answer["error"]["message"]
    assert "items" not in ready.call("GET", RESERVATIONS)[1]
    ended(ready, ready.call("POST", GKE, {"cluster": CLUSTER})[1])
    affinity = {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["mine"],
    }
    config = {**POOL["config"], "reservationAffinity": affinity}
    pool = {**POOL, "initialNodeCount": 1, "config": config}
    status, answer = ready.call("POST", f"{GKE}/small/nodePools", {"nodePool": pool})
    told = from_message("container.googleapis.com", status, answer["error"]["message"])
    assert (status, told.title) == (404, "Reservation mine was not found in europe-west4-b")
    assert told.kind == "reservation" and not told.transient and "quotas.reservation" in told.fix
    ready.call("DELETE", f"{DRILLS}/reservation-gone")
    assert ready.call("GET", f"{RESERVATIONS}/nemo-res")[0] == 200


def test_a_policy_is_in_force_for_who_asks_and_for_who_acts(ready: EmulatorServer) -> None:
    policy = "/orgpolicy/v2/projects/my-project/policies/compute.requireShieldedVm:getEffectivePolicy"
    assert ready.call("GET", policy)[1]["spec"]["rules"] != [{"enforce": True}]
    ready.call("POST", f"{DRILLS}/org-policy")
    assert ready.call("GET", policy)[1]["spec"]["rules"] == [{"enforce": True}]
    failed = ended(ready, ready.call("POST", GKE, {"cluster": CLUSTER})[1])
    assert "constraints/compute.requireShieldedVm" in failed["error"]["message"]


def test_an_expired_sign_in_refuses_calls_and_refreshes_until_it_ends(ready: EmulatorServer) -> None:
    from google.auth.exceptions import RefreshError
    from google.auth.transport.requests import AuthorizedSession

    from grpo_wizard.steps.clients.connect import connect_emulator as joined

    credentials = joined(ready.home, None, discard, {}).credentials
    session, url = AuthorizedSession(credentials), ready.base_url + USAGE
    ready.call("POST", f"{DRILLS}/expired-credentials")
    status, answer = ready.call("GET", USAGE)
    assert (status, answer["error"]["details"][0]["reason"]) == (401, "ACCESS_TOKEN_EXPIRED")
    with pytest.raises(RefreshError, match="invalid_grant: Token has been expired or revoked"):
        session.get(url)
    ready.call("DELETE", DRILLS)
    ready.call("POST", f"{DRILLS}/token-expired")
    assert ready.call("GET", USAGE)[0] == 401  # the old token
    assert session.get(url).status_code == 200  # google-auth has fetched a new one
    assert credentials.token != ready.token


def test_the_drills_answers_are_googles(rehearsal: EmulatorServer) -> None:
    """Held against the documents by the server itself; the fixture looks at the end."""
    stop_emulator(rehearsal)
