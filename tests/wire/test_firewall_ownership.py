"""Whose firewall rules on our network: what GKE left behind goes with it, a living cluster's own rules stay."""

from __future__ import annotations

import contextlib
from pathlib import Path

from emulator_server import start_emulator, stop_emulator
from google_clients import APIS, PARENT, GoogleClients, cluster, firewall, network

from grpo_wizard.steps.clients.audit import discard
from grpo_wizard.steps.clients.connect import connect_emulator
from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.google.compute import NetworkDriver
from grpo_wizard.steps.core.model import ObservedState, Resource

PROJECT = "my-project"
TAG = "gke-nemo-cluster-0a1b2c3d-node"
STRANGERS = {  # rules of people on our network, each unlike GKE's in one point
    "gke-nemo-cluster-deadbeef-all": {},
    "gke-nemo-cluster-0a1b2c3d-mine": {"target_tags": [TAG], "description": "stranger made this"},
    "k8s-fw-theirs": {"target_tags": ["gke-their-cluster-0a1b2c3d-node"]},
    "k8s-of-two-node-hc": {"target_tags": [TAG, "bastion"]},
    "nemo-cluster-web": {"target_tags": [TAG]},
}


def _take_down(server_home: Path, name: str) -> list[str]:
    """Asks our driver to delete a network; what it told."""
    told: list[str] = []
    cloud = connect_emulator(server_home, None, discard, {})
    where = {"project": PROJECT, "gke": "nemo-cluster"}
    task = ResourceContext(
        Resource(step="networks", kind="network", name=name, spec={}, parent=where), {}, "", emit=told.append
    )
    with contextlib.suppress(CloudError):
        NetworkDriver().delete(cloud, task, ObservedState("ready"))
    return told


def test_a_living_clusters_rules_stay_and_those_left_behind_go(tmp_path: Path) -> None:
    server = start_emulator(tmp_path / "home", ray="none")
    try:
        server.enable(*APIS)
        clients = GoogleClients(server)
        network(clients, "nemo-net")
        network(clients, "other-net")
        for net in ("nemo-net", "other-net"):
            clients.wait_for_success(firewall(clients, f"k8s-of-{net}-node-http-hc", net, target_tags=[TAG]))
        clients.wait_for_gke(clients.container.create_cluster(parent=PARENT, cluster=cluster("theirs")))
        assert _take_down(server.home, "nemo-net") == []
        left = {rule.name for rule in clients.compute("Firewalls").list(project=PROJECT)}
        assert "k8s-of-nemo-net-node-http-hc" in left and any(name.startswith("gke-theirs-") for name in left)
        assert len(_take_down(server.home, "other-net")) == 1
        left = {rule.name for rule in clients.compute("Firewalls").list(project=PROJECT)}
        assert "k8s-of-other-net-node-http-hc" not in left
    finally:
        stop_emulator(server)


def test_no_rule_that_a_person_made_goes_however_it_is_named(tmp_path: Path) -> None:
    server = start_emulator(tmp_path / "home", ray="none")
    try:
        server.enable(*APIS)
        clients = GoogleClients(server)
        network(clients, "nemo-net")
        for name, more in STRANGERS.items():
            clients.wait_for_success(firewall(clients, name, "nemo-net", **more))
        assert _take_down(server.home, "nemo-net") == []
        assert {rule.name for rule in clients.compute("Firewalls").list(project=PROJECT)} == set(STRANGERS)
    finally:
        stop_emulator(server)
