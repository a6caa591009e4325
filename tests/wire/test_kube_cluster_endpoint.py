"""Connecting to a cluster: what a failed read of the cluster means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from emulator_server import start_emulator, stop_emulator
from google_clients import APIS

from grpo_wizard.steps.clients.audit import discard
from grpo_wizard.steps.clients.connect import connect_emulator
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.api import connect_cluster

CLUSTER = "/v1/projects/my-project/locations/us-central1/clusters/nemo-cluster"
MATCH = {"service": "container.googleapis.com", "method": "GET", "path": CLUSTER}


@pytest.mark.parametrize("status,kind", [(403, "denied"), (503, "transient")])
def test_a_failed_read_is_raised_and_a_missing_cluster_is_none(
    tmp_path: Path, status: int, kind: str
) -> None:
    """A denied read must not look like a missing cluster: its objects would count as deleted."""
    faults = tmp_path / "faults.json"
    error = {"code": status, "message": "refused", "status": "PERMISSION_DENIED"}
    faults.write_text(
        json.dumps([{"match": {**MATCH, "nth": 1}, "do": {"status": status, "body": {"error": error}}}])
    )
    server = start_emulator(tmp_path / "home", ray="none", faults=faults)
    try:
        server.enable(*APIS)
        cloud = connect_emulator(server.home, None, discard, {})
        with pytest.raises(CloudError) as caught:
            connect_cluster(cloud, "my-project", "us-central1", "nemo-cluster", fresh=True)
        assert caught.value.kind == kind
        assert connect_cluster(cloud, "my-project", "us-central1", "nemo-cluster", fresh=True) is None
    finally:
        stop_emulator(server)
