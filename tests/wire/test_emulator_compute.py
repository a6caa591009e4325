"""The emulator's Compute, used through Google's Python client over HTTP."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from emulator_server import EmulatorServer
from google.api_core import exceptions
from google.cloud import compute_v1
from google_clients import APIS, PROJECT, REGION, ZONE, GoogleClients, firewall, link, network, subnet


@pytest.fixture(scope="module")
def clients(shared_rehearsal: EmulatorServer) -> GoogleClients:
    shared_rehearsal.enable(*APIS)
    return GoogleClients(shared_rehearsal)


def test_an_automatic_network_has_one_subnet_a_region(clients: GoogleClients) -> None:
    network(clients, "auto-net")
    got = clients.compute("Networks").get(project=PROJECT, network="auto-net")
    regions = list(clients.compute("Regions").list(project=PROJECT))
    assert len(got.subnetworks) == len(regions) > 40
    assert (
        clients.compute("Subnetworks")
        .get(project=PROJECT, region=REGION, subnetwork="auto-net")
        .ip_cidr_range
        == "10.128.0.0/20"
    )


def test_the_same_name_twice_is_409_in_googles_words(clients: GoogleClients) -> None:
    network(clients, "twice", auto_create_subnetworks=False)
    with pytest.raises(
        exceptions.Conflict, match=r"The resource 'projects/my-project/global/networks/twice' already exists"
    ):
        network(clients, "twice", auto_create_subnetworks=False)


def test_the_same_request_id_gives_the_same_operation(clients: GoogleClients) -> None:
    body = compute_v1.Network(name="by-request", auto_create_subnetworks=False)
    request = compute_v1.InsertNetworkRequest(
        project=PROJECT, network_resource=body, request_id=str(uuid.uuid4())
    )
    first = clients.compute("Networks").insert_unary(request=request)
    assert clients.compute("Networks").insert_unary(request=request).name == first.name


@pytest.mark.parametrize("name", ["Nemo_Net", "-a", "a" * 64, "9lives"])
def test_a_name_that_rfc1035_refuses_is_refused(clients: GoogleClients, name: str) -> None:
    with pytest.raises(exceptions.BadRequest, match=r"resource\.name"):
        network(clients, name)


def test_what_is_not_there_is_404(clients: GoogleClients) -> None:
    with pytest.raises(
        exceptions.NotFound, match=r"The resource 'projects/my-project/global/networks/no-net' was not found"
    ):
        clients.compute("Networks").get(project=PROJECT, network="no-net")


def test_overlapping_subnets_are_refused_and_name_each_other(clients: GoogleClients) -> None:
    network(clients, "over", auto_create_subnetworks=False)
    clients.wait_for_success(subnet(clients, "over-1", "over", "192.168.1.0/24"))
    with pytest.raises(
        exceptions.BadRequest, match=r"conflicts with existing subnetwork 'over-1' in region 'us-central1'"
    ):
        subnet(clients, "over-2", "over", "192.168.0.0/16")
    with pytest.raises(exceptions.BadRequest, match="ipCidrRange"):
        subnet(clients, "over-3", "over", "192.168.5.1/24")


def test_a_network_in_use_cannot_be_deleted(clients: GoogleClients) -> None:
    network(clients, "used", auto_create_subnetworks=False)
    clients.wait_for_success(firewall(clients, "used-rule", "used"))
    with pytest.raises(
        exceptions.BadRequest,
        match=r"The network resource 'projects/my-project/global/networks/used' is already being used "
        r"by 'projects/my-project/global/firewalls/used-rule'",
    ):
        clients.compute("Networks").delete_unary(project=PROJECT, network="used")
    clients.wait_for_success(clients.compute("Firewalls").delete_unary(project=PROJECT, firewall="used-rule"))
    clients.wait_for_success(clients.compute("Networks").delete_unary(project=PROJECT, network="used"))
    with pytest.raises(exceptions.NotFound):
        clients.compute("Networks").get(project=PROJECT, network="used")


def test_a_roce_network_wants_its_zones_region_and_takes_no_firewall_rule(clients: GoogleClients) -> None:
    profile = link("networkProfiles", f"{ZONE}-vpc-roce")
    network(clients, "rdma", auto_create_subnetworks=False, network_profile=profile)
    assert clients.compute("Networks").get(project=PROJECT, network="rdma").mtu == 8896
    with pytest.raises(exceptions.BadRequest, match="allows subnetworks in region 'us-central1' only"):
        subnet(clients, "rdma-0", "rdma", "192.168.1.0/24", region="us-east4")
    with pytest.raises(exceptions.BadRequest, match="not supported in a network with network profile"):
        firewall(clients, "rdma-rule", "rdma")


@pytest.mark.parametrize(
    ("profile", "error"),
    [
        (f"{ZONE}-vpc-roce", "The URL is malformed"),
        (link("networkProfiles", "us-central1-a-vpc-roce"), "was not found"),
    ],
)
def test_a_profile_that_is_bare_or_of_another_zone_is_refused(
    clients: GoogleClients, profile: str, error: str
) -> None:
    with pytest.raises(exceptions.GoogleAPICallError, match=error):
        network(clients, "bad-profile", auto_create_subnetworks=False, network_profile=profile)


def test_a_range_is_found_that_overlaps_nothing(clients: GoogleClients) -> None:
    import ipaddress

    network(clients, "ranged")
    for number in range(4):
        body = compute_v1.Address(
            name=f"range-{number}",
            purpose="VPC_PEERING",
            address_type="INTERNAL",
            prefix_length=20,
            network=link("networks", "ranged"),
            labels={"grpo-wizard": "x"},
        )
        clients.wait_for_success(
            clients.compute("GlobalAddresses").insert_unary(project=PROJECT, address_resource=body)
        )
    got = [
        one
        for one in clients.compute("GlobalAddresses").list(project=PROJECT)
        if one.name.startswith("range-")
    ]
    nets = [ipaddress.IPv4Network(f"{one.address}/{one.prefix_length}") for one in got]
    assert len(nets) == 4 and not any(a.overlaps(b) for a in nets for b in nets if a is not b)
    assert not any(net.overlaps(ipaddress.IPv4Network("10.128.0.0/9")) for net in nets)
    assert got[0].labels == {"grpo-wizard": "x"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (r'network eq ".*\bfilt\-a\b.*"', {"filt-one"}),
        ("name = filt-two", {"filt-two"}),
        ('name eq "filt-(one|two)"', {"filt-one", "filt-two"}),
        ("name != filt-one AND name:filt", {"filt-two"}),
        ('(name = "filt-one") OR (name = "filt-two")', {"filt-one", "filt-two"}),
        ("NOT name:filt", set()),
        ("direction = EGRESS", set()),
    ],
)
def test_filters_are_honoured(clients: GoogleClients, text: str, names: set[str]) -> None:
    rules = clients.compute("Firewalls")
    for net, rule in (("filt-a", "filt-one"), ("filt-b", "filt-two")):
        try:
            network(clients, net, auto_create_subnetworks=False)
            clients.wait_for_success(firewall(clients, rule, net))
        except exceptions.Conflict:
            pass
    found = {one.name for one in rules.list(request={"project": PROJECT, "filter": text})}
    assert {name for name in found if name.startswith("filt")} == names


def test_a_filter_that_cannot_be_read_is_400(clients: GoogleClients) -> None:
    with pytest.raises(exceptions.BadRequest, match="Invalid list filter expression"):
        list(clients.compute("Firewalls").list(request={"project": PROJECT, "filter": 'name eq "['}))


def test_lists_come_in_pages(clients: GoogleClients) -> None:
    request = compute_v1.ListMachineTypesRequest(project=PROJECT, zone=ZONE, max_results=3)
    pages = list(clients.compute("MachineTypes").list(request=request).pages)
    names = [item.name for page in pages for item in page.items]
    assert len(pages) > 3 and len(names) == len(set(names))


def test_aggregated_lists_say_where_a_thing_is(clients: GoogleClients) -> None:
    request = {"project": PROJECT, "filter": "name = nvidia-b200"}
    scopes = {
        scope
        for scope, found in clients.compute("AcceleratorTypes").aggregated_list(request=request)
        if found.accelerator_types
    }
    assert "zones/us-central1-b" in scopes and "zones/us-central1-a" not in scopes and len(scopes) == 11


def test_the_ground_has_two_reservations(clients: GoogleClients) -> None:
    got = clients.compute("Reservations").get(project=PROJECT, zone=ZONE, reservation="nemo-res")
    assert (got.status, got.specific_reservation.count, got.specific_reservation.in_use_count) == (
        "READY",
        4,
        0,
    )
    assert (
        got.specific_reservation_required
        and got.specific_reservation.instance_properties.machine_type == "a4-highgpu-8g"
    )
    found = {
        one.name
        for _, scope in clients.compute("Reservations").aggregated_list(project=PROJECT)
        for one in scope.reservations
    }
    assert found == {"nemo-res", "nemo-res-h200"}


def test_a_reservation_has_a_block_and_a_sub_block(clients: GoogleClients) -> None:
    (block,) = clients.compute("ReservationBlocks").list(project=PROJECT, zone=ZONE, reservation="nemo-res")
    parent = f"reservations/nemo-res/reservationBlocks/{block.name}"
    (sub,) = clients.compute("ReservationSubBlocks").list(project=PROJECT, zone=ZONE, parent_name=parent)
    assert (block.count, block.in_use_count, sub.count) == (4, 0, 4)


def test_regional_quotas_know_no_b200_and_no_h200(clients: GoogleClients) -> None:
    quotas: list[Any] = clients.compute("Regions").get(project=PROJECT, region=REGION).quotas
    metrics = {one.metric for one in quotas}
    assert "N2_CPUS" in metrics and not any("B200" in name or "H200" in name for name in metrics)


def test_networks_run_out_at_the_projects_quota(clients: GoogleClients) -> None:
    quota = next(q for q in clients.compute("Projects").get(project=PROJECT).quotas if q.metric == "NETWORKS")
    for number in range(int(quota.limit - quota.usage)):
        network(clients, f"many-{number}", auto_create_subnetworks=False)
    with pytest.raises(exceptions.Forbidden, match=r"Quota 'NETWORKS' exceeded"):
        network(clients, "one-too-many", auto_create_subnetworks=False)
