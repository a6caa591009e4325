"""Validate every response of a whole deployment against Google's own discovery documents."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer
from google.cloud import compute_v1
from google_clients import (
    APIS,
    CLUSTER,
    PARENT,
    PROJECT,
    REGION,
    ZONE,
    GoogleClients,
    cluster,
    firewall,
    gpu_pool,
    link,
    network,
    subnet,
)
from test_emulator_lustre import PARENT as LUSTRE_PARENT
from test_emulator_lustre import connect, create, ranged

from grpo_wizard.steps.emulator import process as emulator_process


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[EmulatorServer]:
    """A world whose server checks its own answers."""
    options = ["--home", str(tmp_path), "--speed", "max", "--ray", "none", "--check-answers"]
    command = [sys.executable, "-m", "grpo_wizard.steps.emulator", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = emulator_process.ServerAddress(**json.loads(process.stdout.readline()))
        yield EmulatorServer(address, tmp_path, tmp_path / "requests.jsonl")
        emulator_process.stop(tmp_path)


def _make(clients: GoogleClients, server: EmulatorServer) -> None:
    network(clients, "nemo-net")
    network(clients, "gvnic", auto_create_subnetworks=False)
    network(
        clients,
        "rdma",
        auto_create_subnetworks=False,
        network_profile=link("networkProfiles", f"{ZONE}-vpc-roce"),
    )
    clients.wait_for_success(subnet(clients, "gvnic-sub", "gvnic", "192.168.0.0/24"))
    clients.wait_for_success(subnet(clients, "rdma-sub", "rdma", "192.168.1.0/24"))
    clients.wait_for_success(firewall(clients, "rule", "gvnic"))
    ranged(clients, "range", "nemo-net")
    connect(server, "nemo-net", "range")
    clients.wait_for_gke(clients.container.create_cluster(parent=PARENT, cluster=cluster()))
    nets = [{"network": "gvnic", "subnetwork": "gvnic-sub"}, {"network": "rdma", "subnetwork": "rdma-sub"}]
    pool = gpu_pool(nodes=1, network_config={"additional_node_network_configs": nets})
    clients.wait_for_gke(clients.container.create_node_pool(parent=CLUSTER, node_pool=pool))
    create(clients, "nemo-lustre").result(timeout=30)


def _change(clients: GoogleClients) -> None:
    gke, pool = clients.container, f"{CLUSTER}/nodePools/gpu-pool"
    finger = gke.get_cluster(name=CLUSTER).label_fingerprint
    labels = {"name": CLUSTER, "resource_labels": {"a": "b"}, "label_fingerprint": finger}
    clients.wait_for_gke(gke.set_labels(request=labels))
    clients.wait_for_gke(
        gke.set_node_pool_autoscaling(request={"name": pool, "autoscaling": {"enabled": False}})
    )
    clients.wait_for_gke(
        gke.set_node_pool_management(request={"name": pool, "management": {"auto_repair": True}})
    )
    clients.wait_for_gke(gke.set_node_pool_size(request={"name": pool, "node_count": 2}))
    clients.wait_for_gke(gke.update_node_pool(request={"name": pool, "labels": {"labels": {"x": "y"}}}))
    clients.wait_for_gke(gke.update_master(request={"name": CLUSTER, "master_version": "latest"}))
    clients.wait_for_gke(
        gke.update_cluster(request={"name": CLUSTER, "update": {"desired_locations": [ZONE]}})
    )
    window = {"window": {"daily_maintenance_window": {"start_time": "03:00"}}}
    policy = {"name": CLUSTER, "maintenance_policy": window}
    clients.wait_for_gke(gke.set_maintenance_policy(request=policy))
    patch = compute_v1.Network(mtu=8896)
    clients.wait_for_success(
        clients.compute("Networks").patch_unary(project=PROJECT, network="gvnic", network_resource=patch)
    )


def _read(clients: GoogleClients) -> None:
    zonal: dict[str, Any] = {"project": PROJECT, "zone": ZONE}
    for name in ("MachineTypes", "AcceleratorTypes", "DiskTypes", "Reservations", "FutureReservations"):
        list(clients.compute(name).aggregated_list(project=PROJECT))
        list(clients.compute(name).list(**zonal))
    for name in (
        "Networks",
        "Firewalls",
        "GlobalAddresses",
        "Zones",
        "Regions",
        "NetworkProfiles",
        "GlobalOperations",
    ):
        list(clients.compute(name).list(project=PROJECT))
    list(clients.compute("Subnetworks").list(project=PROJECT, region=REGION))
    list(clients.compute("Subnetworks").aggregated_list(project=PROJECT))
    list(clients.compute("Addresses").aggregated_list(project=PROJECT))
    list(clients.compute("RegionOperations").list(project=PROJECT, region=REGION))
    clients.compute("MachineTypes").get(**zonal, machine_type="a4-highgpu-8g")
    clients.compute("AcceleratorTypes").get(**zonal, accelerator_type="nvidia-b200")
    clients.compute("Reservations").get(**zonal, reservation="nemo-res")
    (block,) = clients.compute("ReservationBlocks").list(**zonal, reservation="nemo-res")
    parent = f"reservations/nemo-res/reservationBlocks/{block.name}"
    clients.compute("ReservationBlocks").get(**zonal, reservation="nemo-res", reservation_block=block.name)
    (sub,) = clients.compute("ReservationSubBlocks").list(**zonal, parent_name=parent)
    clients.compute("ReservationSubBlocks").get(**zonal, parent_name=parent, reservation_sub_block=sub.name)
    clients.compute("NetworkProfiles").get(project=PROJECT, network_profile=f"{ZONE}-vpc-roce")
    clients.compute("Zones").get(**zonal)
    clients.compute("Regions").get(project=PROJECT, region=REGION)
    clients.compute("Projects").get(project=PROJECT)
    clients.compute("Firewalls").get(project=PROJECT, firewall="rule")
    clients.container.list_clusters(parent=f"projects/{PROJECT}/locations/-")
    clients.container.list_node_pools(parent=CLUSTER)
    clients.container.list_operations(parent=PARENT)
    clients.container.get_server_config(name=PARENT)
    list(clients.lustre.list_instances(parent=f"projects/{PROJECT}/locations/-"))
    clients.lustre.list_locations({"name": f"projects/{PROJECT}"})
    clients.lustre.list_operations({"name": LUSTRE_PARENT})


def _unmake(clients: GoogleClients, server: EmulatorServer) -> None:
    clients.wait_for_gke(clients.container.delete_node_pool(name=f"{CLUSTER}/nodePools/gpu-pool"))
    clients.wait_for_gke(clients.container.delete_cluster(name=CLUSTER))
    clients.lustre.delete_instance(name=f"{LUSTRE_PARENT}/instances/nemo-lustre").result(timeout=30)
    for rule in list(clients.compute("Firewalls").list(project=PROJECT)):
        clients.wait_for_success(
            clients.compute("Firewalls").delete_unary(project=PROJECT, firewall=rule.name)
        )
    server.call(
        "POST",
        f"/compute/v1/projects/{PROJECT}/global/networks/nemo-net/removePeering",
        {"name": "servicenetworking-googleapis-com"},
    )
    clients.wait_for_success(
        clients.compute("GlobalAddresses").delete_unary(project=PROJECT, address="range")
    )
    for name in ("gvnic-sub", "rdma-sub"):
        delete = clients.compute("Subnetworks").delete_unary
        clients.wait_for_success(delete(project=PROJECT, region=REGION, subnetwork=name))
    for name in ("nemo-net", "gvnic", "rdma"):
        clients.wait_for_success(clients.compute("Networks").delete_unary(project=PROJECT, network=name))


def test_every_answer_of_a_whole_round_fits_its_schema_and_nothing_is_left(checked: EmulatorServer) -> None:
    checked.enable(*APIS)
    clients = GoogleClients(checked)
    _make(clients, checked)
    _change(clients)
    _read(clients)
    _unmake(clients, checked)
    _, found = checked.call("GET", "/_rehearsal/answers")
    own = [name for name in found["checked"] if name.split(".")[0] in ("compute", "container", "lustre")]
    print(f"{len(own)} methods, {sum(found['checked'].values())} answers compared")
    assert found["violations"] == []
    assert len(own) >= 60
    assert [row for row in checked.cloud_resources() if not row["kept_by_design"]] == []
