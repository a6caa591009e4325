"""The node pool of each capacity: what the wizard sends is what the real gcloud sends for the command that the wizard shows."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from typing import Any

import pytest
from check_harness import CheckHarness, answers
from emulator_server import EmulatorServer
from gcloud_requests import differing_paths, normalized_request

from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.registry import driver_for
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.gcp.provisioning import CHOICES
from grpo_wizard.steps.registry import step

JSON = dict[str, Any]
CLUSTERS = "/container/v1/projects/my-project/locations/us-central1/clusters"
REFUSED = "Additional node networks require a cluster with multi-networking enabled"
pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed here")


def pool(**changes: Any) -> Resource:
    given = answers(cluster__placement_policy="compact-1", **changes)
    return next(r for r in step("cluster").resources(given) if r.kind == "node_pool")


def posted(server: EmulatorServer) -> JSON:
    found: JSON = [
        r for r in server.recorded_requests() if r["method"] == "POST" and r["path"].endswith("/nodePools")
    ][-1]
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("capacity", CHOICES)
def test_the_pool_of_each_capacity_is_gclouds(shared_rehearsal: EmulatorServer, capacity: str) -> None:
    server = shared_rehearsal
    account = "nodes@my-project.iam.gserviceaccount.com"
    resource = pool(quotas__capacity=capacity, cluster__node_service_account=account)
    if server.call("GET", f"{CLUSTERS}/nemo-cluster")[0] != 200:
        server.enable("compute.googleapis.com", "container.googleapis.com")
        ground = CheckHarness(server)
        ground.create(
            "/compute/v1/projects/my-project/global/networks",
            {"name": "nemo-net", "autoCreateSubnetworks": True},
        )
        ground.create(
            CLUSTERS, {"cluster": {"name": "nemo-cluster", "network": "nemo-net", "initialNodeCount": 1}}
        )
    # The cluster has no multi-networking: both are refused, after both have been written down.
    words = shlex.split(resource.command)
    done = subprocess.run([*words, "--quiet"], env=server.env, capture_output=True, text=True, timeout=240)
    assert done.returncode != 0 and REFUSED in done.stderr, done.stderr
    theirs = posted(server)
    with pytest.raises(CloudError, match="Additional node networks"):
        driver_for("node_pool").create(
            CheckHarness(server).cloud(), ResourceContext(resource, resource.spec, "")
        )
    ours = posted(server)
    assert differing_paths(normalized_request(theirs), normalized_request(ours)) == set()
