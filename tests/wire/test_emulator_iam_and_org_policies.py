"""Permissions, IAM policies, and organization policies that deny."""

from __future__ import annotations

import json
from typing import Any

import pytest
from emulator_server import EmulatorServer

from grpo_wizard.steps.clients.errors import from_response

JSON = dict[str, Any]
P, ZONE = "my-project", "us-central1-b"
ROOT = f"/compute/v1/projects/{P}/global"
SUBNETS = f"/compute/v1/projects/{P}/regions/us-central1/subnetworks"
PLACES = "constraints/gcp.resourceLocations"
CRM = f"/cloudresourcemanager/v3/projects/{P}"


@pytest.fixture(scope="module")
def cloud(shared_rehearsal: EmulatorServer) -> EmulatorServer:
    names = ("compute", "container", "cloudresourcemanager", "orgpolicy", "lustre")
    shared_rehearsal.enable(*(f"{name}.googleapis.com" for name in names))
    for name, automatic in (("plain", False), ("auto", True)):
        body = {"name": name, "autoCreateSubnetworks": automatic}
        _, operation = shared_rehearsal.call("POST", f"{ROOT}/networks", body)
        shared_rehearsal.call("POST", f"{ROOT}/operations/{operation['name']}/wait")
    return shared_rehearsal


@pytest.mark.parametrize(
    "permission",
    [
        "compute.networks.*",
        "spoon.handles.bend",
        "resourcemanager.projects.list",
        "compute",
        "compute..get",
        "",
    ],
)
def test_what_is_no_permission_of_a_project_cannot_be_asked_for(
    cloud: EmulatorServer, permission: str
) -> None:
    body = {"permissions": ["compute.networks.get", permission]}
    status, answer = cloud.call("POST", f"{CRM}:testIamPermissions", body)
    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_a_policy_keeps_its_etag_version_and_conditions(cloud: EmulatorServer) -> None:
    def read(version: int) -> JSON:
        return dict(
            cloud.call("POST", f"{CRM}:getIamPolicy", {"options": {"requestedPolicyVersion": version}})[1]
        )

    def write(policy: JSON) -> tuple[int, JSON]:
        return cloud.call("POST", f"{CRM}:setIamPolicy", {"policy": policy})

    first = read(3)
    condition = {"title": "until", "expression": 'request.time < timestamp("2027-01-01T00:00:00Z")'}
    conditional = {"role": "roles/lustre.admin", "members": ["user:a@example.com"], "condition": condition}
    policy = {**first, "bindings": [*first["bindings"], conditional]}
    status, answer = write({**policy, "version": 1})
    assert status == 400 and "version must be 3" in answer["error"]["message"]
    status, answer = write({**policy, "version": 3})
    assert status == 200 and answer["etag"] != first["etag"]
    status, answer = write({**policy, "version": 3})
    assert (status, answer["error"]["status"]) == (409, "ABORTED")
    assert "whole read-modify-write" in answer["error"]["message"]
    assert conditional in read(3)["bindings"] and read(3)["version"] == 3
    assert any("_withcond_" in binding["role"] for binding in read(1)["bindings"]) and read(1)["version"] == 1
    assert cloud.call("POST", f"{CRM}:getIamPolicy", {"options": {"requestedPolicyVersion": 2}})[0] == 400
    assert write({"bindings": first["bindings"]})[0] == 200, "without an etag nothing is compared"


def policy(server: EmulatorServer, constraint: str, *rules: JSON) -> None:
    path = f"/orgpolicy/v2/projects/{P}/policies"
    if not rules:
        assert server.call("DELETE", f"{path}/{constraint}")[0] == 200
        return
    body = {"name": f"projects/{P}/policies/{constraint}", "spec": {"rules": list(rules)}}
    status, answer = server.call("POST", path, body)
    assert status == 200, answer
    effective = server.call("GET", f"{path}/{constraint}:getEffectivePolicy")[1]
    assert effective["spec"]["rules"] == list(rules)


def test_a_policy_on_places_keeps_clusters_subnets_and_lustre_out(cloud: EmulatorServer) -> None:
    policy(
        cloud,
        "gcp.resourceLocations",
        {"values": {"allowedValues": ["in:us-east1-locations", "europe-west4"]}},
    )
    subnet = {
        "name": "out",
        "network": f"projects/{P}/global/networks/plain",
        "ipCidrRange": "192.168.0.0/24",
    }
    status, answer = cloud.call("POST", SUBNETS, subnet)
    assert (status, answer["error"]["errors"][0]["reason"]) == (412, "conditionNotMet")
    assert (
        "'us-central1' violates constraint 'constraints/gcp.resourceLocations'" in answer["error"]["message"]
    )
    status, answer = cloud.call(
        "POST", f"/container/v1/projects/{P}/locations/us-central1/clusters", {"cluster": {"name": "c"}}
    )
    assert (status, answer["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert f"projects/{P}/locations/us-central1/clusters/c" in answer["error"]["message"]
    told = from_response("container.googleapis.com", status, json.dumps(answer))
    assert (told.kind, told.title) == ("org_policy", f"An organization policy forbids this: {PLACES}")
    assert cloud.call("POST", SUBNETS.replace("us-central1", "us-east1"), subnet)[0] == 200
    instances = f"/lustre/v1/projects/{P}/locations/{ZONE}/instances?instanceId=far"
    status, answer = cloud.call("POST", instances, {"filesystem": "far"})
    assert status == 400 and f"'{ZONE}' violates constraint" in answer["error"]["message"]
    policy(cloud, "gcp.resourceLocations")
    assert cloud.call("POST", SUBNETS, {**subnet, "ipCidrRange": "192.168.1.0/24"})[0] == 200


@pytest.mark.parametrize(
    ("constraint", "rule", "says"),
    [
        ("compute.requireShieldedVm", {"enforce": True}, "Secure Boot is not enabled"),
        ("compute.vmExternalIpAccess", {"denyAll": True}, "to the constraint to use external IP with it"),
    ],
)
def test_a_policy_on_machines_fails_the_cluster_that_needs_them(
    cloud: EmulatorServer, constraint: str, rule: JSON, says: str
) -> None:
    policy(cloud, constraint, rule)
    clusters = f"/container/v1/projects/{P}/locations/us-central1"
    name = constraint.rpartition(".")[2].lower()
    status, operation = cloud.call(
        "POST", f"{clusters}/clusters", {"cluster": {"name": name, "network": "auto", "initialNodeCount": 1}}
    )
    assert status == 200, operation
    while operation["status"] != "DONE":
        operation = cloud.call("GET", f"{clusters}/operations/{operation['name']}")[1]
    assert f"Constraint constraints/{constraint} violated" in operation["error"]["message"]
    assert says in operation["error"]["message"]
    policy(cloud, constraint)


def test_a_policy_of_the_wrong_kind_or_for_no_constraint_is_refused(cloud: EmulatorServer) -> None:
    path = f"/orgpolicy/v2/projects/{P}/policies"
    for constraint, rule, status in (
        ("compute.requireShieldedVm", {"denyAll": True}, 400),
        ("gcp.resourceLocations", {"enforce": True}, 400),
        ("compute.spoons", {"enforce": True}, 404),
    ):
        body = {"name": f"projects/{P}/policies/{constraint}", "spec": {"rules": [rule]}}
        assert cloud.call("POST", path, body)[0] == status
