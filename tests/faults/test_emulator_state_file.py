"""The emulator's state file when truncated, of another version, or on a full disk: rejected and kept, or
saved later.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from emulator_server import EmulatorServer, start_emulator, wait_until
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.steps.emulator import process as emulator_process
from grpo_wizard.steps.emulator.context import Record
from grpo_wizard.steps.emulator.store import state_file

NETWORKS = "/compute/v1/projects/my-project/global/networks"
JSON = dict[str, Any]


def network(server: EmulatorServer, name: str) -> None:
    status, answer = server.call("POST", NETWORKS, {"name": name, "autoCreateSubnetworks": False})
    assert status == 200, answer


def world(home: Path) -> Path:
    return home / "rehearsal" / "world.json"


def kept(home: Path) -> bytes:
    """The file of a world with one network in it, its server ended."""
    server = start_emulator(home, ray="none")
    server.enable("compute.googleapis.com")
    network(server, "here")
    assert emulator_process.stop(home)
    return world(home).read_bytes()


def changed(data: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(data), **fields}).encode()


def test_a_world_that_cannot_be_read_is_refused_by_name_and_kept(tmp_path: Path) -> None:
    good = kept(tmp_path)
    damaged = {
        "version is 2, but this program can read only version 1": changed(good, version=2),
        "version is 0, but this program can read only version 1": changed(good, version=0),
        "truncated": good[: len(good) // 2],
        "cannot be read": b"",
        "unexpected keyword argument": changed(good, records=[{"colour": "red"}]),
    }
    for why, data in damaged.items():
        world(tmp_path).write_bytes(data)
        with pytest.raises(emulator_process.EmulatorError) as refusal:
            start_emulator(tmp_path, ray="none")
        assert str(world(tmp_path)) in str(refusal.value) and why in str(refusal.value)
        assert "Move it away" in str(refusal.value) and "Traceback" not in str(refusal.value)
        assert world(tmp_path).read_bytes() == data
    world(tmp_path).write_bytes(good)
    server = start_emulator(tmp_path, ray="none")
    assert server.call("GET", f"{NETWORKS}/here")[0] == 200
    assert emulator_process.stop(tmp_path)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.from_type(dict[str, int]).map(lambda data: json.dumps(data).encode()))
def test_whatever_lies_there_is_no_world_and_says_which_file(data: bytes) -> None:
    path = Path("world.json")

    class There(type(path)):  # type: ignore[misc]
        def read_bytes(self) -> bytes:
            return data

    with pytest.raises(
        state_file.StoreUnreadable, match=r"world\.json cannot be read: .+\. The file was not changed"
    ):
        state_file.read(There("world.json"))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    record = {**Record("s", "kind", "name", "p", "global", "key", {"a": 1}).__dict__}
    data = {"version": state_file.VERSION, "serial": 7, "events": [{"due": 1.0}], "records": [record]}
    state_file.replace(tmp_path / "w.json", json.dumps(data).encode())
    serial, records, events = state_file.read(tmp_path / "w.json")
    assert (serial, records[0].body, events) == (7, {"a": 1}, [{"due": 1.0}])
    assert [path.name for path in tmp_path.iterdir()] == ["w.json"]


def test_a_disk_that_is_full_costs_no_answer_and_tears_no_file(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the same error at the same call, without being root."""
    server = start_emulator(tmp_path, ray="none", record=None)
    server.enable("compute.googleapis.com")
    network(server, "before")
    process, path = psutil.Process(server.address.pid), world(tmp_path)
    before, unlimited = path.read_bytes(), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    process.rlimit(resource.RLIMIT_FSIZE, (len(before) // 2, resource.RLIM_INFINITY))
    network(server, "meanwhile")
    said = wait_until(lambda: emulator_process.status(tmp_path).get("unsaved"))
    assert str(path) in said and "File too large" in said
    assert server.call("GET", f"{NETWORKS}/meanwhile")[0] == 200, "the server goes on"
    assert path.read_bytes() == before and not path.with_suffix(".tmp").exists()
    process.rlimit(resource.RLIMIT_FSIZE, unlimited)
    wait_until(lambda: "unsaved" not in emulator_process.status(tmp_path))
    os.kill(server.address.pid, signal.SIGKILL)
    log = (tmp_path / "rehearsal" / "server.log").read_text()
    assert log.count("cannot be written") == 1 and "Traceback" not in log, "told once"
    again = start_emulator(tmp_path, ray="none")
    assert again.call("GET", f"{NETWORKS}/meanwhile")[0] == 200, "once there is room, it catches up"
    assert emulator_process.stop(tmp_path)


def test_a_signal_to_end_leaves_the_world_whole(tmp_path: Path) -> None:
    server = start_emulator(tmp_path, ray="none")
    server.enable("compute.googleapis.com")
    network(server, "kept")
    before = {json.dumps(row, sort_keys=True) for row in server.cloud_resources()}
    os.kill(server.address.pid, signal.SIGTERM)
    wait_until(lambda: not (tmp_path / "rehearsal" / "address.json").exists())
    again = start_emulator(tmp_path, ray="none")
    assert {json.dumps(row, sort_keys=True) for row in again.cloud_resources()} == before
    assert emulator_process.stop(tmp_path)


def test_ports_that_others_have_taken_meanwhile_are_given_up_and_the_world_comes_up_all_the_same(
    tmp_path: Path,
) -> None:
    """Both are its own again where they are free: test_emulator_sigkill.py."""
    server = start_emulator(tmp_path, ray="none")
    server.enable("compute.googleapis.com", "container.googleapis.com")
    network(server, "here")
    clusters = "/container/v1/projects/my-project/locations/us-central1/clusters"
    subnet = {
        "name": "here",
        "network": "projects/my-project/global/networks/here",
        "ipCidrRange": "10.2.0.0/16",
    }
    assert (
        server.call(
            "POST", f"{NETWORKS[: -len('/global/networks')]}/regions/us-central1/subnetworks", subnet
        )[0]
        == 200
    )
    asked = {"name": "kept", "network": "here", "subnetwork": "here", "initialNodeCount": 1}
    assert server.call("POST", clusters, {"cluster": asked})[0] == 200
    endpoint = wait_until(lambda: server.call("GET", f"{clusters}/kept")[1].get("endpoint"))
    assert emulator_process.stop(tmp_path)
    taken = []
    for address in (endpoint, server.base_url):
        other = socket.create_server(("127.0.0.1", int(address.rpartition(":")[2])))
        taken.append(other)
    again = start_emulator(tmp_path, ray="none")
    assert again.base_url != server.base_url and again.token == server.token
    now = again.call("GET", f"{clusters}/kept")[1]
    assert now["status"] == "RUNNING" and now["endpoint"] != endpoint
    assert again.address.kube_urls == {"kept": f"https://{now['endpoint']}"}
    assert (
        f"port {endpoint.rpartition(':')[2]} of cluster kept is in use"
        in (tmp_path / "rehearsal" / "server.log").read_text()
    )
    assert emulator_process.stop(tmp_path)
    for other in taken:
        other.close()
