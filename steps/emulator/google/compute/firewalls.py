"""VPC firewall rules, refused on RoCE networks.

That a network with such a profile takes none is documented (https://docs.cloud.google.com/vpc/docs/rdma-network-profiles,
2026-11); the sentence is inferred.
"""

from __future__ import annotations

import ipaddress

from grpo_wizard.steps.emulator.google.compute import quotas
from grpo_wizard.steps.emulator.google.compute.collections import (
    begin,
    found,
    new_key,
    of_project,
    project_of,
    ready,
    take_down,
)
from grpo_wizard.steps.emulator.google.compute.networks import find_network, is_roce
from grpo_wizard.steps.emulator.google.compute.operations import start
from grpo_wizard.steps.emulator.google.shared.ids import number, pacific
from grpo_wizard.steps.emulator.google.shared.lists import listed
from grpo_wizard.steps.emulator.google.shared.operation_records import writes
from grpo_wizard.steps.emulator.google.shared.self_links import invalid, last, sent, stored
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Record, serves


def _key(call: Call, name: str) -> str:
    return f"projects/{call.params['project']}/global/firewalls/{name}"


def _found(call: Call) -> Record:
    return found(call.world, _key(call, str(call.params["firewall"])))


@serves("compute.firewalls.get")
def get(call: Call) -> JSON:
    """One rule."""
    return sent(call, _found(call).body)


@serves("compute.firewalls.list")
def list_(call: Call) -> JSON:
    """A project's rules. gcloud does not filter again, so `filter` must be honoured here."""
    bodies = [sent(call, record.body) for record in of_project(call, "firewall")]
    return listed(call, "firewallList", bodies)


@writes("compute.firewalls.insert")
def insert(call: Call) -> JSON:
    """Makes a rule."""
    key, project = new_key(call, _key), project_of(call)
    body = {"network": f"projects/{project}/global/networks/default", **call.body}
    network = find_network(call.world, body, project)
    if is_roce(network):
        profile = last(str(network.body["networkProfile"]))
        raise ApiError(
            400,
            f"Invalid value for field 'resource.network': '{body['network']}'. VPC firewall rules are not "
            "supported in a "
            f"network with network profile '{profile}'.",
            "INVALID_ARGUMENT",
            "invalid",
        )
    _check(body)
    quotas.spend(call.world, project, "FIREWALLS")
    record = begin(call, "firewall", "global", key, rule(call, key, network, body))
    return start(call, "firewall.insert", record, "compute.made")


def _check(body: JSON) -> None:
    """What the reference forbids: https://docs.cloud.google.com/compute/docs/reference/rest/v1/firewalls; sentences inferred."""
    if not (body.get("allowed") or body.get("denied")):
        raise invalid("resource.allowed", "", "At least one of allowed or denied must be specified.")
    if body.get("allowed") and body.get("denied"):
        raise invalid("resource.denied", "", "Only one of allowed and denied can be specified.")
    if not 0 <= int(body.get("priority", 1000)) <= 65535:
        raise invalid(
            "resource.priority", body["priority"], "Must be a value between 0 and 65535 (inclusive)."
        )
    outward = body.get("direction") == "EGRESS"
    for field in ("sourceRanges", "sourceTags", "sourceServiceAccounts"):
        if outward and body.get(field):
            raise invalid(f"resource.{field}", body[field][0], "Not allowed for rules of direction EGRESS.")
    for field in ("sourceRanges", "destinationRanges"):
        for at, text in enumerate(body.get(field, [])):
            if not _is_range(text):
                raise invalid(f"resource.{field}[{at}]", text, "Must be a valid CIDR address range.")
    for field in ("allowed", "denied"):
        for at, one in enumerate(body.get(field, [])):
            _check_ports(f"resource.{field}[{at}]", one)


def _check_ports(field: str, one: JSON) -> None:
    if not one.get("IPProtocol"):
        raise invalid(f"{field}.IPProtocol", "", "Must be specified.")
    for at, text in enumerate(one.get("ports", [])):
        ends = str(text).split("-")
        fine = len(ends) < 3 and all(end.isdigit() and int(end) <= 65535 for end in ends)
        if not fine or int(ends[0]) > int(ends[-1]):
            raise invalid(
                f"{field}.ports[{at}]", text, "Must be a port, or a range of ports, within 0-65535."
            )


def _is_range(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def rule(call: Call, key: str, network: Record, body: JSON) -> JSON:
    """A rule's body as Compute gives it back."""
    full = {
        "kind": "compute#firewall",
        "id": number(),
        "creationTimestamp": pacific(call.world),
        "direction": "INGRESS",
        "priority": 1000,
        "disabled": False,
        "logConfig": {"enable": False},
        **body,
        "network": stored(network.key),
        "selfLink": stored(key),
    }
    if full["direction"] == "INGRESS" and not (
        full.get("sourceRanges") or full.get("sourceTags") or full.get("sourceServiceAccounts")
    ):
        full["sourceRanges"] = ["0.0.0.0/0"]
    return full


@writes("compute.firewalls.patch", "compute.firewalls.update")
def patch(call: Call) -> JSON:
    """Changes a rule."""
    change = {key: value for key, value in call.body.items() if key not in ("network", "name")}
    return start(call, "firewall.insert", _found(call), "network.patched", change=change)


@writes("compute.firewalls.delete")
def delete(call: Call) -> JSON:
    """Deletes a rule; GKE's leftovers can be deleted by anybody too."""
    return take_down(call, ready(_found(call)), "compute.gone")
