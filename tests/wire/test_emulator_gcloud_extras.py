"""The real gcloud on what the recorded commands leave out: batches with errors, filters, policies, quota
requests.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from emulator_server import EmulatorServer

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not here")
P, ZONE = "my-project", "us-central1-b"
NETWORKS = f"/compute/v1/projects/{P}/global/networks"


@pytest.fixture(scope="module")
def cloud(shared_rehearsal: EmulatorServer) -> EmulatorServer:
    names = ("compute", "cloudquotas", "orgpolicy", "cloudresourcemanager")
    shared_rehearsal.enable(*(f"{name}.googleapis.com" for name in names))
    return shared_rehearsal


def gcloud(server: EmulatorServer, *words: str, ends: int = 0) -> str:
    """All that gcloud says, once it has ended as expected."""
    config = {"CLOUDSDK_CONFIG": str(server.home / "gcloud"), "CLOUDSDK_CORE_PROJECT": P}
    quiet = {"CLOUDSDK_CORE_DISABLE_PROMPTS": "1", "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true"}
    env = {**server.env, **config, **quiet}
    done = subprocess.run(
        ["gcloud", *words], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == ends, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_two_names_go_in_one_batch_and_the_one_that_is_missing_is_told(cloud: EmulatorServer) -> None:
    cloud.call("POST", NETWORKS, {"name": "batched", "autoCreateSubnetworks": False})
    said = gcloud(cloud, "compute", "networks", "delete", "batched", "nothere", ends=1)
    assert "Deleted" in said and f"The resource 'projects/{P}/global/networks/nothere' was not found" in said
    assert cloud.call("GET", f"{NETWORKS}/batched")[0] == 404


def test_a_filter_on_a_list_field_fails_as_users_report(cloud: EmulatorServer) -> None:
    words = ("compute", "firewall-rules", "list", "--filter=network:x AND sourceRanges:0.0.0.0/0")
    assert "Invalid list filter expression" in gcloud(cloud, *words, ends=1)


@pytest.mark.heavy
def test_an_administrator_sets_reads_and_takes_away_a_policy(cloud: EmulatorServer, tmp_path: Path) -> None:
    constraint = "compute.restrictVpcPeering"
    file = tmp_path / "policy.yaml"
    file.write_text(f"name: projects/{P}/policies/{constraint}\nspec:\n  rules:\n  - denyAll: true\n")
    gcloud(cloud, "org-policies", "set-policy", str(file))
    effective = ("org-policies", "describe", constraint, f"--project={P}", "--effective")
    assert "denyAll: true" in gcloud(cloud, *effective)
    gcloud(cloud, "org-policies", "delete", constraint, f"--project={P}")
    assert "allowAll: true" in gcloud(cloud, *effective)


@pytest.mark.heavy
def test_capacity_is_shared_ended_and_asked_for(cloud: EmulatorServer) -> None:
    shape = (f"--zone={ZONE}", "--machine-type=a4-highgpu-8g")
    beta = ("beta", "compute", "reservations")
    made = gcloud(
        cloud,
        *beta,
        "create",
        "short",
        *shape,
        "--vm-count=1",
        "--delete-after-duration=1d",
        "--format=value(deleteAtTime)",
    )
    assert made.strip().splitlines()[0].endswith("Z")
    for change in ("--add-share-with=123456789012", "--remove-share-with=123456789012"):
        gcloud(cloud, "compute", "reservations", "update", "nemo-res", f"--zone={ZONE}", change)
    future = ("beta", "compute", "future-reservations")
    when = ("--start-time=2099-01-01T00:00:00Z", "--end-time=2099-02-01T00:00:00Z")
    more = ("--total-count=2", "--no-auto-delete-auto-created-reservations")
    gcloud(cloud, *future, "create", "later", *shape, *when, *more)
    assert "PENDING_APPROVAL" in gcloud(cloud, *future, "list")
    gcloud(cloud, *future, "cancel", "later", f"--zone={ZONE}")
    gcloud(cloud, *future, "delete", "later", f"--zone={ZONE}")
    quota = (
        "--service=compute.googleapis.com",
        f"--project={P}",
        "--quota-id=GPUS-PER-GPU-FAMILY-per-project-region",
    )
    of = (
        "--dimensions=region=us-central1,gpu_family=NVIDIA_B200",
        "--email=a@example.com",
        "--preferred-value=64",
    )
    said = gcloud(cloud, "beta", "quotas", "preferences", "create", *quota, *of, "--preference-id=more")
    assert '"reconciling":true' in said.replace(" ", "")
