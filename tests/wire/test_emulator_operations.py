"""Compute's operations: waiting, repeated requests, lists, deletion, durations; reservations that expire."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator, stop_emulator
from google_clients import APIS, CLUSTER, PARENT, GoogleClients, cluster, gpu_pool, network

from grpo_wizard.steps.emulator.google.shared.durations import DURATIONS, sample_seconds

JSON = dict[str, Any]
P, ZONE = "my-project", "us-central1-b"
ROOT = f"/compute/v1/projects/{P}/global"
ZONAL = f"/compute/v1/projects/{P}/zones/{ZONE}"
SPEED = 40.0


@pytest.fixture(scope="module")
def cloud(shared_rehearsal: EmulatorServer) -> EmulatorServer:
    shared_rehearsal.enable(*APIS)
    return shared_rehearsal


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """A world forty times as fast as the real one, Compute felt."""
    server = start_emulator(tmp_path_factory.mktemp("slow") / "home", f"{SPEED:g}", ray="none")
    server.enable("compute.googleapis.com")
    while server.call("GET", f"{ROOT}/networks")[0] != 200:
        time.sleep(0.05)
    yield server
    stop_emulator(server)


def insert(server: EmulatorServer, name: str, more: str = "", **fields: Any) -> JSON:
    status, operation = server.call(
        "POST", f"{ROOT}/networks{more}", {"name": name, "autoCreateSubnetworks": False, **fields}
    )
    assert status == 200, operation
    return dict(operation)


def test_a_request_sent_twice_is_carried_out_once_whatever_its_body(cloud: EmulatorServer) -> None:
    more = f"?requestId={uuid.uuid4()}"
    first = insert(cloud, "once", more)
    assert insert(cloud, "once", more)["name"] == first["name"]
    assert insert(cloud, "twice", more)["name"] == first["name"], "the id decides, the body is not looked at"
    assert cloud.call("GET", f"{ROOT}/networks/twice")[0] == 404
    assert insert(cloud, "twice", f"?requestId={uuid.uuid4()}")["name"] != first["name"]
    status, answer = cloud.call("DELETE", f"{ROOT}/networks/twice{more}")
    assert status == 200 and answer["operationType"] == "delete", "another method is another request"


def test_operations_are_listed_filtered_waited_for_and_forgotten(cloud: EmulatorServer) -> None:
    made = insert(cloud, "listed")
    path = f"{ROOT}/operations/{made['name']}"
    done = cloud.call("POST", f"{path}/wait")[1]
    assert (done["status"], done["progress"], done["targetLink"].rpartition("/")[2]) == (
        "DONE",
        100,
        "listed",
    )
    found = cloud.call("GET", f"{ROOT}/operations?filter=name%3D{made['name']}")[1]["items"]
    assert [one["id"] for one in found] == [made["id"]]
    none = cloud.call("GET", f"{ROOT}/operations?filter=(status!%3DDONE)%20AND%20(name%3D{made['name']})")[1]
    assert "items" not in none
    everywhere = cloud.call(
        "GET", f"/compute/v1/projects/{P}/aggregated/operations?filter=name%3D{made['name']}"
    )[1]
    assert [one["name"] for one in everywhere["items"]["global"]["operations"]] == [made["name"]]
    assert cloud.call("DELETE", path) == (204, None)
    assert (
        cloud.call("GET", path)[0]
        == cloud.call("DELETE", path)[0]
        == cloud.call("POST", f"{path}/wait")[0]
        == 404
    )


def test_what_takes_time_takes_the_places_time_divided_by_the_speed(slow: EmulatorServer) -> None:
    usual = sample_seconds("network.insert", "timed")
    begun = time.monotonic()
    operation = insert(slow, "timed")
    assert operation["status"] == "RUNNING" and operation["progress"] == 0
    done = slow.call("POST", f"{ROOT}/operations/{operation['name']}/wait")[1]
    took = time.monotonic() - begun
    assert done["status"] == "DONE", "held until it was done: it takes less than the two minutes of a wait"
    assert usual / SPEED <= took <= usual / SPEED + 2
    assert DURATIONS["network.insert"].low <= usual <= DURATIONS["network.insert"].high
    started, ended = (datetime.fromisoformat(done[key]) for key in ("startTime", "endTime"))
    assert abs((ended - started).total_seconds() - usual / SPEED) < 1


def test_while_a_thing_is_made_it_cannot_be_used_deleted_or_made_again(slow: EmulatorServer) -> None:
    names = (f"young-{number}" for number in range(1000))
    name = next(name for name in names if sample_seconds("network.insert", name) > 50)
    operation = insert(slow, name)
    rule = {"name": "early", "network": f"global/networks/{name}", "allowed": [{"IPProtocol": "tcp"}]}
    for method, path, body in (("POST", "firewalls", rule), ("DELETE", f"networks/{name}", None)):
        status, answer = slow.call(method, f"{ROOT}/{path}", body)
        assert (status, answer["error"]["errors"][0]["reason"]) == (400, "resourceNotReady")
    assert slow.call("POST", f"{ROOT}/networks", {"name": name})[0] == 409
    status, answer = slow.call("DELETE", f"{ROOT}/operations/{operation['name']}")
    assert (status, answer["error"]["errors"][0]["reason"]) == (400, "operationInProgress")
    slow.call("POST", f"{ROOT}/operations/{operation['name']}/wait")


@pytest.mark.parametrize("what", sorted(DURATIONS))
def test_a_name_always_takes_as_long_and_names_differ(what: str) -> None:
    names = [f"thing-{number}" for number in range(300)]
    took = [sample_seconds(what, name) for name in names]
    span = DURATIONS[what]
    assert took == [sample_seconds(what, name) for name in names] and len(set(took)) == len(names)
    assert span.low <= min(took) and max(took) <= max(span.high, span.rare_max)
    assert bool(span.rare_max) == any(one > span.high for one in took) and span.source


def reserve(server: EmulatorServer, name: str, **fields: Any) -> tuple[int, JSON]:
    specific = {"count": "1", "instanceProperties": {"machineType": "a4-highgpu-8g"}}
    body = {"name": name, "specificReservation": specific, "specificReservationRequired": True, **fields}
    return server.call("POST", f"{ZONAL}/reservations", body)


def test_a_reservation_goes_at_its_time(slow: EmulatorServer) -> None:
    ends = datetime.now(UTC) + timedelta(seconds=2)
    assert reserve(slow, "short", deleteAtTime=ends.isoformat())[0] == 200
    assert reserve(slow, "day", deleteAfterDuration={"seconds": str(round(1.5 * SPEED))})[0] == 200
    assert {"short", "day"} <= {one["name"] for one in slow.call("GET", f"{ZONAL}/reservations")[1]["items"]}
    assert slow.call("GET", f"{ZONAL}/reservations/day")[1]["deleteAtTime"].endswith("Z")
    while slow.call("GET", f"{ZONAL}/reservations/short")[0] == 200:
        assert datetime.now(UTC) < ends + timedelta(seconds=2)
        time.sleep(0.05)
    assert (
        datetime.now(UTC) >= ends - timedelta(seconds=1)
        and slow.call("GET", f"{ZONAL}/reservations/day")[0] == 404
    )
    status, answer = reserve(slow, "past", deleteAtTime="2020-01-01T00:00:00Z")
    assert status == 400 and "'resource.deleteAtTime'" in answer["error"]["message"]


def test_a_time_to_go_survives_a_restart(tmp_path: Path) -> None:
    server = start_emulator(tmp_path / "home", ray="none")
    server.enable("compute.googleapis.com")
    ends = datetime.now(UTC) + timedelta(seconds=2)
    assert reserve(server, "short", deleteAtTime=ends.isoformat())[0] == 200
    stop_emulator(server)
    server = start_emulator(tmp_path / "home", ray="none")
    try:
        while server.call("GET", f"{ZONAL}/reservations/short")[0] == 200:
            assert datetime.now(UTC) < ends + timedelta(seconds=2)
            time.sleep(0.05)
        assert server.call("GET", f"{ZONAL}/reservations/nemo-res")[0] == 200
    finally:
        stop_emulator(server)


def test_a_reservation_in_use_is_counted_kept_and_not_made_smaller(cloud: EmulatorServer) -> None:
    clients = GoogleClients(cloud)
    network(clients, "nemo-net")
    clients.wait_for_gke(clients.container.create_cluster(parent=PARENT, cluster=cluster()))
    clients.wait_for_gke(
        clients.container.create_node_pool(parent=CLUSTER, node_pool=gpu_pool(nodes=2, autoscaling={}))
    )
    path = f"{ZONAL}/reservations/nemo-res"
    assert cloud.call("GET", path)[1]["specificReservation"]["inUseCount"] == "2"
    (block,) = cloud.call("GET", f"{path}/reservationBlocks")[1]["items"]
    parent = f"{ZONAL}/reservations/nemo-res/reservationBlocks/{block['name']}"
    (sub,) = cloud.call("GET", f"{parent}/reservationSubBlocks")[1]["items"]
    assert (block["inUseCount"], sub["inUseCount"], block["reservationSubBlockCount"]) == (2, 2, 1)
    status, answer = cloud.call("DELETE", path)
    assert (status, answer["error"]["errors"][0]["reason"]) == (400, "resourceInUseByAnotherResource")
    assert answer["error"]["message"].startswith(
        f"The reservation resource 'projects/{P}/zones/{ZONE}/reservations/nemo-res'"
    )
    status, answer = cloud.call("POST", f"{path}/resize", {"specificSkuCount": "1"})
    assert status == 400 and "cannot be lower than the in use count" in answer["error"]["message"]
    status, answer = cloud.call("DELETE", f"{ROOT}/networks/nemo-net")
    assert (status, answer["error"]["errors"][0]["reason"]) == (400, "resourceInUseByAnotherResource")
    pool = f"{CLUSTER}/nodePools/gpu-pool"
    clients.wait_for_gke(clients.container.set_node_pool_size(request={"name": pool, "node_count": 1}))
    assert cloud.call("GET", path)[1]["specificReservation"]["inUseCount"] == "1"
    clients.wait_for_gke(clients.container.delete_node_pool(name=pool))
    assert cloud.call("GET", path)[1]["specificReservation"]["inUseCount"] == "0"
    assert cloud.call("DELETE", path)[0] == 200


def test_a_future_reservation_waits_is_cancelled_and_deleted(cloud: EmulatorServer) -> None:
    window = {"startTime": "2099-01-01T00:00:00Z", "endTime": "2099-02-01T00:00:00Z"}
    sku = {"totalCount": "2", "instanceProperties": {"machineType": "a4-highgpu-8g"}}
    body = {"name": "later", "timeWindow": window, "specificSkuProperties": sku}
    path = f"{ZONAL}/futureReservations"
    for change, field in (({"timeWindow": {"startTime": "2020-01-01T00:00:00Z"}}, "timeWindow.startTime"), ({"specificSkuProperties": {**sku, "totalCount": "0"}}, "totalCount")):  # fmt: skip
        status, answer = cloud.call("POST", path, {**body, **change})
        assert status == 400 and field in answer["error"]["message"]
    assert cloud.call("POST", path, body)[0] == 200
    assert cloud.call("GET", f"{path}/later")[1]["status"]["procurementStatus"] == "PENDING_APPROVAL"
    everywhere = cloud.call("GET", f"/compute/v1/projects/{P}/aggregated/futureReservations")[1]["items"]
    assert [one["name"] for one in everywhere[f"zones/{ZONE}"]["futureReservations"]] == ["later"]
    status, answer = cloud.call("DELETE", f"{path}/later")
    assert status == 400 and "PENDING_APPROVAL" in answer["error"]["message"]
    for _ in range(20):
        cloud.call("POST", f"{path}/later/cancel")
        if cloud.call("GET", f"{path}/later")[1]["status"]["procurementStatus"] == "CANCELLED":
            break
    assert cloud.call("DELETE", f"{path}/later")[0] == 200


def test_cloud_quotas_take_requests_down_and_grant_what_is_no_more(cloud: EmulatorServer) -> None:
    cloud.enable("cloudquotas.googleapis.com")
    path = f"/cloudquotas/v1/projects/{P}/locations/global/quotaPreferences"
    where = {"region": "us-central1", "gpu_family": "NVIDIA_B200"}
    body = {
        "service": "compute.googleapis.com",
        "quotaId": "GPUS-PER-GPU-FAMILY-per-project-region",
        "dimensions": where,
        "quotaConfig": {"preferredValue": "64"},
    }
    status, asked = cloud.call("POST", f"{path}?quotaPreferenceId=more", body)
    assert (status, asked["reconciling"], asked["quotaConfig"]["grantedValue"]) == (200, True, "32")
    assert cloud.call("POST", f"{path}?quotaPreferenceId=more", body)[0] == 409
    less = {**body, "quotaConfig": {"preferredValue": "16"}, "etag": asked["etag"]}
    status, changed = cloud.call("PATCH", f"{path}/more", less)
    assert (status, changed["reconciling"], changed["quotaConfig"]["grantedValue"]) == (200, False, "16")
    assert cloud.call("PATCH", f"{path}/more", less)[1]["error"]["status"] == "ABORTED"
    assert [one["etag"] for one in cloud.call("GET", path)[1]["quotaPreferences"]] == [changed["etag"]]
    assert cloud.call("GET", f"{path}?filter=reconciling%3Dtrue")[1]["quotaPreferences"] == []
    for wrong in ({"quotaId": "SPOONS"}, {"quotaConfig": {}}, {"dimensions": {"spoon": "x"}}):
        assert cloud.call("POST", path, {**body, **wrong})[0] == 400
    assert cloud.call("PATCH", f"{path}/none", less)[0] == 404
    assert cloud.call("PATCH", f"{path}/new?allowMissing=true&validateOnly=true", body)[0] == 200
    assert cloud.call("GET", f"{path}/new")[0] == 404
