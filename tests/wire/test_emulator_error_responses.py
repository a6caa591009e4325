"""Google's error responses: APIs, quota projects, billing, IAM, policies, and Compute's own errors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator

from grpo_wizard.steps.emulator import process

JSON = dict[str, Any]
P, NUMBER, ZONE = "my-project", "123456789012", "us-central1-b"
ROOT = f"/compute/v1/projects/{P}/global"
SUBNETS = f"/compute/v1/projects/{P}/regions/us-central1/subnetworks"
CRM = f"/cloudresourcemanager/v3/projects/{P}"
ACCOUNT = "billingAccounts/012345-567890-ABCDEF"


@pytest.fixture(scope="module")
def cloud(shared_rehearsal: EmulatorServer) -> EmulatorServer:
    names = (
        "compute",
        "container",
        "cloudresourcemanager",
        "cloudbilling",
        "cloudquotas",
        "orgpolicy",
        "lustre",
    )
    shared_rehearsal.enable(*(f"{name}.googleapis.com" for name in (*names, "servicenetworking")))
    for name, more in (("plain", {}), ("auto", {"autoCreateSubnetworks": True})):
        made(shared_rehearsal, f"{ROOT}/networks", {"name": name, "autoCreateSubnetworks": False, **more})
    return shared_rehearsal


def made(server: EmulatorServer, path: str, body: JSON) -> JSON:
    """Makes a thing of Compute and waits for it."""
    status, operation = server.call("POST", path, body)
    assert status == 200, operation
    where = path.split("/reservations")[0].split("/subnetworks")[0]
    where = where if "/global" not in where else ROOT
    return dict(server.call("POST", f"{where}/operations/{operation['name']}/wait")[1])


def info(answer: JSON) -> JSON:
    """The ErrorInfo of a refusal."""
    (found,) = [one for one in answer["error"]["details"] if one["@type"].endswith("google.rpc.ErrorInfo")]
    return dict(found)


def test_an_api_that_was_never_enabled_names_consumer_and_where_to_enable_it(
    rehearsal: EmulatorServer,
) -> None:
    for path in (f"{ROOT}/networks", f"/lustre/v1/projects/{P}/locations/-/instances"):
        status, answer = rehearsal.call("GET", path)
        found = info(answer)
        service = "compute.googleapis.com" if path.startswith("/compute") else "lustre.googleapis.com"
        assert (status, answer["error"]["status"], found["reason"]) == (
            403,
            "PERMISSION_DENIED",
            "SERVICE_DISABLED",
        )
        assert found["metadata"] == {
            "service": service,
            "consumer": f"projects/{NUMBER}",
            "activationUrl": f"https://console.developers.google.com/apis/api/{service}/overview?project={NUMBER}",
        }
    assert (
        rehearsal.call("GET", f"{ROOT}/networks")[1]["error"]["errors"][0]["reason"] == "accessNotConfigured"
    )


def test_a_person_without_a_quota_project_is_refused_by_some_apis(rehearsal: EmulatorServer) -> None:
    rehearsal.enable("cloudresourcemanager.googleapis.com", "compute.googleapis.com")
    assert rehearsal.call("GET", CRM)[0] == 200, "as a service account's call"
    assert rehearsal.call("POST", "/_rehearsal/drills/no-quota-project")[0] == 200
    status, answer = rehearsal.call("GET", CRM)
    assert (
        status == 403
        and "requires a quota project, which is not set by default" in answer["error"]["message"]
    )
    assert (
        info(answer)["reason"] == "SERVICE_DISABLED"
        and info(answer)["metadata"]["consumer"] == "projects/764086051850"
    )
    assert rehearsal.call("GET", CRM, headers={"x-goog-user-project": P})[0] == 200
    assert rehearsal.call("GET", CRM, headers={"User-Agent": "google-cloud-sdk gcloud/528"})[0] == 200
    assert rehearsal.call("GET", f"{ROOT}/networks")[0] == 200, "Compute asks for none"
    rehearsal.call("DELETE", "/_rehearsal/drills/no-quota-project")
    assert rehearsal.call("GET", CRM)[0] == 200


def test_a_quota_project_that_is_not_there_or_lacks_the_api_is_refused(cloud: EmulatorServer) -> None:
    status, answer = cloud.call("GET", CRM, headers={"X-Goog-User-Project": "nobodys"})
    assert (status, info(answer)["reason"]) == (403, "USER_PROJECT_DENIED")
    assert "roles/serviceusage.serviceUsageConsumer" in answer["error"]["message"]
    new_project(cloud, "bare-project")
    status, answer = cloud.call("GET", CRM, headers={"X-Goog-User-Project": "bare-project"})
    assert (status, info(answer)["reason"]) == (403, "SERVICE_DISABLED")


def new_project(server: EmulatorServer, name: str) -> None:
    _, operation = server.call("POST", "/cloudresourcemanager/v3/projects", {"projectId": name})
    while not operation.get("done"):
        _, operation = server.call("GET", f"/cloudresourcemanager/v3/{operation['name']}")


def test_without_billing_what_costs_money_is_refused(cloud: EmulatorServer) -> None:
    new_project(cloud, "paid-for")
    billing = "/cloudbilling/v1/projects/paid-for/billingInfo"
    networks = "/compute/v1/projects/paid-for/global/networks"
    assert cloud.call("PUT", billing, {"billingAccountName": ACCOUNT})[0] == 200
    cloud.enable("compute.googleapis.com", project="paid-for")
    assert cloud.call("GET", networks)[0] == 200
    assert cloud.call("PUT", billing, {"billingAccountName": ""})[1]["billingEnabled"] is False
    status, answer = cloud.call("GET", networks)
    assert (status, info(answer)["reason"]) == (403, "BILLING_DISABLED")
    assert "Please enable billing on project #paid-for" in answer["error"]["message"]
    assert cloud.call("GET", "/serviceusage/v1/projects/paid-for/services?filter=state:ENABLED")[0] == 200
    cloud.call("PUT", billing, {"billingAccountName": ACCOUNT})
    assert cloud.call("GET", networks)[0] == 200


def subnet(cidr: str, network: str = "plain", **fields: Any) -> JSON:
    return {"name": "s" + cidr.split("/")[0].replace(".", "-"), "network": f"projects/{P}/global/networks/{network}", "ipCidrRange": cidr, **fields}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (SUBNETS, subnet("10.0.1.0/23"), "'resource.ipCidrRange': '10.0.1.0/23'. Must be a CIDR address range."),
        (SUBNETS, subnet("127.0.0.0/24"), "'resource.ipCidrRange': '127.0.0.0/24'"),
        (SUBNETS, subnet("169.254.0.0/24"), "'resource.ipCidrRange': '169.254.0.0/24'"),
        (SUBNETS, subnet("10.0.0.0/30"), "IP CIDR range length must be between 4 and 29"),
        (SUBNETS, subnet("10.200.0.0/24", "auto"), "'resource.ipCidrRange': '10.200.0.0/24'"),
        (SUBNETS, subnet("10.3.0.0/24", name="X"), "'resource.name': 'X'. Must be a match of regex"),
        (f"{ROOT}/networks", {"mtu": 1500}, "'resource.name': ''. Must be a match of regex"),
        (SUBNETS, {"name": "s"}, "'resource.network': ''"),
        (SUBNETS, {"name": "s", "network": f"projects/{P}/global/networks/plain"}, "'resource.ipCidrRange': ''"),
        (SUBNETS, {**subnet("10.3.0.0/24"), "network": "plain"}, "'resource.network': 'plain'. The URL is malformed."),
        (SUBNETS, {**subnet("10.3.0.0/24"), "network": "projects/other-one/global/networks/plain"}, "Cross project referencing is not allowed for this resource."),
        (f"{ROOT}/networks", {"name": "n", "mtu": 1200}, "'resource.mtu': '1200'"),
        (f"{ROOT}/networks", {"name": "n", "autoCreateSubnetworks": False, "networkProfile": f"global/networkProfiles/{ZONE}-vpc-roce"}, "'resource.networkProfile'"),
        (f"{ROOT}/networks", {"name": "n", "networkProfile": f"projects/{P}/global/networkProfiles/{ZONE}-vpc-roce"}, "Auto mode subnet creation is blocked"),
        (f"{ROOT}/firewalls", {"name": "f", "network": "global/networks/plain"}, "'resource.allowed'"),
        (f"{ROOT}/firewalls", {"name": "f", "network": "global/networks/plain", "allowed": [{"IPProtocol": "tcp", "ports": ["99999"]}]}, "'resource.allowed[0].ports[0]': '99999'"),
        (f"{ROOT}/firewalls", {"name": "f", "network": "global/networks/plain", "allowed": [{"IPProtocol": "tcp"}], "sourceRanges": ["10.0.0.0/8", "300.0.0.0/8"]}, "'resource.sourceRanges[1]': '300.0.0.0/8'"),
        (f"{ROOT}/firewalls", {"name": "f", "network": "global/networks/plain", "allowed": [{"IPProtocol": "tcp"}], "priority": 70000}, "'resource.priority': '70000'"),
        (f"{ROOT}/networks?requestId=1", {"name": "n"}, "'requestId': '1'"),
        (f"{ROOT}/networks?requestId=00000000-0000-0000-0000-000000000000", {"name": "n"}, "'requestId'"),
    ],
)  # fmt: skip
def test_compute_names_the_field_that_is_wrong(
    cloud: EmulatorServer, path: str, body: JSON, says: str
) -> None:
    status, answer = cloud.call("POST", path, body)
    assert (status, answer["error"]["errors"][0]["reason"]) == (400, "invalid")
    assert says in answer["error"]["message"] and answer["error"]["message"].startswith(
        "Invalid value for field '"
    )


@pytest.mark.parametrize(
    "cidr", ["100.64.0.0/24", "192.0.2.0/24", "240.1.0.0/24", "203.0.113.0/24", "172.31.0.0/24"]
)
def test_ranges_outside_of_rfc_1918_may_be_used(cloud: EmulatorServer, cidr: str) -> None:
    assert cloud.call("POST", SUBNETS, subnet(cidr))[0] == 200


def test_what_is_used_is_not_deleted_and_its_user_is_named(cloud: EmulatorServer) -> None:
    made(cloud, f"{ROOT}/networks", {"name": "held", "autoCreateSubnetworks": False})
    made(cloud, SUBNETS, {**subnet("10.77.0.0/24", "held"), "name": "held-sub"})
    status, answer = cloud.call("DELETE", f"{ROOT}/networks/held")
    assert (status, answer["error"]["errors"][0]["reason"]) == (400, "resourceInUseByAnotherResource")
    assert answer["error"]["message"] == (
        f"The network resource 'projects/{P}/global/networks/held' is already being used by "
        f"'projects/{P}/regions/us-central1/subnetworks/held-sub'"
    )


def test_a_collision_names_the_resource_whatever_its_kind(cloud: EmulatorServer) -> None:
    rule = {"name": "twice", "network": "global/networks/plain", "allowed": [{"IPProtocol": "tcp"}]}
    space = {"name": "twice", "purpose": "VPC_PEERING", "addressType": "INTERNAL", "prefixLength": 24, "network": f"projects/{P}/global/networks/plain"}  # fmt: skip
    for path, body in (
        (f"{ROOT}/networks", {"name": "twice", "autoCreateSubnetworks": False}),
        (SUBNETS, {**subnet("10.88.0.0/24"), "name": "twice"}),
        (f"{ROOT}/firewalls", rule),
        (f"{ROOT}/addresses", space),
    ):
        made(cloud, path, body)
        status, answer = cloud.call("POST", path, {**body, "description": "again"})
        key = path.partition("/compute/v1/")[2] + "/twice"
        assert (status, answer["error"]["errors"][0]["reason"]) == (409, "alreadyExists")
        assert answer["error"]["message"] == f"The resource '{key}' already exists"


def test_subnets_and_reserved_ranges_keep_clear_of_each_other(cloud: EmulatorServer) -> None:
    network = f"projects/{P}/global/networks/plain"
    space = {"name": "kept", "purpose": "VPC_PEERING", "addressType": "INTERNAL", "network": network}
    made(cloud, f"{ROOT}/addresses", {**space, "address": "10.50.0.0", "prefixLength": 20})
    status, answer = cloud.call("POST", SUBNETS, subnet("10.50.1.0/24"))
    assert status == 400 and "conflicts with reserved address range 'kept'" in answer["error"]["message"]
    made(cloud, SUBNETS, subnet("10.60.0.0/24"))
    body = {**space, "name": "late", "address": "10.60.0.0", "prefixLength": 20}
    status, answer = cloud.call("POST", f"{ROOT}/addresses", body)
    assert (
        status == 400
        and "overlaps with existing subnetwork or reserved IP range" in answer["error"]["message"]
    )
    assert cloud.call("POST", f"{ROOT}/addresses", {**body, "address": "10.60.0.1"})[0] == 400
    assert cloud.call("POST", SUBNETS, subnet("10.50.1.0/24", "auto"))[0] == 200, (
        "another network's ranges do not count"
    )


def test_labels_change_only_over_what_was_read(cloud: EmulatorServer) -> None:
    network = f"projects/{P}/global/networks/plain"
    body = {
        "name": "marked",
        "purpose": "VPC_PEERING",
        "addressType": "INTERNAL",
        "network": network,
        "prefixLength": 24,
    }
    made(cloud, f"{ROOT}/addresses", body)
    path = f"{ROOT}/addresses/marked"
    old = cloud.call("GET", path)[1]["labelFingerprint"]
    change = {"labels": {"a": "b"}, "labelFingerprint": old}
    made(cloud, f"{path}/setLabels", change)
    got = cloud.call("GET", path)[1]
    assert got["labels"] == {"a": "b"} and got["labelFingerprint"] != old
    status, answer = cloud.call("POST", f"{path}/setLabels", change)
    assert (status, answer["error"]["errors"][0]["reason"]) == (412, "conditionNotMet")


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("zones/us-central1-a/machineTypes/a4-highgpu-8g", "zones/us-central1-a/machineTypes/a4-highgpu-8g"),
        ("zones/us-central1-b/machineTypes/a4-lowgpu-8g", "zones/us-central1-b/machineTypes/a4-lowgpu-8g"),
        (
            "zones/us-central1-a/acceleratorTypes/nvidia-b200",
            "zones/us-central1-a/acceleratorTypes/nvidia-b200",
        ),
        ("zones/us-central1-z/machineTypes", "zones/us-central1-z"),
        ("zones/us-central1-z", "zones/us-central1-z"),
        ("regions/us-nowhere1", "regions/us-nowhere1"),
        ("regions/us-nowhere1/subnetworks", "regions/us-nowhere1"),
        ("zones/us-central1-b/reservations/none", "zones/us-central1-b/reservations/none"),
        ("global/networkProfiles/us-central1-a-vpc-roce", "global/networkProfiles/us-central1-a-vpc-roce"),
        ("global/networkProfiles/us-central1-b", "global/networkProfiles/us-central1-b"),
    ],
)
def test_what_a_place_does_not_have_is_404_by_its_path(
    cloud: EmulatorServer, path: str, missing: str
) -> None:
    status, answer = cloud.call("GET", f"/compute/v1/projects/{P}/{path}")
    assert (status, answer["error"]["errors"][0]["reason"]) == (404, "notFound")
    assert answer["error"]["message"] == f"The resource 'projects/{P}/{missing}' was not found"


def test_a_billing_account_that_is_strange_is_refused(cloud: EmulatorServer) -> None:
    path = f"/cloudbilling/v1/projects/{P}/billingInfo"
    assert cloud.call("PUT", path, {"billingAccountName": "billingAccounts/000000-000000-000000"})[0] == 403
    assert cloud.call("GET", path)[1]["billingEnabled"] is True


def test_an_enabled_api_is_felt_only_after_its_minute(tmp_path: Path) -> None:
    server = start_emulator(tmp_path / "home", "40", ray="none")  # 12 s and 60 s, divided
    try:
        begun = time.monotonic()
        server.enable("compute.googleapis.com")
        enabled = time.monotonic() - begun
        assert enabled >= 0.3
        service = server.call("GET", f"/serviceusage/v1/projects/{P}/services/compute.googleapis.com")[1]
        assert service["state"] == "ENABLED"
        status, answer = server.call("GET", f"{ROOT}/networks")
        assert (status, info(answer)["reason"]) == (403, "SERVICE_DISABLED"), "enabled, and not felt yet"
        while server.call("GET", f"{ROOT}/networks")[0] == 403:
            assert time.monotonic() - begun < 10
            time.sleep(0.02)
        assert time.monotonic() - begun >= enabled + 0.5
    finally:
        process.stop(server.home)
