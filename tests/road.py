"""The road as a user walks it: the real command in a process of its own, against a rehearsal server of the test's own."""

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

from rehearsing import Rehearsal, start_rehearsal
from warm import Command

from grpo_wizard.steps.emulator import process as emulator_process

JSON = dict[str, Any]
NAME = "nemo-cluster"
ANSWERS = Path(__file__).parents[1] / "assets" / "answers-tutorial.toml"
APPLY = ("apply", "--yes", "--until", "raycluster", "--json")
DESTROY = ("destroy", "--confirm", NAME, "--json")
_CREATES = {"POST", "PUT"}
_ASKS = (":testIamPermissions", ":getIamPolicy", ":setIamPolicy")
# Of a resource's spec: who made it which when, and what the cloud counts. All else must be the same in every world.
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
    "clusterSecondaryRangeName",  # bears the cluster's id
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
    """This process's environment without what a developer may have set for the wizard or the rehearsal."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("GRPO_WIZARD_", "HF_", "WANDB_", "GOOGLE_", "CLOUDSDK_"))
        and k not in ("COLUMNS", "LINES")  # a terminal's size is its own
    }
    return kept | more


@dataclass(frozen=True)
class Road:
    """A home folder with its running rehearsal."""

    server: Rehearsal
    cold: bool = False  # every command in an interpreter of its own, as a user starts it

    @property
    def home(self) -> Path:
        return self.server.home

    def words(self, *words: str) -> list[str]:
        return [words[0], "--home", str(self.home), "--rehearse", *words[1:]]

    def run(self, *words: str, timeout: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
        """One command to its end, with no terminal."""
        if self.cold or environment:
            command = [sys.executable, "-m", "grpo_wizard", *self.words(*words)]
            return subprocess.run(
                command,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=timeout,
                env=clean_environment(**environment),
                encoding="utf-8",
            )
        process = self.fork(*words)
        out = process.stdout.read()
        return subprocess.CompletedProcess(self.words(*words), process.wait(timeout), out, process.stderr())

    def fork(self, *words: str) -> Command:
        """One command, left running, without the time that imports take."""
        return Command(self.words(*words), clean_environment())

    def start(self, *words: str) -> subprocess.Popen[str]:
        """One command in an interpreter of its own, left running; stdout can be read line by line."""
        return subprocess.Popen(
            [sys.executable, "-m", "grpo_wizard", *self.words(*words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            env=clean_environment(),
            encoding="utf-8",
        )

    def init(self, *words: str) -> None:
        done = self.run("init", "--answers", str(ANSWERS), *words)
        assert done.returncode == 0, done.stderr

    def json(self, *words: str, code: int = 0) -> JSON:
        """The one document of a command that ends with `code`."""
        done = self.run(*words, "--json")
        assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        document: JSON = json.loads(done.stdout)
        return document

    def lines(self, *words: str, code: int = 0) -> list[JSON]:
        """The events of a command that ends with `code`."""
        done = self.run(*words)
        assert done.returncode == code, (done.returncode, done.stdout[-3000:], done.stderr[-2000:])
        return [json.loads(line) for line in done.stdout.splitlines()]

    def state(self) -> JSON:
        found: JSON = json.loads((self.home / "deployments" / NAME / "state.json").read_text())
        return found

    def writes(self, since: int = 0) -> list[JSON]:
        """The recorded requests that may change something, from the `since`th request on."""
        return [
            r
            for r in self.server.recorded()[since:]
            if r["method"] != "GET" and not r["path"].endswith(_ASKS)
        ]


@contextmanager
def road(
    home: Path,
    faults: list[JSON] | None = None,
    speed: str = "max",
    ray: str = "none",
    cold: bool = False,
) -> Iterator[Road]:
    """A server on `home`, ended when the block ends. `faults` as in a fault file; `ray`: "real" for a training job."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "faults.json"
    file.write_text(json.dumps(faults or []))
    server = start_rehearsal(home, speed, ray=ray, faults=file)
    try:
        yield Road(server, cold or ray == "real")
    finally:
        emulator_process.stop(home)


@dataclass(frozen=True)
class Deployed:
    """A finished deployment whose server has ended, and all that was said while it was made."""

    home: Path
    check: JSON
    plan: JSON
    early_writes: list[JSON]  # of init, check and plan
    apply: list[JSON]
    status: JSON
    world: list[JSON]
    recorded: list[JSON]
    writes: list[JSON]
    seconds: float  # of init, check, plan, apply and status together

    def copy(self, home: Path) -> Path:
        """The same deployment in another home folder, with a record of its own."""
        shutil.copytree(self.home, home, ignore=shutil.ignore_patterns("requests.jsonl", "address.json"))
        return home


def deploy(home: Path) -> Deployed:
    """init, check, plan, apply and status on a fresh world."""
    with road(home, cold=True) as walk:
        begun = time.monotonic()
        walk.init()
        check, plan, early = walk.json("check"), walk.json("plan"), walk.writes()
        events, world = walk.lines(*APPLY), walk.server.world()
        status, seconds = walk.json("status"), time.monotonic() - begun
        return Deployed(
            home, check, plan, early, events, status, world, walk.server.recorded(), walk.writes(), seconds
        )


def fault(service: str, method: str, path: str, nth: int | None = None, **do: Any) -> JSON:
    """One entry of a fault file."""
    match = {"service": service, "method": method, "path": path} | ({"nth": nth} if nth else {})
    return {"match": match, "do": do}


def lasting(rows: list[JSON]) -> list[JSON]:
    """Of a world: what must be gone after destroy, controllers' own and what stays by design left out."""
    return [row for row in rows if not row["kept_by_design"] and not row["derived"]]


def comparable(rows: list[JSON]) -> dict[str, JSON]:
    """A world without ids, times and counters, by kind, place and name."""
    return {
        f"{row['kind']} {row['project']}/{row['location']}/{row['name']}": {
            "state": row["state"],
            "spec": _plain(row["spec"]),
        }
        for row in rows
        if not row["derived"] or row["kind"] == "api"
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _plain(item)
            for key, item in value.items()
            if key not in _VOLATILE and "time" not in key.lower()
        }
    return [_plain(item) for item in value] if isinstance(value, list) else value


def made(writes: list[JSON]) -> dict[str, int]:
    """How often each thing was made: successful creates by collection and name. A requestId sent twice is one create."""
    seen: dict[str, set[str]] = {}
    for number, row in enumerate(writes):
        if row["method"] in _CREATES and row["status"] < 300:
            once = str(row["query"].get("requestId") or number)
            seen.setdefault(f"{row['service']}{row['path']} {_name(row)}", set()).add(once)
    return {thing: len(times) for thing, times in seen.items()}


def _name(row: JSON) -> str:
    body = row["body"] or {}
    inner = body.get("cluster") or body.get("nodePool") or body.get("metadata") or body
    return str(row["query"].get("instanceId") or inner.get("name") or body.get("network") or "")
