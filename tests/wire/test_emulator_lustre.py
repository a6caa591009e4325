"""The emulator's Managed Lustre, used through Google's Python client over HTTP."""

from __future__ import annotations

import ipaddress
import uuid
from typing import Any

import pytest
from emulator_server import EmulatorServer
from google.api_core import exceptions
from google.cloud import compute_v1, lustre_v1
from google_clients import APIS, PROJECT, ZONE, GoogleClients, link, network
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.steps.emulator.context import ApiError
from grpo_wizard.steps.emulator.google.lustre.tiers import TIERS, get_tier

PARENT = f"projects/{PROJECT}/locations/{ZONE}"


def connect(server: EmulatorServer, net: str, *ranges: str) -> None:
    """Connects a network to Google's producers."""
    body = {"network": f"projects/123456789012/global/networks/{net}", "reservedPeeringRanges": list(ranges)}
    path = "/servicenetworking/v1/services/servicenetworking.googleapis.com/connections"
    status, operation = server.call("POST", path, body)
    while status == 200 and not operation.get("done"):
        status, operation = server.call("GET", f"/servicenetworking/v1/{operation['name']}")
    assert status == 200 and "error" not in operation, operation


def ranged(clients: GoogleClients, name: str, net: str, length: int = 20) -> compute_v1.Address:
    """Reserves a range."""
    body = compute_v1.Address(
        name=name,
        purpose="VPC_PEERING",
        address_type="INTERNAL",
        prefix_length=length,
        network=link("networks", net),
    )
    clients.wait_for_success(
        clients.compute("GlobalAddresses").insert_unary(project=PROJECT, address_resource=body)
    )
    return clients.compute("GlobalAddresses").get(project=PROJECT, address=name)


@pytest.fixture(scope="module")
def clients(shared_rehearsal: EmulatorServer) -> GoogleClients:
    shared_rehearsal.enable(*APIS)
    made = GoogleClients(shared_rehearsal)
    network(made, "nemo-net")
    ranged(made, "nemo-range", "nemo-net")
    connect(shared_rehearsal, "nemo-net", "nemo-range")
    return made


def instance(net: str = "nemo-net", **fields: Any) -> lustre_v1.Instance:
    """The tutorial's instance."""
    return lustre_v1.Instance(
        **{
            "filesystem": "lustrefs",
            "capacity_gib": 18000,
            "per_unit_storage_throughput": 500,
            "network": link("networks", net),
            "gke_support_enabled": True,
            **fields,
        }
    )


def create(clients: GoogleClients, name: str, **fields: Any) -> Any:
    """Asks for an instance; returns the client's own future."""
    return clients.lustre.create_instance(parent=PARENT, instance=instance(**fields), instance_id=name)


def test_an_instance_becomes_active_with_a_mount_point_in_the_range(clients: GoogleClients) -> None:
    made = create(clients, "first").result(timeout=30)
    assert made.state == lustre_v1.Instance.State.ACTIVE
    host, _, rest = made.mount_point.partition("@")
    got = clients.compute("GlobalAddresses").get(project=PROJECT, address="nemo-range")
    assert ipaddress.ip_address(host) in ipaddress.ip_network(f"{got.address}/{got.prefix_length}")
    assert host.endswith(".2") and rest == "tcp:/lustrefs"


def test_its_name_twice_is_409_but_the_same_request_id_is_the_same_operation(clients: GoogleClients) -> None:
    request = {
        "parent": PARENT,
        "instance": instance(),
        "instance_id": "once",
        "request_id": str(uuid.uuid4()),
    }
    first = clients.lustre.create_instance(request=request)
    again = clients.lustre.create_instance(request=request)
    assert again.operation.name == first.operation.name
    with pytest.raises(exceptions.Conflict, match="already exists"):
        create(clients, "once")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"capacity_gib": 9000}, r"nearest valid capacity is 18000 GiB"),
        ({"capacity_gib": 20000}, r"nearest valid capacity is 18000 or 36000 GiB"),
        ({"per_unit_storage_throughput": 400}, r"Supported values are 1000, 500, 250, 125"),
        ({"filesystem": "toolongname"}, "Invalid filesystem name"),
        ({"network": link("networks", "no-net")}, "was not found"),
    ],
)
def test_an_instance_that_cannot_be_is_refused(
    clients: GoogleClients, fields: dict[str, Any], error: str
) -> None:
    with pytest.raises(exceptions.BadRequest, match=error):
        create(clients, "bad", **fields)


