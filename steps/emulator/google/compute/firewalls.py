"""VPC firewall rules, which RoCE networks do not support.

Documented at https://docs.cloud.google.com/vpc/docs/rdma-network-profiles (2026-11); the error text is
inferred.
"""

from __future__ import annotations

import ipaddress

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, Record, handles
from grpo_wizard.steps.emulator.google.compute import quotas
from grpo_wizard.steps.emulator.google.compute.collections import (
    create_record,
    get_resource,
    list_in_project,
    new_key,
    project_of,
    require_ready,
    start_delete,
)
from grpo_wizard.steps.emulator.google.compute.networks import is_roce, network_from_body
from grpo_wizard.steps.emulator.google.compute.operations import start_operation
from grpo_wizard.steps.emulator.google.shared.ids import generate_resource_id, pacific_timestamp
from grpo_wizard.steps.emulator.google.shared.lists import compute_list
from grpo_wizard.steps.emulator.google.shared.operation_records import handles_idempotent
from grpo_wizard.steps.emulator.google.shared.self_links import (
    basename,
    invalid_field,
    self_link,
    with_request_host,
)


def _key(call: ApiCall, name: str) -> str:
    return f"projects/{call.params['project']}/global/firewalls/{name}"


def _found(call: ApiCall) -> Record:
    return get_resource(call.store, _key(call, str(call.params["firewall"])))


@handles("compute.firewalls.get")
def get(call: ApiCall) -> JSON:
    """Return one rule."""
    return with_request_host(call, _found(call).body)


@handles("compute.firewalls.list")
def list_(call: ApiCall) -> JSON:
    """List a project's rules. gcloud does not filter again, so `filter` is applied here."""
    bodies = [with_request_host(call, record.body) for record in list_in_project(call, "firewall")]
    return compute_list(call, "firewallList", bodies)


@handles_idempotent("compute.firewalls.insert")
def insert(call: ApiCall) -> JSON:
    """Create a rule."""
    key, project = new_key(call, _key), project_of(call)
    body = {"network": f"projects/{project}/global/networks/default", **call.body}
    network = network_from_body(call.store, body, project)
    if is_roce(network):
        profile = basename(str(network.body["networkProfile"]))
        raise ApiError(
            400,
            f"Invalid value for field 'resource.network': '{body['network']}'. VPC firewall rules are not "
            "supported in a "
            f"network with network profile '{profile}'.",
            "INVALID_ARGUMENT",
            "invalid",
        )
    _check(body)
    quotas.require_quota(call.store, project, "FIREWALLS")
    record = create_record(call, "firewall", "global", key, rule_body(call, key, network, body))
    return start_operation(call, "firewall.insert", record, "compute.made")


def _check(body: JSON) -> None:
    """Check what the reference forbids; the texts are inferred.

    https://docs.cloud.google.com/compute/docs/reference/rest/v1/firewalls
    """
    if not (body.get("allowed") or body.get("denied")):
        raise invalid_field("resource.allowed", "", "At least one of allowed or denied must be specified.")
    if body.get("allowed") and body.get("denied"):
        raise invalid_field("resource.denied", "", "Only one of allowed and denied can be specified.")
    if not 0 <= int(body.get("priority", 1000)) <= 65535:
        raise invalid_field(
            "resource.priority", body["priority"], "Must be a value between 0 and 65535 (inclusive)."
        )
    outward = body.get("direction") == "EGRESS"
    for field in ("sourceRanges", "sourceTags", "sourceServiceAccounts"):
        if outward and body.get(field):
            raise invalid_field(
                f"resource.{field}", body[field][0], "Not allowed for rules of direction EGRESS."
            )
    for field in ("sourceRanges", "destinationRanges"):
        for at, text in enumerate(body.get(field, [])):
            if not _is_range(text):
                raise invalid_field(f"resource.{field}[{at}]", text, "Must be a valid CIDR address range.")
    for field in ("allowed", "denied"):
        for at, one in enumerate(body.get(field, [])):
            _check_ports(f"resource.{field}[{at}]", one)


def _check_ports(field: str, one: JSON) -> None:
    if not one.get("IPProtocol"):
        raise invalid_field(f"{field}.IPProtocol", "", "Must be specified.")
    for at, text in enumerate(one.get("ports", [])):
        ends = str(text).split("-")
        fine = len(ends) < 3 and all(end.isdigit() and int(end) <= 65535 for end in ends)
        if not fine or int(ends[0]) > int(ends[-1]):
            raise invalid_field(
                f"{field}.ports[{at}]", text, "Must be a port, or a range of ports, within 0-65535."
            )


def _is_range(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def rule_body(call: ApiCall, key: str, network: Record, body: JSON) -> JSON:
    """Return a rule's body as Compute returns it."""
    full = {
        "kind": "compute#firewall",
        "id": generate_resource_id(),
        "creationTimestamp": pacific_timestamp(call.store),
        "direction": "INGRESS",
        "priority": 1000,
        "disabled": False,
        "logConfig": {"enable": False},
        **body,
        "network": self_link(network.key),
        "selfLink": self_link(key),
    }
    if full["direction"] == "INGRESS" and not (
        full.get("sourceRanges") or full.get("sourceTags") or full.get("sourceServiceAccounts")
    ):
        full["sourceRanges"] = ["0.0.0.0/0"]
    return full


@handles_idempotent("compute.firewalls.patch", "compute.firewalls.update")
def patch(call: ApiCall) -> JSON:
    """Update a rule."""
    change = {key: value for key, value in call.body.items() if key not in ("network", "name")}
    return start_operation(call, "firewall.insert", _found(call), "network.patched", change=change)


@handles_idempotent("compute.firewalls.delete")
def delete(call: ApiCall) -> JSON:
    """Delete a rule. Rules that GKE left behind can be deleted too."""
    return start_delete(call, require_ready(_found(call)), "compute.gone")
