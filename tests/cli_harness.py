"""Run the real command, as a process of its own, against an emulator of the test's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator_server import EmulatorServer, start_emulator
from forked_command import ForkedCommand

from grpo_wizard.steps.emulator import process as emulator_process

JSON = dict[str, Any]
NAME = "nemo-cluster"
ANSWERS = Path(__file__).parents[1] / "assets" / "answers-tutorial.toml"
APPLY = ("apply", "--yes", "--until", "raycluster", "--json")
DESTROY = ("destroy", "--confirm", NAME, "--json")
_CREATE_METHODS = {"POST", "PUT"}
_READ_ONLY_POSTS = (":testIamPermissions", ":getIamPolicy", ":setIamPolicy")
# Fields of a resource's spec that differ between two runs: ids, times, counters, owners. All others must be equal.
_VOLATILE = {
    "id",
    "uid",
    "selfLink",
    "selfLinkWithId",
    "creationTimestamp",
    "createTime",
    "updateTime",
    "etag",
    "fingerprint",
    "labelFingerprint",
    "resourceVersion",
    "generation",
    "observedGeneration",
    "managedFields",
    "status",
    "endpoint",
    "masterAuth",
    "privateEndpoint",
    "publicEndpoint",
    "controlPlaneEndpointsConfig",
    "instanceGroupUrls",
    "clusterSecondaryRangeName",  # contains the cluster's id
    "podRange",
    "address",
    "sourceRanges",
    "mountPoint",
    "volumeHandle",
    "volumeAttributes",
    "state",
    "currentNodeCount",
    "targetLink",
    "operationId",
    "uidRef",
    "data",
    "generateId",
    "podIpv4CidrSize",
    "grpo-wizard",
    "description",
    "finalizers",
}


def clean_environment(**more: str) -> dict[str, str]:
    """Return this process's environment without a developer's own settings for the wizard or the emulator."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("GRPO_WIZARD_", "HF_", "WANDB_", "GOOGLE_", "CLOUDSDK_"))
        and k not in ("COLUMNS", "LINES")  # a terminal has its own size
    }
    return kept | more


