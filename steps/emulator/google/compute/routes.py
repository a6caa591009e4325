"""Routes that every VPC has: one to the internet and one to each subnet.

A subnet's has priority 0, as in lists that users have published since 2021.
"""

from __future__ import annotations

import hashlib

from grpo_wizard.steps.emulator.context import JSON, ApiCall, Record, handles
from grpo_wizard.steps.emulator.google.shared.lists import compute_list
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    not_found_error,
    self_link,
    with_request_host,
)

_DESCRIPTIONS = {1000: "Default route to the Internet.", 0: "Default local route to the subnetwork {}."}


@handles("compute.routes.list")
def list_(call: ApiCall) -> JSON:
    """List a project's routes."""
    return compute_list(call, "routeList", _routes(call))


@handles("compute.routes.get")
def get(call: ApiCall) -> JSON:
    """Return one route."""
    name = str(call.params["route"])
    for body in _routes(call):
        if body["name"] == name:
            return with_request_host(call, body)
    raise not_found_error(f"projects/{call.params['project']}/global/routes/{name}")


def _routes(call: ApiCall) -> list[JSON]:
    project = str(call.params["project"])
    outward = [
        _route(one, one.key, "0.0.0.0/0", 1000, {"nextHopGateway": _gateway(project)})
        for one in call.store.all(COMPUTE, "network", project=project)
    ]
    inward = [
        _route(
            one, _network(one), str(one.body["ipCidrRange"]), 0, {"nextHopNetwork": self_link(_network(one))}
        )
        for one in call.store.all(COMPUTE, "subnet", project=project)
    ]
    return [*outward, *inward]


def _gateway(project: str) -> str:
    return self_link(f"projects/{project}/global/gateways/default-internet-gateway")


def _network(subnet: Record) -> str:
    link = str(subnet.body["network"])
    return link[link.index("projects/") :]


def _route(owner: Record, network: str, target: str, priority: int, hop: JSON) -> JSON:
    digest = hashlib.sha256(owner.key.encode()).hexdigest()[:16]
    name = f"default-route-{digest}"
    return {
        "kind": "compute#route",
        "id": str(int(digest, 16) % 2**63),
        "creationTimestamp": owner.body.get("creationTimestamp", ""),
        "name": name,
        "network": self_link(network),
        "destRange": target,
        "priority": priority,
        "description": _DESCRIPTIONS[priority].format(target),
        "selfLink": self_link(f"projects/{owner.project}/global/routes/{name}"),
        **hop,
    }
