"""The real gcloud by the environment that the server prints: every request as recorded, query and body too.

fixtures/gcloud.json is a recording of gcloud 528.0.0 on 2026-11-30: 71 commands in the tutorial's order.
They take minutes: `pytest -m heavy tests/wire/test_emulator_gcloud_requests.py`. test_emulator_gcloud_commands.py runs a third always.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer

JSON = dict[str, Any]
RUNS: list[JSON] = json.loads((Path(__file__).parent / "fixtures/gcloud.json").read_text())
NETWORKS = "/compute/v1/projects/my-project/global/networks"
FIREWALLS = "/compute/v1/projects/my-project/global/firewalls"
pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed here")


@pytest.mark.heavy
def test_the_small_services_commands_run_as_recorded(rehearsal: EmulatorServer) -> None:
    replay(rehearsal, [run for run in RUNS if run["always"]])


@pytest.mark.heavy
def test_every_recorded_command_runs_as_recorded(rehearsal: EmulatorServer) -> None:
    replay(rehearsal, RUNS)


def replay(server: EmulatorServer, runs: list[JSON]) -> None:
    """Runs each command after what the place needs; compares exit code and requests.

    All differences at once.
    """
    differences: list[str] = []
    for run in runs:
        prepare(server, run["name"])
        before = len(server.recorded_requests())
        done = gcloud(server, run["command"])
        if run["name"] == "projects-create":  # the fresh world holds my-project already
            if done.returncode != 1 or "already in use" not in done.stderr:
                differences.append(f"projects-create: {done.returncode} {done.stderr}")
            continue
        if done.returncode != run["exit"]:
            ended = f"exit {done.returncode}, recorded {run['exit']}: {done.stderr[-400:]}"
            differences.append(f"{run['name']}: {ended}")
        elif plain(server.recorded_requests()[before:]) != plain(run["requests"]):
            asked, recorded = (
                json.dumps(plain(r)) for r in (server.recorded_requests()[before:], run["requests"])
            )
            differences.append(f"{run['name']}:\n  asked    {asked}\n  recorded {recorded}")
    assert not differences, "\n".join(differences)


def gcloud(server: EmulatorServer, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=server.env, capture_output=True, text=True, check=False, timeout=240)


def prepare(server: EmulatorServer, name: str) -> None:
    """What the place wants before a command that the recording did without."""
    if name == "services-list-enabled":
        server.enable("lustre.googleapis.com", "servicenetworking.googleapis.com")
    elif name == "firewall-seed-a":
        for network in ("nemo-net-2", "unrelated"):
            made(server, NETWORKS, {"name": network, "autoCreateSubnetworks": False})
    elif name == "networks-delete-main":
        rules = [row for row in server.cloud_resources() if row["kind"] == "firewall"]
        leftovers = [row["name"] for row in rules if used(row, "nemo-net")]
        assert all(re.match("gke-|k8s-", left) for left in leftovers)
        for left in leftovers:
            server.call("DELETE", f"{FIREWALLS}/{left}")
    elif name == "addresses-delete":
        until_gone(server)


def used(row: JSON, network: str) -> bool:
    return bool(row["spec"].get("network", "").endswith(f"/networks/{network}"))


def made(server: EmulatorServer, path: str, body: JSON) -> None:
    status, answer = server.call("POST", path, body)
    assert status == 200, answer


def until_gone(server: EmulatorServer) -> None:
    """The peering's delete is repeated while its producer holds it."""
    command = next(run["command"] for run in RUNS if run["name"] == "vpc-peerings-delete")
    deadline = time.monotonic() + 60
    while any(row["kind"] == "peering" for row in server.cloud_resources()):
        assert time.monotonic() < deadline
        gcloud(server, command)


def plain(requests: list[JSON]) -> list[JSON]:
    """Requests without what differs at every run: operations' names, etags, polls and further pages."""
    found: list[JSON] = []
    for request in requests:
        path = re.sub(r"/operations/[^/]+", "/operations/X", request["path"])
        query = {name: value for name, value in request["query"].items() if name not in ("pageToken",)}
        body = json.loads(re.sub(r'"etag": "[^"]*"', '"etag": "X"', json.dumps(request["body"])))
        for binding in ((body or {}).get("policy") or {}).get("bindings", []):
            if binding["role"] == "roles/owner":  # the recorder's project had no owner, a real one has
                body["policy"]["bindings"].remove(binding)
        one = {"service": request["service"], "method": request["method"], "path": path}
        one |= {"query": query, "body": body}
        if not found or one != found[-1]:
            found.append(one)
    return found
