"""Whose a private services connection is, also when the address ranges that carry the label cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator, stop_emulator
from google.cloud import compute_v1
from google_clients import APIS, GoogleClients, link, network

from grpo_wizard.steps.clients.audit import discard
from grpo_wizard.steps.clients.connect import connect_emulator
from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.google.peering import PeeringDriver
from grpo_wizard.steps.clients.google.service_networking import network_path, start_operation
from grpo_wizard.steps.core.model import Resource

PROJECT, NETWORK, LINEAGE = "my-project", "nemo-net", "0123456789abcdef"
ADDRESSES = f"/compute/v1/projects/{PROJECT}/global/addresses"


def _failures(name: str, *statuses: int) -> list[dict[str, Any]]:
    """The first reads of an address are answered with these statuses."""
    match = {"service": "compute.googleapis.com", "method": "GET", "path": f"{ADDRESSES}/{name}"}
    body = {"message": "backend error"}
    return [
        {
            "match": {**match, "nth": n},
            "do": {"status": status, "body": {"error": {"code": status, **body}}},
        }
        for n, status in enumerate(statuses, 1)
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """A network whose connection holds one labelled range, which cannot be read twice."""
    folder = tmp_path_factory.mktemp("peering")
    faults = folder / "faults.json"
    faults.write_text(json.dumps(_failures("nemo-range", 503, 403)))
    server = start_emulator(folder / "home", ray="none", faults=faults)
    try:
        server.enable(*APIS)
        clients = GoogleClients(server)
        network(clients, NETWORK)
        for name, description in (("nemo-range", f"grpo-wizard {LINEAGE}"), ("bare-range", "")):
            _reserve(clients, name, description)
        cloud = _cloud(server.home)
        operation = start_operation(
            cloud,
            "create",
            parent="services/servicenetworking.googleapis.com",
            body={
                "network": network_path(cloud, PROJECT, NETWORK),
                "reservedPeeringRanges": ["nemo-range"],
            },
        )
        driver = PeeringDriver()
        while not driver.progress(cloud, _context("nemo-range"), operation).done:
            pass
        yield server
    finally:
        stop_emulator(server)


def _reserve(clients: GoogleClients, name: str, description: str) -> None:
    body = compute_v1.Address(
        name=name,
        description=description,
        purpose="VPC_PEERING",
        address_type="INTERNAL",
        prefix_length=20,
        network=link("networks", NETWORK),
    )
    insert = clients.compute("GlobalAddresses").insert_unary
    clients.wait_for_success(insert(project=PROJECT, address_resource=body))


def _cloud(home: Path) -> CloudContext:
    return connect_emulator(home, None, discard, {})


def _context(range_name: str) -> ResourceContext:
    place = {"project": PROJECT, "network": NETWORK}
    spec = {"reservedPeeringRanges": [range_name]}
    return ResourceContext(
        Resource(step="networks", kind="peering", name="psa", spec=spec, parent=place), spec, LINEAGE
    )


def test_failed_read_of_an_address_never_changes_whose_the_connection_is(server: EmulatorServer) -> None:
    cloud, driver = _cloud(server.home), PeeringDriver()
    # Another deployment's range is not in the connection yet: read() tells whose the connection is from the ranges in it.
    other = _context("other-range")
    with pytest.raises(CloudError) as unavailable:
        driver.read(cloud, other)
    assert unavailable.value.transient and unavailable.value.status == 503
    with pytest.raises(CloudError) as forbidden:
        driver.read(cloud, other)
    assert forbidden.value.kind == "denied"
    assert driver.read(cloud, other).outputs == {"connection": "wizard"}
    assert driver.read(cloud, _context("nemo-range")).owner_label == LINEAGE


def test_range_without_a_label_and_range_that_is_gone_belong_to_nobody(server: EmulatorServer) -> None:
    cloud, driver = _cloud(server.home), PeeringDriver()
    for name in ("bare-range", "no-such-range"):
        assert driver._range_owner(cloud, _context(name), name) == ""
