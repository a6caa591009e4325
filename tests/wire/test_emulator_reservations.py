"""Reservations in every form, and failing operations: GKE's and Compute's errors and what they leave behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator
from google.api_core import exceptions
from google.cloud import compute_v1
from google_clients import APIS, CLUSTER, PARENT, PROJECT, ZONE, GoogleClients, cluster, gpu_pool, network

from grpo_wizard.steps.emulator import process


@pytest.fixture(scope="module")
def clients(shared_rehearsal: EmulatorServer) -> GoogleClients:
    shared_rehearsal.enable(*APIS)
    made = GoogleClients(shared_rehearsal)
    network(made, "nemo-net")
    made.wait_for_gke(made.container.create_cluster(parent=PARENT, cluster=cluster()))
    return made


def reserve(
    clients: GoogleClients,
    name: str,
    machine: str = "a4-highgpu-8g",
    count: int = 2,
    project: str = PROJECT,
    **fields: Any,
) -> None:
    """Makes a reservation."""
    specific = {"count": count, "instance_properties": {"machine_type": machine}}
    body = compute_v1.Reservation(
        name=name, specific_reservation_required=True, specific_reservation=specific, **fields
    )
    operation = clients.compute("Reservations").insert_unary(
        project=project, zone=ZONE, reservation_resource=body
    )
    done = clients.compute("ZoneOperations").wait(project=project, zone=ZONE, operation=operation.name)
    assert not done.error.errors


def take(clients: GoogleClients, reservation: str, name: str = "probe") -> None:
    """Makes a pool of one node from a reservation, then deletes it."""
    pool = gpu_pool(name, 1, reservation, autoscaling={})
    clients.wait_for_gke(clients.container.create_node_pool(parent=CLUSTER, node_pool=pool))
    clients.wait_for_gke(clients.container.delete_node_pool(name=f"{CLUSTER}/nodePools/{name}"))


BLOCK = "reservationBlocks/nemo-res-block-0001"
SUB_BLOCK = (
    f"projects/{PROJECT}/reservations/nemo-res/{BLOCK}/reservationSubBlocks/nemo-res-block-0001-subblock-0001"
)


@pytest.mark.parametrize(
    "value",
    [
        "nemo-res",
        f"projects/{PROJECT}/reservations/nemo-res",
        f"nemo-res/{BLOCK}",
        SUB_BLOCK,
        f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}/reservations/nemo-res",
    ],
)
def test_a_reservation_is_found_in_every_form(clients: GoogleClients, value: str) -> None:
    take(clients, value)


@pytest.mark.parametrize("value", ["nemo-res-h200", "nemo-res/reservationBlocks/other"])
def test_one_that_does_not_fit_is_short_and_not_a_stockout(clients: GoogleClients, value: str) -> None:
    with pytest.raises(
        exceptions.TooManyRequests, match="required 1 and short of 1 VM count of machine type"
    ):
        take(clients, value)


@pytest.mark.parametrize("value", ["no-res", "projects/other-project/reservations/nemo-res"])
def test_one_that_is_not_there_is_not_found(clients: GoogleClients, value: str) -> None:
    """GKE's words: GoogleCloudPlatform/cluster-toolkit pull 5043."""
    with pytest.raises(exceptions.NotFound, match=f'reservation "{value}" not found for node pool'):
        take(clients, value)


def test_another_projects_reservation_serves_only_whom_it_is_shared_with(
    clients: GoogleClients, shared_rehearsal: EmulatorServer
) -> None:
    shared_rehearsal.enable("cloudresourcemanager.googleapis.com", "cloudbilling.googleapis.com")
    _, operation = shared_rehearsal.call(
        "POST", "/cloudresourcemanager/v1/projects", {"projectId": "owner-project"}
    )
    while not operation.get("done"):
        _, operation = shared_rehearsal.call("GET", f"/cloudresourcemanager/v1/{operation['name']}")
    _, accounts = shared_rehearsal.call("GET", "/cloudbilling/v1/billingAccounts")
    billing = {"billingAccountName": accounts["billingAccounts"][0]["name"]}
    shared_rehearsal.call("PUT", "/cloudbilling/v1/projects/owner-project/billingInfo", billing)
    shared_rehearsal.enable("compute.googleapis.com", project="owner-project")
    everybody = {"share_type": "SPECIFIC_PROJECTS", "project_map": {PROJECT: {"project_id": PROJECT}}}
    reserve(clients, "shared-res", project="owner-project", share_settings=everybody)
    reserve(clients, "own-res", project="owner-project")
    take(clients, "projects/owner-project/reservations/shared-res")
    own = "projects/owner-project/reservations/own-res"
    path = f"/compute/v1/projects/owner-project/zones/{ZONE}/reservations/own-res?paths=shareSettings.projectMap.123456789012"
    shares = {"shareType": "SPECIFIC_PROJECTS", "projectMap": {"123456789012": {"projectId": "123456789012"}}}
    with pytest.raises(exceptions.TooManyRequests, match="short of 1"):
        take(clients, own)
    assert shared_rehearsal.call("PATCH", path, {"shareSettings": shares})[0] == 200
    take(clients, own)
    shares = {"shareType": "SPECIFIC_PROJECTS"}  # the path without its value: that project goes
    assert shared_rehearsal.call("PATCH", path, {"shareSettings": shares})[0] == 200
    with pytest.raises(exceptions.TooManyRequests, match="short of 1"):
        take(clients, own)