@dataclass(frozen=True)
class CliHarness:
    """A home folder with a running emulator."""

    server: EmulatorServer
    new_interpreter: bool = False  # start every command in a new interpreter, as a user does

    @property
    def home(self) -> Path:
        return self.server.home

    def cli_args(self, *arguments: str) -> list[str]:
        return [arguments[0], "--home", str(self.home), "--rehearse", *arguments[1:]]

    def run(
        self, *arguments: str, timeout: float = 240, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end, without a terminal."""
        if self.new_interpreter or environment:
            command = [sys.executable, "-m", "grpo_wizard", *self.cli_args(*arguments)]
            return subprocess.run(
                command,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=timeout,
                env=clean_environment(**environment),
                encoding="utf-8",
            )
        process = self.start_forked(*arguments)
        out = process.stdout.read()
        return subprocess.CompletedProcess(
            self.cli_args(*arguments), process.wait(timeout), out, process.stderr()
        )

    def start_forked(self, *arguments: str) -> ForkedCommand:
        """Start one command in a forked process, without the time that imports take."""
        return ForkedCommand(self.cli_args(*arguments), clean_environment(), self.home.parent)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start one command in a new interpreter; its stdout can be read line by line."""
        return subprocess.Popen(
            [sys.executable, "-m", "grpo_wizard", *self.cli_args(*arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            env=clean_environment(),
            encoding="utf-8",
        )

    def init(self, *arguments: str) -> None:
        done = self.run("init", "--answers", str(ANSWERS), *arguments)
        assert done.returncode == 0, done.stderr

    def json(self, *arguments: str, code: int = 0) -> JSON:
        """Run a command that exits with `code` and return its JSON document."""
        done = self.run(*arguments, "--json")
        assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        document: JSON = json.loads(done.stdout)
        return document

    def events(self, *arguments: str, code: int = 0) -> list[JSON]:
        """Run a command that exits with `code` and return its events."""
        done = self.run(*arguments)
        assert done.returncode == code, (done.returncode, done.stdout[-3000:], done.stderr[-2000:])
        return [json.loads(line) for line in done.stdout.splitlines()]

    def state(self) -> JSON:
        found: JSON = json.loads((self.home / "deployments" / NAME / "state.json").read_text())
        return found

    def mutating_requests(self, since: int = 0) -> list[JSON]:
        """Return the recorded requests that may change something, from the `since`th request on."""
        return [
            r
            for r in self.server.recorded_requests()[since:]
            if r["method"] != "GET" and not r["path"].endswith(_READ_ONLY_POSTS)
        ]


@contextmanager
def cli_harness(
    home: Path,
    faults: list[JSON] | None = None,
    speed: str = "max",
    ray: str = "none",
    new_interpreter: bool = False,
) -> Iterator[CliHarness]:
    """An emulator on `home`, stopped when the block ends.

    `faults` as in a fault file; `ray`: "real" for a training job.
    """
    home.mkdir(parents=True, exist_ok=True)
    file = home / "faults.json"
    file.write_text(json.dumps(faults or []))
    server = start_emulator(home, speed, ray=ray, faults=file)
    try:
        yield CliHarness(server, new_interpreter or ray == "real")
    finally:
        emulator_process.stop(home)


@dataclass(frozen=True)
class DeploymentRecord:
    """A finished deployment whose emulator has stopped, with all output of its commands."""

    home: Path
    check: JSON
    plan: JSON
    preflight_requests: list[JSON]  # of init, check and plan
    apply: list[JSON]
    status: JSON
    cloud_resources: list[JSON]
    recorded: list[JSON]
    mutating_requests: list[JSON]
    seconds: float  # of init, check, plan, apply and status together

    def copy(self, home: Path) -> Path:
        """Copy the deployment to another home folder, with a new request record."""
        shutil.copytree(self.home, home, ignore=shutil.ignore_patterns("requests.jsonl", "address.json"))
        return home


def deploy(home: Path) -> DeploymentRecord:
    """Run init, check, plan, apply and status on a fresh emulator."""
    with cli_harness(home, new_interpreter=True) as walk:
        begun = time.monotonic()
        walk.init()
        check, plan, early = walk.json("check"), walk.json("plan"), walk.mutating_requests()
        events, world = walk.events(*APPLY), walk.server.cloud_resources()
        status, seconds = walk.json("status"), time.monotonic() - begun
        return DeploymentRecord(
            home,
            check,
            plan,
            early,
            events,
            status,
            world,
            walk.server.recorded_requests(),
            walk.mutating_requests(),
            seconds,
        )


def fault(service: str, method: str, path: str, nth: int | None = None, **do: Any) -> JSON:
    """Return one entry of a fault file."""
    match = {"service": service, "method": method, "path": path} | ({"nth": nth} if nth else {})
    return {"match": match, "do": do}


def remaining_resources(rows: list[JSON]) -> list[JSON]:
    """Return the rows that must not exist after destroy: without derived rows and those kept by design."""
    return [row for row in rows if not row["kept_by_design"] and not row["derived"]]


def normalized_resources(rows: list[JSON]) -> dict[str, JSON]:
    """Return the rows without ids, times and counters, by kind, location and name."""
    return {
        f"{row['kind']} {row['project']}/{row['location']}/{row['name']}": {
            "state": row["state"],
            "spec": _without_volatile(row["spec"]),
        }
        for row in rows
        if not row["derived"] or row["kind"] == "api"
    }


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_volatile(item)
            for key, item in value.items()
            if key not in _VOLATILE and "time" not in key.lower()
        }
    return [_without_volatile(item) for item in value] if isinstance(value, list) else value


def create_counts(writes: list[JSON]) -> dict[str, int]:
    """Count the successful creates by collection and name. A requestId sent twice counts once."""
    seen: dict[str, set[str]] = {}
    for number, row in enumerate(writes):
        if row["method"] in _CREATE_METHODS and row["status"] < 300:
            once = str(row["query"].get("requestId") or number)
            seen.setdefault(f"{row['service']}{row['path']} {_name(row)}", set()).add(once)
    return {resource: len(times) for resource, times in seen.items()}


def _name(row: JSON) -> str:
    body = row["body"] or {}
    inner = body.get("cluster") or body.get("nodePool") or body.get("metadata") or body
    return str(row["query"].get("instanceId") or inner.get("name") or body.get("network") or "")
