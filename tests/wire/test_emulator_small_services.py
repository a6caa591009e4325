"""Google's own Python clients against the small services, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from emulator_server import EmulatorServer
from google.api_core import exceptions
from raw_google_clients import client, discovery_client

PROJECT, NUMBER = "my-project", "123456789012"
NETWORK = f"projects/{NUMBER}/global/networks/nemo-net"
SERVICE = "services/servicenetworking.googleapis.com"
JSON = dict[str, Any]


def test_service_usage_enables_lists_and_disables(rehearsal: EmulatorServer) -> None:
    from google.cloud import service_usage_v1 as usage

    services = client(usage.ServiceUsageClient, rehearsal.base_url, rehearsal.token, "serviceusage")
    parent = f"projects/{PROJECT}"
    wanted = ["compute.googleapis.com", "lustre.googleapis.com"]
    done = services.batch_enable_services(request={"parent": parent, "service_ids": wanted}).result(
        timeout=30
    )
    assert [service.config.name for service in done.services] == wanted
    enabled = services.list_services(request={"parent": parent, "filter": "state:ENABLED", "page_size": 5})
    names = [service.config.name for service in enabled]
    assert set(wanted) < set(names) and "container.googleapis.com" not in names
    assert len(names) > 20, "a new project's own APIs, over several pages"
    lustre = f"{parent}/services/lustre.googleapis.com"
    assert services.get_service(request={"name": lustre}).state == usage.State.ENABLED
    services.disable_service(request={"name": lustre}).result(timeout=30)
    assert services.get_service(request={"name": lustre}).state == usage.State.DISABLED
    with pytest.raises(exceptions.Forbidden):
        services.get_service(request={"name": f"{parent}/services/spoons.googleapis.com"})
    kept = {row["name"]: row for row in rehearsal.cloud_resources()}
    assert kept["compute.googleapis.com"]["kept_by_design"] and kept["oslogin.googleapis.com"]["derived"]


def test_enabling_is_felt_only_after_a_while(tmp_path_factory: pytest.TempPathFactory) -> None:
    from emulator_server import start_emulator

    from grpo_wizard.steps.emulator import process

    server = start_emulator(tmp_path_factory.mktemp("slow"), "40", ray="none")  # 12 s and 60 s, divided by 40
    path = "/compute/v1/projects/my-project/global/networks"
    try:
        server.enable("compute.googleapis.com")
        assert server.call("GET", path)[0] == 403
        deadline = time.monotonic() + 10
        while server.call("GET", path)[0] == 403:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.stop(server.home)


def test_policies_are_written_only_over_what_was_read(rehearsal: EmulatorServer) -> None:
    from google.cloud import resourcemanager_v3 as manager

    rehearsal.enable("cloudresourcemanager.googleapis.com")
    projects = client(manager.ProjectsClient, rehearsal.base_url, rehearsal.token, "cloudresourcemanager")
    name = f"projects/{PROJECT}"
    assert projects.get_project(name=name).name == f"projects/{NUMBER}"
    policy = projects.get_iam_policy(request={"resource": name, "options": {"requested_policy_version": 3}})
    member = "principal://iam.googleapis.com/locations/global/workforcePools/p/subject/me"
    policy.bindings.add(role="roles/lustre.admin", members=[member])
    written = projects.set_iam_policy(request={"resource": name, "policy": policy})
    assert written.etag != policy.etag
    with pytest.raises(exceptions.Conflict, match="concurrent policy changes"):
        projects.set_iam_policy(request={"resource": name, "policy": policy})
    (row,) = [row for row in rehearsal.cloud_resources() if row["kind"] == "iam_binding"]
    assert row["spec"] == {"role": "roles/lustre.admin", "member": member} and row["kept_by_design"]
    asked = ["compute.networks.create", "lustre.instances.create"]
    assert list(projects.test_iam_permissions(resource=name, permissions=asked).permissions) == asked


def test_a_project_is_created_paid_for_and_deleted(rehearsal: EmulatorServer) -> None:
    from google.cloud import billing_v1
    from google.cloud import resourcemanager_v3 as manager

    rehearsal.enable("cloudresourcemanager.googleapis.com", "cloudbilling.googleapis.com")
    projects = client(manager.ProjectsClient, rehearsal.base_url, rehearsal.token, "cloudresourcemanager")
    made = projects.create_project(project=manager.Project(project_id="nemo-new-1")).result(timeout=30)
    assert made.project_id == "nemo-new-1"
    with pytest.raises(exceptions.Conflict):
        projects.create_project(project=manager.Project(project_id="nemo-new-1"))
    enable = "/serviceusage/v1/projects/nemo-new-1/services/container.googleapis.com:enable"
    status, answer = rehearsal.call("POST", enable, {})
    assert status == 400 and "Billing must be enabled" in answer["error"]["message"]
    billing = client(billing_v1.CloudBillingClient, rehearsal.base_url, rehearsal.token, "cloudbilling")
    (account,) = billing.list_billing_accounts()
    info = billing.update_project_billing_info(
        name="projects/nemo-new-1", project_billing_info={"billing_account_name": account.name}
    )
    assert info.billing_enabled
    assert rehearsal.call("POST", enable, {})[0] == 200
    assert "nemo-new-1" in [project.project_id for project in projects.search_projects()]
    projects.delete_project(name="projects/nemo-new-1").result(timeout=30)
    assert projects.get_project(name="projects/nemo-new-1").state == manager.Project.State.DELETE_REQUESTED
    assert rehearsal.call("GET", "/container/v1/projects/nemo-new-1/locations/-/clusters")[0] == 403


def test_cloud_quotas_tell_of_b200_and_h200_by_region(shared_rehearsal: EmulatorServer) -> None:
    from google.cloud import cloudquotas_v1 as quotas

    shared_rehearsal.enable("cloudquotas.googleapis.com")
    client_ = client(
        quotas.CloudQuotasClient, shared_rehearsal.base_url, shared_rehearsal.token, "cloudquotas"
    )
    parent = f"projects/{PROJECT}/locations/global/services/compute.googleapis.com"
    ids = [info.quota_id for info in client_.list_quota_infos(request={"parent": parent, "page_size": 10})]
    assert len(ids) == len(set(ids)) > 10
    assert {"GPUS-ALL-REGIONS-per-project", "N2-CPUS-per-project-region"} < set(ids)
    info = client_.get_quota_info(name=f"{parent}/quotaInfos/GPUS-PER-GPU-FAMILY-per-project-region")
    values = {
        (row.dimensions["region"], row.dimensions["gpu_family"]): row.details.value
        for row in info.dimensions_infos
    }
    for family in ("NVIDIA_B200", "NVIDIA_H200"):
        assert values["us-central1", family] == 32 and values["europe-west1", family] == 0
    with pytest.raises(exceptions.NotFound):
        client_.get_quota_info(name=f"{parent}/quotaInfos/SPOONS")


@pytest.fixture
def connected(rehearsal: EmulatorServer) -> tuple[EmulatorServer, Callable[[JSON], JSON]]:
    """A network with an allocated range and its connection; and what waits for an operation."""
    rehearsal.enable("compute.googleapis.com", "servicenetworking.googleapis.com", "lustre.googleapis.com")
    root = f"/compute/v1/projects/{PROJECT}/global"
    _insert(rehearsal, f"{root}/networks", {"name": "nemo-net", "autoCreateSubnetworks": True})
    for name in ("range-a", "range-b"):
        body = {"name": name, "purpose": "VPC_PEERING", "addressType": "INTERNAL", "prefixLength": 20}
        _insert(
            rehearsal,
            f"{root}/addresses",
            {**body, "network": f"projects/{PROJECT}/global/networks/nemo-net"},
        )

    def ended(operation: JSON) -> JSON:
        while not operation.get("done"):
            _, operation = rehearsal.call("GET", f"/servicenetworking/v1/{operation['name']}")
        return operation

    return rehearsal, ended


def _insert(server: EmulatorServer, path: str, body: JSON) -> None:
    status, operation = server.call("POST", path, body)
    assert status == 200, operation
    root = path.rpartition("/")[0]
    while operation["status"] != "DONE":
        _, operation = server.call("POST", f"{root}/operations/{operation['name']}/wait")
    assert "error" not in operation


def test_a_connection_is_shared_changed_and_given_up(
    connected: tuple[EmulatorServer, Callable[[JSON], JSON]],
) -> None:
    server, ended = connected
    api = discovery_client("servicenetworking", "v1", server.base_url, server.token).services().connections()
    body = {"network": NETWORK, "reservedPeeringRanges": ["range-a"]}
    assert "error" not in ended(api.create(parent=SERVICE, body=body).execute())
    (listed,) = api.list(parent="services/-", network=NETWORK).execute()["connections"]
    assert listed["peering"] == "servicenetworking-googleapis-com"
    other = {**body, "reservedPeeringRanges": ["range-b"]}
    assert "UpdateConnection" in ended(api.create(parent=SERVICE, body=other).execute())["error"]["message"]
    both = {**body, "reservedPeeringRanges": ["range-a", "range-b"]}
    ended(api.patch(name=f"{SERVICE}/connections/-", body=both).execute())
    status, refusal = server.call("PATCH", f"/servicenetworking/v1/{SERVICE}/connections/-", other)
    assert status == 400 and "force" in refusal["error"]["message"]
    ended(api.patch(name=f"{SERVICE}/connections/-", body=other, force=True).execute())
    (listed,) = api.list(parent="services/-", network=NETWORK).execute()["connections"]
    assert listed["reservedPeeringRanges"] == ["range-b"]
    delete = api.deleteConnection(name=f"{SERVICE}/connections/-", body={"consumerNetwork": NETWORK})
    assert "error" not in ended(delete.execute())
    assert api.list(parent="services/-", network=NETWORK).execute() == {}


def test_a_connection_in_use_is_not_given_up(
    connected: tuple[EmulatorServer, Callable[[JSON], JSON]],
) -> None:
    server, ended = connected
    path = f"/servicenetworking/v1/{SERVICE}/connections"
    ended(server.call("POST", path, {"network": NETWORK, "reservedPeeringRanges": ["range-a"]})[1])
    instance = {
        "filesystem": "lustrefs",
        "capacityGib": "18000",
        "perUnitStorageThroughput": "500",
        "network": f"projects/{PROJECT}/global/networks/nemo-net",
    }
    place = f"/lustre/v1/projects/{PROJECT}/locations/us-central1-b/instances"
    status, answer = server.call("POST", f"{place}?instanceId=nemo-lustre", instance)
    assert status == 200, answer
    refused = ended(server.call("POST", f"{path}/-", {"consumerNetwork": NETWORK})[1])
    assert "Producer services" in refused["error"]["message"]
    assert "still using this connection" in refused["error"]["message"]


def test_a_project_is_named_by_number_where_google_wants_it(connected: tuple[EmulatorServer, Any]) -> None:
    server, _ = connected
    by_id = f"projects/{PROJECT}/global/networks/nemo-net"
    status, answer = server.call("GET", f"/servicenetworking/v1/services/-/connections?network={by_id}")
    assert status == 400 and "Project number" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("token", "path", "status"),
    [
        ("hf_good", "api/whoami-v2", 200),
        ("hf_invalid", "api/whoami-v2", 401),
        ("", "api/whoami-v2", 401),
        ("hf_good", "api/models/Qwen/Qwen2.5-1.5B", 200),
        ("hf_good", "api/models/nobody/nothing", 404),
        ("hf_good", "api/models/meta-llama/Llama-3.1-8B-Instruct/auth-check", 200),
        ("hf_no-access", "api/models/meta-llama/Llama-3.1-8B-Instruct/auth-check", 403),
        ("hf_no-access", "api/models/Qwen/Qwen2.5-1.5B/auth-check", 200),
    ],
)
def test_hugging_face_knows_tokens_and_gates(
    shared_rehearsal: EmulatorServer, token: str, path: str, status: int
) -> None:
    prefix = shared_rehearsal.address.env["HF_ENDPOINT"].removeprefix(shared_rehearsal.base_url)
    headers = {"Authorization": f"Bearer {token}" if token else ""}
    assert shared_rehearsal.call("GET", f"{prefix}/{path}", headers=headers)[0] == status


def test_wandb_knows_whose_key_it_is(shared_rehearsal: EmulatorServer) -> None:
    prefix = shared_rehearsal.address.env["WANDB_BASE_URL"].removeprefix(shared_rehearsal.base_url)
    question = {"query": "query Viewer { viewer { username entity } }"}
    for header, expected in (("Basic YXBpOmtleQ==", "rehearsal-user"), ("", None)):
        _, answer = shared_rehearsal.call("POST", f"{prefix}/graphql", question, {"Authorization": header})
        viewer = answer["data"]["viewer"]
        assert (viewer and viewer["username"]) == expected
