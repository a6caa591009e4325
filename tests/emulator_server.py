"""Start an emulator for a test, and send it requests.

Not in conftest.py, which a second conftest.py would shadow.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_wizard.steps.emulator import process

JSON = dict[str, Any]
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class EmulatorServer:
    """A running emulator with its own home folder."""

    address: process.ServerAddress
    home: Path
    record: Path

    @property
    def base_url(self) -> str:
        return self.address.base_url

    @property
    def token(self) -> str:
        return self.address.token

    @property
    def env(self) -> dict[str, str]:
        """Return this process's environment updated with the emulator's."""
        return {**os.environ, **self.address.env}

    def cloud_resources(self) -> list[JSON]:
        """Return the rows of `/_rehearsal/world`."""
        return process.list_resources(self.address)

    def recorded_requests(self) -> list[JSON]:
        """Return all requests so far."""
        return (
            [json.loads(line) for line in self.record.read_text().splitlines()]
            if self.record.exists()
            else []
        )

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send one request with the token; return (status, JSON body)."""
        data = None if body is None else json.dumps(body).encode()
        head = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            **(headers or {}),
        }
        request = urllib.request.Request(self.base_url + path, data, head, method=method)
        try:
            with _NO_PROXY.open(request, timeout=60) as response:
                return response.status, json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def enable(self, *services: str, project: str = "my-project") -> None:
        """Enable APIs and wait until they take effect (at once at speed max)."""
        _, operation = self.call(
            "POST",
            f"/serviceusage/v1/projects/{project}/services:batchEnable",
            {"serviceIds": list(services)},
        )
        while not operation.get("done"):
            _, operation = self.call("GET", f"/serviceusage/v1/{operation['name']}")


def start_emulator(home: Path, speed: str = "max", **options: Any) -> EmulatorServer:
    """Start an emulator with a test's own options; the caller stops it with process.stop(home)."""
    record = home / "requests.jsonl"
    home.mkdir(parents=True, exist_ok=True)
    fixed = {"record": record, "idle_minutes": 10, "check_answers": True}
    address = process.start(home, speed, **{**fixed, **options})
    return EmulatorServer(address, home, record)


def stop_emulator(server: EmulatorServer) -> None:
    """Stop an emulator; fail if one of its responses violated Google's schema."""
    alive = process.find_own(server.home)
    violations = server.call("GET", "/_rehearsal/answers")[1]["violations"] if alive else []
    process.stop(server.home)
    assert violations == []


def wait_until(condition: Callable[[], Any], timeout: float = 20) -> Any:
    """Wait for a true value and return it; the failure shows the last false one."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"never happened within {timeout} s (last value {value!r})")
        time.sleep(0.05)
    return value
