"""A rehearsal server on which all checks are asked, in this process, through the real clients."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator_server import EmulatorServer, start_emulator, stop_emulator
from google.oauth2.credentials import Credentials

from grpo_wizard.state.secret import Secret
from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.engine.preflight import CheckResult, run_checks
from grpo_wizard.steps.project.permissions import APIS
from grpo_wizard.steps.registry import STEPS, validate

JSON = dict[str, Any]
TUTORIAL = Path(__file__).parents[2] / "assets" / "answers-tutorial.toml"
_READ_ONLY_POSTS = (":testIamPermissions", ":getIamPolicy")


def answers(**changes: Any) -> Answers:
    """The tutorial's, with `step__field=value` laid over; None takes one out."""
    given = tomllib.loads(TUTORIAL.read_text("utf-8"))
    for key, value in changes.items():
        step, _, field = key.partition("__")
        given[step].pop(field, None)
        if value is not None:
            given[step][field] = value
    return validate(given)


@dataclass(frozen=True)
class CheckHarness:
    """The server, and how checks are asked on it."""

    server: EmulatorServer

    def cloud(self, token: str = "hf_made_up_for_a_test") -> CloudContext:
        secrets = {"hf_token": Secret(token)} if token else {}
        return CloudContext(
            "rehearsal",
            Credentials(self.server.token),
            "rehearsal-user@example.com",
            self.server.base_url,
            self.server.token,
            float("inf"),
            secrets=secrets,
        )

    def check(
        self, lineage: str = "", token: str = "hf_made_up_for_a_test", **changes: Any
    ) -> list[CheckResult]:
        """Every check of every step, as `check` runs them."""
        world = CachedCloudReader(self.cloud(token), lineage)
        return asyncio.run(run_checks(STEPS, answers(**changes), world))

    def mutating_requests(self, since: int = 0) -> list[JSON]:
        """Requests that may change something."""
        return [
            r
            for r in self.server.recorded_requests()[since:]
            if r["method"] != "GET"
            and not r["path"].endswith(_READ_ONLY_POSTS)
            and r["service"] != "api.wandb.ai"
        ]

    def create(self, path: str, body: JSON) -> None:
        status, answer = self.server.call("POST", path, body)
        assert status == 200, (path, answer)

    def create_reservation(
        self,
        name: str,
        zone: str = "us-central1-b",
        machine: str = "a4-highgpu-8g",
        count: int = 4,
        project: str = "my-project",
        **more: Any,
    ) -> None:
        """A reservation, as an administrator makes it."""
        specific = {"count": str(count), "instanceProperties": {"machineType": machine}}
        body = {"name": name, "specificReservationRequired": True, "specificReservation": specific} | more
        self.create(f"/compute/v1/projects/{project}/zones/{zone}/reservations", body)

    def create_project(self, name: str) -> None:
        """Another project with billing and all APIs on."""
        self.server.enable("cloudbilling.googleapis.com", "cloudresourcemanager.googleapis.com")
        status, operation = self.server.call("POST", "/cloudresourcemanager/v3/projects", {"projectId": name})
        assert status == 200, operation
        while not operation.get("done"):
            _, operation = self.server.call("GET", f"/cloudresourcemanager/v3/{operation['name']}")
        info = {"billingAccountName": "billingAccounts/012345-567890-ABCDEF"}
        path = f"/cloudbilling/v1/projects/{name}/billingInfo"
        assert self.server.call("PUT", path, info)[0] == 200
        self.server.enable(*APIS, project=name)


@contextmanager
def check_harness(home: Path, faults: list[JSON]) -> Iterator[CheckHarness]:
    """my-project with all APIs on, and what `faults` make of it."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "faults.json"
    file.write_text(json.dumps(faults))
    server = start_emulator(home, ray="none", faults=file)
    try:
        server.enable(*APIS)
        yield CheckHarness(server)
    finally:
        stop_emulator(server)


def get_fault(service: str, path: str, body: Any, status: int = 200, **do: Any) -> JSON:
    """A fault that answers a question so."""
    match = {"service": f"{service}.googleapis.com", "method": "GET", "path": path}
    return {"match": match, "do": {"status": status, "body": body, **do}}


def blocking_texts(found: list[CheckResult]) -> dict[str, str]:
    """What blocks, by id, with all its words."""
    said: Mapping[str, str]
    listed: dict[str, str] = {}
    for one in found:
        said = one.to_json()
        if said["level"] == "block":
            text = f"{said['title']}; {said['detail']}; {said['fix']}"
            listed[one.id] = f"{listed[one.id]}; {text}" if one.id in listed else text
    return listed
