"""The real gcloud against the rehearsal: the tutorial's commands, with recorded exit codes and calls.

The whole list takes minutes: `pytest -m heavy tests/wire/test_emulator_gcloud_commands.py`. A third of it runs always.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator
from google_clients import APIS, PROJECT, GoogleClients, network

from grpo_wizard.steps.emulator import process

pytestmark = pytest.mark.skipif(
    shutil.which("gcloud") is None, reason="the real gcloud is not installed here"
)

_FIXTURE = Path(__file__).parent / "fixtures" / "gcloud_replay.json"
COMMANDS: list[dict[str, Any]] = json.loads(_FIXTURE.read_text("utf-8"))["commands"]
# Every kind of call once: create, read, list, filter, delete and refusal of each service.
QUICK = [
    "services-enable",
    "services-enable-single",
    "reservations-describe",
    "network-profiles-describe",
    "accelerator-types-list-zone",
    "get-server-config",
    "networks-create-auto",
    "networks-create-gvnic",
    "subnets-create-gvnic",
    "networks-create-rdma",
    "subnets-create-rdma-0",
    "clusters-create",
    "clusters-get-credentials",
    "node-pools-list",
    "addresses-create",
    "vpc-peerings-connect",
    "lustre-create",
    "lustre-describe",
    "clusters-delete",
    "lustre-delete",
    "firewall-seed-a",
    "firewall-rules-list-word-match",
    "err-lustre-describe-404",
    "err-clusters-describe-404",
]
# What the fresh world answers otherwise than the recording server did.
_EXIT = {"projects-create": 1}
_OPERATION = re.compile(r"(operations/)[^/:]+")


@dataclass
class Shell:
    """Runs gcloud with the environment that the server printed."""

    server: EmulatorServer
    seen: int = 0

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """One command, not judged."""
        words = shlex.split(command)
        return subprocess.run(
            words, env=self.server.env, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL
        )

    def replay(self, entry: dict[str, Any]) -> None:
        """One recorded command: same exit code, and every call that was recorded is made."""
        wanted = _EXIT.get(entry["name"], entry["exit"])
        for _ in range(5):
            done = self.run(entry["command"])
            if done.returncode == wanted or "Producer services" not in done.stderr:
                break
            time.sleep(1)  # the producer holds the peering for a while
        assert done.returncode == wanted, f"{entry['name']}: {done.stdout}{done.stderr}"
        records = self.server.recorded_requests()
        made = {_call(row) for row in records[self.seen :]}
        self.seen = len(records)
        if wanted == entry["exit"]:
            missing = {_OPERATION.sub(r"\1*", call) for call in entry["calls"]} - made
            assert not missing, f"{entry['name']}: {missing} not among {made}"


def _call(row: dict[str, Any]) -> str:
    return _OPERATION.sub(r"\1*", f"{row['method']} {row['service']}{row['path']}")


def _prepare(server: EmulatorServer, before: str, clients: GoogleClients) -> None:
    """What the place needs beyond the tutorial's commands."""
    if before == "clusters-create":
        server.enable(*APIS)
    if before == "firewall-seed-a":
        network(clients, "nemo-net-2")
        network(clients, "unrelated")
    if before == "networks-delete-main":
        for rule in clients.compute("Firewalls").list(project=PROJECT):
            if rule.name.startswith("k8s-"):
                clients.wait_for_success(
                    clients.compute("Firewalls").delete_unary(project=PROJECT, firewall=rule.name)
                )


def _replay(tmp_path: Path, names: list[str]) -> Shell:
    server = start_emulator(tmp_path / "home", ray="none")
    shell, clients = Shell(server), GoogleClients(server)
    try:
        server.enable("servicenetworking.googleapis.com", "cloudquotas.googleapis.com")
        begun = time.monotonic()
        for entry in COMMANDS:
            if entry["name"] in names:
                _prepare(server, entry["name"], clients)
                shell.seen = len(server.recorded_requests())
                shell.replay(entry)
        print(f"{len(names)} commands of gcloud in {time.monotonic() - begun:.0f} s")
        _check_left(server)
    finally:
        process.stop(server.home)
    return shell


def _check_left(server: EmulatorServer) -> None:
    kinds = {row["kind"] for row in server.cloud_resources() if not row["kept_by_design"]}
    assert not kinds & {"cluster", "node_pool"}


def test_a_third_of_the_tutorials_commands_ends_as_recorded(tmp_path: Path) -> None:
    assert len(QUICK) >= len(COMMANDS) // 3
    _replay(tmp_path, QUICK)


@pytest.mark.heavy
def test_every_command_of_the_tutorial_ends_as_recorded(tmp_path: Path) -> None:
    assert len(COMMANDS) == 71
    _replay(tmp_path, [entry["name"] for entry in COMMANDS])
