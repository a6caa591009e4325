"""A Lustre instance from CREATING to deleted at an observable speed; its LNet port, and who holds the
peering.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator, stop_emulator, wait_until
from google.api_core import exceptions
from google.cloud import lustre_v1
from google_clients import APIS, PROJECT, GoogleClients, network
from kube_test_server import ZONE, kube_test_server, tutorial_backend
from test_emulator_lustre import PARENT, connect, instance, ranged
from tutorial_kube_objects import apply_raycluster, event_messages, wait_for_raycluster

from grpo_wizard.steps.clients.audit import discard
from grpo_wizard.steps.clients.connect import connect_emulator
from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.google.lustre import LustreDriver
from grpo_wizard.steps.core.model import Resource

SPEED = "1200"
HELD = "Producer services (e.g. CloudSQL, Cloud Memstore, etc.) are still using this connection."
PEERINGS = "/servicenetworking/v1/services/servicenetworking.googleapis.com/connections"
JSON = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    started = start_emulator(tmp_path_factory.mktemp("lustre") / "home", speed=SPEED, ray="none")
    yield started
    stop_emulator(started)


@pytest.fixture(scope="module")
def clients(server: EmulatorServer) -> GoogleClients:
    server.enable(*APIS)
    made = GoogleClients(server)

    def felt() -> bool:
        with contextlib.suppress(exceptions.Forbidden):
            network(made, "nemo-net")
            return True
        return False

    wait_until(felt)
    ranged(made, "nemo-range", "nemo-net")
    connect(server, "nemo-net", "nemo-range")
    return made


def raw(server: EmulatorServer, name: str) -> JSON:
    """The instance as the wire has it."""
    status, found = server.call("GET", f"/lustre/v1/{PARENT}/instances/{name}")
    assert status == 200, found
    return dict(found)


def refused(server: EmulatorServer, method: str, path: str, body: Any = None) -> str:
    status, answer = server.call(method, f"/lustre/v1/{PARENT}/instances/{path}", body)
    assert (status, answer["error"]["status"]) == (400, "FAILED_PRECONDITION"), answer
    return str(answer["error"]["message"])


def test_an_instance_in_the_making_has_no_mount_point_and_no_percentage(
    clients: GoogleClients, server: EmulatorServer
) -> None:
    made = clients.lustre.create_instance(parent=PARENT, instance=instance(), instance_id="one")
    found = raw(server, "one")
    assert found["state"] == "CREATING" and "mountPoint" not in found
    _, operation = server.call("GET", f"/lustre/v1/{made.operation.name}")
    assert set(operation["metadata"]) == {
        "@type",
        "createTime",
        "target",
        "requestedCancellation",
        "apiVersion",
        "verb",
    }
    assert "is in state CREATING" in refused(server, "PATCH", "one", {"description": "early"})
    assert "is in state CREATING" in refused(server, "DELETE", "one")
    made.result(timeout=60)
    found = raw(server, "one")
    assert found["state"] == "ACTIVE" and found["mountPoint"].endswith("@tcp:/lustrefs")


def test_while_it_grows_it_serves_and_nothing_else_is_done_to_it(
    clients: GoogleClients, server: EmulatorServer
) -> None:
    name = f"{PARENT}/instances/one"
    bigger = lustre_v1.Instance(name=name, capacity_gib=36000, description="grown", labels={"team": "rl"})
    paths = {"paths": ["capacity_gib", "description", "labels"]}
    growing = clients.lustre.update_instance(instance=bigger, update_mask=paths)
    found = raw(server, "one")
    assert (found["state"], found["capacityGib"]) == ("UPDATING", "18000") and found["mountPoint"]
    export = {"gcsPath": {"uri": "gs://bucket/out/"}, "lustrePath": {"path": "/"}}
    for refusal in (
        refused(server, "PATCH", "one?updateMask=description", {"description": "again"}),
        refused(server, "DELETE", "one"),
        refused(server, "POST", "one:exportData", export),
    ):
        assert "is in state UPDATING" in refusal
    growing.result(timeout=60)
    found = raw(server, "one")
    assert (found["state"], found["capacityGib"]) == ("ACTIVE", "36000")
    assert (found["description"], found["labels"]) == ("grown", {"team": "rl"})


def test_a_transfer_leaves_it_active_and_wants_whole_paths(
    clients: GoogleClients, server: EmulatorServer
) -> None:
    name = f"{PARENT}/instances/one"
    out = {"name": name, "gcs_path": {"uri": "gs://bucket/out/"}, "lustre_path": {"path": "/data"}}
    moving = clients.lustre.export_data(request=out)
    assert raw(server, "one")["state"] == "ACTIVE"
    moving.result(timeout=60)
    with pytest.raises(exceptions.BadRequest, match="Must start with '/'"):
        clients.lustre.import_data(request={**out, "lustre_path": {"path": "data"}})


def test_what_two_tiers_ask_for_at_once_is_refused(clients: GoogleClients) -> None:
    both = instance(dynamic_tier_options={"mode": 1}, capacity_gib=472000)
    with pytest.raises(exceptions.BadRequest, match="must not be set together"):
        clients.lustre.create_instance(parent=PARENT, instance=both, instance_id="both")


def _connection(server: EmulatorServer) -> JSON:
    body = {"consumerNetwork": "projects/123456789012/global/networks/nemo-net"}
    status, operation = server.call("POST", f"{PEERINGS}/servicenetworking-googleapis-com", body)
    assert status == 200, operation
    return dict(
        wait_until(
            lambda: (
                (now := server.call("GET", f"/servicenetworking/v1/{operation['name']}")[1]).get("done")
                and now
            )
        )
    )


def test_the_producer_holds_the_connection_while_it_is_there_and_some_time_after(
    clients: GoogleClients, server: EmulatorServer
) -> None:
    assert HELD in _connection(server)["error"]["message"]
    gone = clients.lustre.delete_instance(name=f"{PARENT}/instances/one")
    assert raw(server, "one")["state"] == "DELETING"
    assert "is in state DELETING" in refused(server, "DELETE", "one")
    wait_until(
        gone.done
    )  # result() looks again after a second, and the producer holds on for half of one here
    with pytest.raises(exceptions.NotFound):
        clients.lustre.get_instance(name=f"{PARENT}/instances/one")
    assert HELD in _connection(server)["error"]["message"], "it is gone, and its producer holds on"
    addresses = clients.compute("GlobalAddresses")
    with pytest.raises(exceptions.BadRequest, match="is already being used by"):
        addresses.delete_unary(project=PROJECT, address="nemo-range")
    wait_until(lambda: "error" not in _connection(server))
    clients.wait_for_success(addresses.delete_unary(project=PROJECT, address="nemo-range"))


@pytest.mark.parametrize(
    ("legacy", "port"), [(True, 988), pytest.param(False, 6988, marks=pytest.mark.heavy)]
)
def test_nodes_that_speak_on_another_port_find_no_server(legacy: bool, port: int) -> None:
    ground = tutorial_backend()
    ground.lustres[f"my-project/{ZONE}/nemo-lustre"]["gkeSupportEnabled"] = legacy
    ground.port = port
    with kube_test_server(ground) as it:
        apply_raycluster(it, 0)
        assert "Is the MGS running?" in wait_until(lambda: event_messages(it, "FailedMount"))[0]
        ground.port = 6988 if legacy else 988
        wait_for_raycluster(it, 0)


# Every state of Google's own list, those too that no call leads to; what our driver makes of it.
STATES = {
    "CREATING": "creating",
    "ACTIVE": "ready",
    "UPDATING": "ready",
    "UPGRADING": "ready",
    "REPAIRING": "ready",
    "DELETING": "deleting",
    "STOPPED": "failed",
    "SUSPENDED": "failed",
}


def test_every_state_that_google_lists_is_understood(tmp_path: Path) -> None:
    assert set(STATES) == {one.name for one in lustre_v1.Instance.State} - {"STATE_UNSPECIFIED"}
    name = f"{PARENT}/instances/nemo-lustre"
    match = {"service": "lustre.googleapis.com", "method": "GET", "path": "*/instances/nemo-lustre"}
    answers = [
        {
            "match": {**match, "nth": number},
            "do": {
                "status": 200,
                "body": {"name": name, "state": state, "mountPoint": "10.0.0.2@tcp:/lustrefs"},
            },
        }
        for number, state in enumerate(STATES, 1)
    ]
    faults = tmp_path / "faults.json"
    faults.write_text(json.dumps(answers))
    server = start_emulator(tmp_path / "home", ray="none", faults=faults)
    try:
        cloud = connect_emulator(server.home, None, discard, {})
        place = {"project": PROJECT, "location": "us-central1-b"}
        task = ResourceContext(
            Resource(step="lustre", kind="lustre", name="nemo-lustre", spec={}, parent=place), {}, ""
        )
        seen = [LustreDriver().read(cloud, task) for _ in STATES]
    finally:
        stop_emulator(server)
    assert [one.state for one in seen] == list(STATES.values())
    assert [one.detail for one in seen] == list(STATES)