def test_a_reservation_is_made_resized_and_deleted(clients: GoogleClients) -> None:
    reserve(clients, "mine", "a3-ultragpu-8g", 3, delete_at_time="2027-01-01T00:00:00Z")
    reservations = clients.compute("Reservations")
    size = compute_v1.ReservationsResizeRequest(specific_sku_count=5)
    where = {"project": PROJECT, "zone": ZONE, "reservation": "mine"}
    clients.wait_for_success(reservations.resize_unary(**where, reservations_resize_request_resource=size))
    got = reservations.get(**where)
    assert (got.specific_reservation.count, got.delete_at_time) == (5, "2027-01-01T00:00:00Z")
    clients.wait_for_success(reservations.delete_unary(**where))
    with pytest.raises(exceptions.NotFound):
        reservations.get(**where)
    with pytest.raises(exceptions.BadRequest, match="Machine type does not exist in zone"):
        reserve(clients, "nowhere", "a4x-highgpu-4g")


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[GoogleClients]:
    """A world where the first operation of each kind fails."""
    compute, gke = "compute.googleapis.com", "container.googleapis.com"
    faults = [
        (
            {"service": compute, "method": "POST", "path": "*/networks", "nth": 1},
            {"errors": [{"code": "QUOTA_EXCEEDED", "message": "Quota 'NETWORKS' exceeded."}]},
        ),
        (
            {"service": gke, "method": "POST", "path": "*/clusters", "nth": 1},
            {
                "code": 9,
                "message": "Constraint constraints/compute.requireShieldedVm violated [CONDITION_NOT_MET]",
            },
        ),
        (
            {"service": gke, "method": "POST", "path": "*/nodePools", "nth": 1},
            {"code": 8, "message": "[GCE_STOCKOUT] no capacity", "heals_after_s": 60},
        ),
    ]
    file = tmp_path / "faults.json"
    file.write_text(
        json.dumps([{"match": match, "do": {"operation_error": error}} for match, error in faults])
    )
    server = start_emulator(tmp_path / "home", faults=file, ray="none")
    server.enable(*APIS)
    yield GoogleClients(server)
    process.stop(server.home)


def test_failed_operations_leave_what_google_leaves_and_a_pool_in_error_may_heal(
    faulty: GoogleClients,
) -> None:
    body = compute_v1.Network(name="nemo-net", auto_create_subnetworks=True)
    done = faulty.wait_for_operation(
        faulty.compute("Networks").insert_unary(project=PROJECT, network_resource=body)
    )
    assert (done.status.name, done.http_error_status_code, done.error.errors[0].code) == (
        "DONE",
        403,
        "QUOTA_EXCEEDED",
    )
    with pytest.raises(exceptions.NotFound):
        faulty.compute("Networks").get(project=PROJECT, network="nemo-net")
    network(faulty, "nemo-net")
    failed = faulty.wait_for_gke(faulty.container.create_cluster(parent=PARENT, cluster=cluster()))
    got = faulty.container.get_cluster(name=CLUSTER)
    assert failed.error.code == 9 and got.status.name == "ERROR" and "requireShieldedVm" in got.status_message
    with pytest.raises(exceptions.Conflict):
        faulty.container.create_cluster(parent=PARENT, cluster=cluster())
    faulty.wait_for_gke(faulty.container.delete_cluster(name=CLUSTER))
    faulty.wait_for_gke(faulty.container.create_cluster(parent=PARENT, cluster=cluster()))
    failed = faulty.wait_for_gke(
        faulty.container.create_node_pool(parent=CLUSTER, node_pool=gpu_pool(nodes=2, autoscaling={}))
    )
    assert "GCE_STOCKOUT" in failed.status_message

    pool = faulty.container.get_node_pool(name=f"{CLUSTER}/nodePools/gpu-pool")
    assert pool.status.name == "RUNNING"  # it healed: at speed max its 60 s are over at once
    used = faulty.compute("Reservations").get(project=PROJECT, zone=ZONE, reservation="nemo-res")
    assert used.specific_reservation.in_use_count == 2
