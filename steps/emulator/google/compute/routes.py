"""Routes: what every VPC has by itself, one to the internet and one to each of its subnets.

A subnet's has priority 0, as lists that users published since 2021 have it.
"""

from __future__ import annotations

import hashlib

from grpo_wizard.steps.emulator.google.shared.lists import listed
from grpo_wizard.steps.emulator.google.shared.self_links import COMPUTE, missing, sent, stored
from grpo_wizard.steps.emulator.server.context import JSON, Call, Record, serves

_WHY = {1000: "Default route to the Internet.", 0: "Default local route to the subnetwork {}."}


@serves("compute.routes.list")
def list_(call: Call) -> JSON:
    """A project's routes."""
    return listed(call, "routeList", _routes(call))


@serves("compute.routes.get")
def get(call: Call) -> JSON:
    """One route."""
    name = str(call.params["route"])
    for body in _routes(call):
        if body["name"] == name:
            return sent(call, body)
    raise missing(f"projects/{call.params['project']}/global/routes/{name}")


def _routes(call: Call) -> list[JSON]:
    project = str(call.params["project"])
    outward = [
        _route(one, one.key, "0.0.0.0/0", 1000, {"nextHopGateway": _gateway(project)})
        for one in call.world.all(COMPUTE, "network", project=project)
    ]
    inward = [
        _route(one, _network(one), str(one.body["ipCidrRange"]), 0, {"nextHopNetwork": stored(_network(one))})
        for one in call.world.all(COMPUTE, "subnet", project=project)
    ]
    return [*outward, *inward]


def _gateway(project: str) -> str:
    return stored(f"projects/{project}/global/gateways/default-internet-gateway")


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
        "network": stored(network),
        "destRange": target,
        "priority": priority,
        "description": _WHY[priority].format(target),
        "selfLink": stored(f"projects/{owner.project}/global/routes/{name}"),
        **hop,
    }
