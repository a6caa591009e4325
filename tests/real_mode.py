"""Real deployments on the emulator's endpoints: everything that only a real deployment does, with the same SDKs over HTTP.

Only the connection differs from a user's: address and credentials are the emulator's. As a program it runs the wizard so:
`python real_mode.py BASE_URL TOKEN -- apply --yes …`.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from emulator_server import EmulatorServer, start_emulator, stop_emulator

from grpo_wizard.state.home import Home
from grpo_wizard.state.model import Deployment, ResourceRecord
from grpo_wizard.state.secret import Secret
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.clients import connect
from grpo_wizard.steps.clients.context import AuditSink, CloudContext
from grpo_wizard.steps.clients.credentials import CredentialsInfo, CredentialSource
from grpo_wizard.steps.registry import all_resources, validate

JSON = dict[str, Any]
NAME = "nemo-cluster"
_SKU_PATH = "/v1/services/*/skus"


def sku(description: str, usd: float, region: str = "us-central1") -> JSON:
    """One row of services.skus.list, priced by the hour."""
    units = int(usd)
    rate = {"unitPrice": {"currencyCode": "USD", "units": str(units), "nanos": round((usd - units) * 1e9)}}
    return {
        "name": f"services/6F81-5844-456A/skus/{crc32(description.encode()):X}",
        "description": description,
        "serviceRegions": [region],
        "pricingInfo": [
            {
                "effectiveTime": "2026-10-01T00:00:00Z",
                "pricingExpression": {"usageUnit": "h", "tieredRates": [rate]},
            }
        ],
    }


# Eight GPUs at 10 USD, and the cores of an n2-highmem-80; its memory stays at the built-in list's price.
TWO_SKUS = [
    sku("A4 Nvidia B200 (1 gpu slice) running in Americas", 10.0),
    sku("N2 Instance Core running in Americas", 0.031611),
]


@dataclass(frozen=True)
class RealMode:
    """An emulator that real deployments of this process use as Google Cloud."""

    server: EmulatorServer

    @property
    def home(self) -> Path:
        return self.server.home

    def create(self, **answers: Any) -> StateStore:
        """The tutorial's deployment, real, with some answers changed: `project__max_usd=100`."""
        given = _tutorial()
        for name, value in answers.items():
            step, _, field = name.partition("__")
            given[step][field] = value
        store = StateStore(Home(self.home))
        store.create(NAME, "real", given)
        return store

    def record_everything_created(self, store: StateStore, hours_ago: float) -> Deployment:
        """Write a state file as of a deployment whose resources have existed for some hours."""
        deployment = store.load(NAME)
        at = (datetime.now(UTC) - timedelta(hours=hours_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for each in all_resources(validate(deployment.answers)):
            deployment.resources[each.id] = ResourceRecord(
                kind=each.kind, name=each.name, step=each.step, origin="created", intended_at=at, done_at=at
            )
        store.save(deployment)
        return deployment

    def catalog_requests(self) -> int:
        """How often the price catalog was read."""
        return sum(row["path"].endswith("/skus") for row in self.server.recorded_requests())

    def argv(self, *arguments: str) -> list[str]:
        """A command line that runs the wizard in a process of its own."""
        target = [str(Path(__file__)), self.server.base_url, self.server.token, "--"]
        return [*target, *arguments, "--home", str(self.home)]


def _tutorial() -> dict[str, dict[str, Any]]:
    return tomllib.loads((Path(__file__).parents[1] / "assets" / "answers-tutorial.toml").read_text("utf-8"))


def connect_to(base_url: str, token: str, audit: AuditSink, secrets: Mapping[str, Secret]) -> CloudContext:
    """What `connect_gcp` returns, with the emulator's address and token, and without real time between polls."""
    from google.oauth2.credentials import Credentials

    account = connect.EMULATOR_ACCOUNT
    who = CredentialsInfo(account, CredentialSource("authorized_user"))
    credentials = Credentials(token)  # type: ignore[no-untyped-call]
    return CloudContext("real", credentials, account, base_url, "", float("inf"), audit, dict(secrets), who)


@contextmanager
def real_mode(
    home: Path, monkeypatch: pytest.MonkeyPatch, skus: list[JSON] | None = None, **options: Any
) -> Iterator[RealMode]:
    """Start an emulator whose billing catalog lists `skus` (None: as the emulator answers, which lists none)."""
    home.mkdir(parents=True, exist_ok=True)
    faults = home / "faults.json"
    answer = {"status": 200, "body": {"skus": skus}}
    match = {"service": "cloudbilling.googleapis.com", "path": _SKU_PATH}
    faults.write_text(json.dumps([{"match": match, "do": answer}] if skus is not None else []))
    server = start_emulator(home, ray="none", faults=faults, **options)
    monkeypatch.setattr(
        connect,
        "connect_gcp",
        lambda audit, secrets: connect_to(server.base_url, server.token, audit, secrets),
    )
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    try:
        yield RealMode(server)
    finally:
        stop_emulator(server)


if __name__ == "__main__":
    from grpo_wizard.tui.cli import main

    url, secret, _dashes, *words = sys.argv[1:]
    connect.connect_gcp = lambda audit, secrets: connect_to(url, secret, audit, secrets)
    sys.exit(main(words))
