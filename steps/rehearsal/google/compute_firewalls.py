"""VPC firewall rules, refused on RoCE networks."""

from __future__ import annotations

from ..contract import JSON, ApiError, Call, Record, serves
from . import quotas
from .compute_collections import begin, found, new_key, of_project, project_of, ready, take_down
from .compute_networks import find_network, is_roce
from .compute_operations import start
from .links import invalid, last, sent, stored
from .operation_records import writes
from .pages import listed
from .stamps import number, pacific


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
    if not (body.get("allowed") or body.get("denied")):
        raise invalid("resource.allowed", "", "At least one of allowed or denied must be specified.")
    quotas.spend(call.world, project, "FIREWALLS")
    record = begin(call, "firewall", "global", key, rule(call, key, network, body))
    return start(call, "firewall.insert", record, "compute.made")


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
