"""Routes: what every VPC has by itself, one to the internet and one to each of its subnets."""

from __future__ import annotations

import hashlib

from ..contract import JSON, Call, Record, serves
from .links import COMPUTE, stored
from .pages import listed


@serves("compute.routes.list")
def list_(call: Call) -> JSON:
    """A project's routes."""
    project = str(call.params["project"])
    networks = call.world.all(COMPUTE, "network", project=project)
    outward = [_route(n, n.key, "0.0.0.0/0", {"nextHopGateway": _gateway(project)}) for n in networks]
    inward = [
        _route(s, _network(s), str(s.body["ipCidrRange"]), {"nextHopNetwork": stored(_network(s))})
        for s in call.world.all(COMPUTE, "subnet", project=project)
    ]
    return listed(call, "routeList", [*outward, *inward])


def _gateway(project: str) -> str:
    return stored(f"projects/{project}/global/gateways/default-internet-gateway")


def _network(subnet: Record) -> str:
    link = str(subnet.body["network"])
    return link[link.index("projects/") :]


def _route(owner: Record, network: str, target: str, hop: JSON) -> JSON:
    digest = hashlib.sha256(owner.key.encode()).hexdigest()[:16]
    name = f"default-route-{digest}"
    return {
        "kind": "compute#route",
        "id": str(int(digest, 16) % 2**63),
        "creationTimestamp": owner.body.get("creationTimestamp", ""),
        "name": name,
        "network": stored(network),
        "destRange": target,
        "priority": 1000,
        "selfLink": stored(f"projects/{owner.project}/global/routes/{name}"),
        **hop,
    }
