"""The real gcloud changes a cluster and its pools, and is refused: `pytest -m heavy tests/wire/test_gcloud_updates.py`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from emulator_server import start_emulator, stop_emulator
from google_clients import APIS, CLUSTER, PARENT, REGION, GoogleClients, cluster, network

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("gcloud") is None, reason="the real gcloud is not installed here"),
]
OLD, MIDDLE = "1.34.1-gke.3971000", "1.34.3-gke.1245000"
POOL = "node-pools update default-pool --cluster=nemo-cluster"
COMMANDS = {  # command -> what it says when it is refused
    "clusters resize nemo-cluster --node-pool=default-pool --num-nodes=2": "",
    f"{POOL} --enable-autoscaling --total-min-nodes=1 --total-max-nodes=9": "",
    "clusters update nemo-cluster --enable-autoscaling --node-pool=default-pool --max-nodes=3": "",
    "clusters update nemo-cluster --node-locations=us-central1-a,us-central1-b": "",
    "clusters update nemo-cluster --update-labels=team=rl": "",
    "clusters update nemo-cluster --maintenance-window=03:00": "",
    "clusters update nemo-cluster --release-channel=stable": "",
    f"clusters upgrade nemo-cluster --master --cluster-version={MIDDLE}": "",
    "clusters upgrade nemo-cluster --node-pool=default-pool": "",
    "clusters upgrade nemo-cluster --node-pool=default-pool --cluster-version=1.35": "must not have a greater minor",
    "clusters upgrade nemo-cluster --master --cluster-version=1.35": "No valid versions with the prefix",
    f"{POOL} --node-labels=a=b": "",
    f"{POOL} --max-surge-upgrade=2 --max-unavailable-upgrade=1": "",
    f"{POOL} --no-enable-autorepair": "",
    "node-pools create late --cluster=nemo-cluster --node-version=1.33.5-gke.2392000 --num-nodes=0": "",
    "operations list": "",
}


def test_gcloud_changes_what_can_be_changed_and_says_why_not(tmp_path: Path) -> None:
    server = start_emulator(tmp_path / "home", ray="none")
    try:
        server.enable(*APIS)
        clients = GoogleClients(server)
        network(clients, "nemo-net")
        asked = cluster(initial_cluster_version=OLD)
        clients.wait_for_gke(clients.container.create_cluster(parent=PARENT, cluster=asked))
        for command, refusal in COMMANDS.items():
            done = subprocess.run(
                ["gcloud", "container", *command.split(), f"--region={REGION}", "--quiet"],
                env=server.env,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert (done.returncode == 0) == (not refusal), (command, done.stdout, done.stderr)
            assert refusal in done.stderr, done.stderr
        got = clients.container.get_cluster(name=CLUSTER)
        (default, late) = got.node_pools
        assert (got.current_master_version, got.current_node_version) == (MIDDLE, late.version)
        assert default.version == MIDDLE and late.version == "1.33.5-gke.2392000"
        assert list(got.locations) == list(default.locations) == ["us-central1-a", "us-central1-b"]
        assert got.resource_labels == {"team": "rl"}
        assert default.autoscaling.max_node_count == 3 and not default.autoscaling.total_max_node_count
        assert default.upgrade_settings.max_surge == 2 and not default.management.auto_repair
        assert default.config.labels == {"a": "b"} and got.release_channel.channel.name == "STABLE"
    finally:
        stop_emulator(server)