def test_a_network_without_a_connection_is_refused(clients: GoogleClients) -> None:
    network(clients, "alone")
    with pytest.raises(exceptions.BadRequest, match="no private services connection"):
        create(clients, "alone", net="alone")


def test_a_range_that_is_used_up_fails_the_operation(
    clients: GoogleClients, shared_rehearsal: EmulatorServer
) -> None:
    network(clients, "tight")
    ranged(clients, "tight-range", "tight", 24)
    connect(shared_rehearsal, "tight", "tight-range")
    create(clients, "fits", net="tight").result(timeout=30)
    with pytest.raises(
        exceptions.ResourceExhausted, match="Couldn't find free blocks in allocated IP ranges"
    ):
        create(clients, "too-many", net="tight").result(timeout=30)
    with pytest.raises(exceptions.NotFound):
        clients.lustre.get_instance(name=f"{PARENT}/instances/too-many")


def test_capacity_grows_in_steps_and_never_shrinks(clients: GoogleClients) -> None:
    create(clients, "growing").result(timeout=30)
    name = f"{PARENT}/instances/growing"

    def grow(gib: int) -> Any:
        body = lustre_v1.Instance(name=name, capacity_gib=gib)
        return clients.lustre.update_instance(instance=body, update_mask={"paths": ["capacity_gib"]})

    assert grow(36000).result(timeout=30).capacity_gib == 36000
    with pytest.raises(exceptions.BadRequest, match="cannot be decreased"):
        grow(18000)
    with pytest.raises(exceptions.BadRequest, match="cannot be increased beyond"):
        grow(3_168_000)


def test_the_range_and_the_network_are_held_while_connected(clients: GoogleClients) -> None:
    with pytest.raises(
        exceptions.BadRequest, match=r"The global_address resource .* is already being used by"
    ):
        clients.compute("GlobalAddresses").delete_unary(project=PROJECT, address="nemo-range")
    peerings = clients.compute("Networks").get(project=PROJECT, network="nemo-net").peerings
    assert [(one.name, one.state) for one in peerings] == [("servicenetworking-googleapis-com", "ACTIVE")]


def test_data_goes_out_and_in_and_the_operation_says_so(clients: GoogleClients) -> None:
    create(clients, "moved").result(timeout=30)
    name = f"{PARENT}/instances/moved"
    out = {"name": name, "gcs_path": {"uri": "gs://bucket/out/"}, "lustre_path": {"path": "/"}}
    assert isinstance(
        clients.lustre.export_data(request=out).result(timeout=30), lustre_v1.ExportDataResponse
    )
    assert isinstance(
        clients.lustre.import_data(request=out).result(timeout=30), lustre_v1.ImportDataResponse
    )
    with pytest.raises(exceptions.BadRequest, match="Must be gs://"):
        clients.lustre.export_data(request={**out, "gcs_path": {"uri": "s3://bucket"}})


def test_deleting_takes_it_away(clients: GoogleClients) -> None:
    create(clients, "leaving").result(timeout=30)
    clients.lustre.delete_instance(name=f"{PARENT}/instances/leaving").result(timeout=30)
    with pytest.raises(exceptions.NotFound):
        clients.lustre.get_instance(name=f"{PARENT}/instances/leaving")
    assert "leaving" not in {
        one.name.rsplit("/", 1)[-1] for one in clients.lustre.list_instances(parent=PARENT)
    }


@settings(derandomize=True, max_examples=200)
@given(st.sampled_from(sorted(TIERS)), st.integers(1, 25_000_000))
def test_a_refused_capacity_is_never_near_a_refused_suggestion(throughput: int, gib: int) -> None:
    tier = TIERS[throughput]
    try:
        get_tier(throughput, gib)
        assert tier.min_gib <= gib <= tier.max_gib
    except ApiError as refusal:
        assert str(gib) in refusal.message
        for near in tier.nearest(gib):
            get_tier(throughput, near)
