"""Step 3, Networks: what must hold."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from .manifests.multinetwork import RDMA_SUBNETS
from .ranges import GVNIC_RANGE, rdma_range
from .step import Answers, Check, Finding, World


def _names_differ(answers: Answers, world: World) -> Iterable[Finding]:
    mine = answers["networks"]
    names = [mine["network"], f"{mine['gvnic_prefix']}-net", f"{mine['rdma_prefix']}-net"]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield Finding(
            "block",
            f"two networks would be called {twice[0]}",
            "",
            "give network, gvnic_prefix and rdma_prefix different names",
        )
    else:
        yield Finding("pass", "the three networks have different names")


def _profile(answers: Answers, world: World) -> Iterable[Finding]:
    zone, project = answers["project"]["zone"], answers["project"]["project_id"]
    name = f"{zone}-vpc-roce"
    if world.ask("network_profile", project=project, name=name) is None:
        yield Finding(
            "block",
            f"{zone} has no RDMA network profile",
            f"{name} does not exist",
            "gcloud compute network-profiles list",
        )
    else:
        yield Finding("pass", f"RDMA network profile {name}")


def _room(answers: Answers, world: World) -> Iterable[Finding]:
    """NETWORKS quota and address ranges: both are known before anything is made."""
    mine, project, region = (
        answers["networks"],
        answers["project"]["project_id"],
        answers["project"]["region"],
    )
    own = {mine["network"], f"{mine['gvnic_prefix']}-net", f"{mine['rdma_prefix']}-net"}
    have = world.ask("networks", project=project)
    limit = world.ask("project_quota", project=project, metric="NETWORKS")
    to_make = len(own - set(have))
    if limit is not None and len(have) + to_make > limit:
        yield Finding(
            "block",
            f"NETWORKS quota: {to_make} more are needed, {max(0, int(limit) - len(have))} are left of {int(limit)}",
            "",
            f"delete unused networks, or ask for more: https://console.cloud.google.com/iam-admin/quotas?project={project}",
        )
    else:
        yield Finding("pass", f"{to_make} networks to make, quota has room")
    yield from _overlaps(world.ask("subnets", project=project, region=region), own)


def _overlaps(subnets: Iterable[dict[str, Any]], own: set[str]) -> Iterable[Finding]:
    """Only subnets of the same network can overlap; a network of our name made by somebody else may hold such a one."""
    wanted = [
        ipaddress.ip_network(GVNIC_RANGE),
        *(ipaddress.ip_network(rdma_range(n)) for n in range(RDMA_SUBNETS)),
    ]
    for subnet in subnets:
        network = subnet["network"].rpartition("/")[2]
        held = ipaddress.ip_network(subnet["ipCidrRange"])
        clash = [str(net) for net in wanted if net.overlaps(held) and net != held]
        if network in own and clash:
            yield Finding(
                "warn",
                f"subnet {subnet['name']} of {network} holds {held}",
                f"it overlaps {clash[0]}",
                "choose another prefix",
            )


CHECKS = (
    Check(
        "names",
        "Networks have different names",
        _names_differ,
        ("networks.network", "networks.gvnic_prefix", "networks.rdma_prefix"),
    ),
    Check("profile", "The zone has an RDMA profile", _profile, ("project.zone",)),
    Check(
        "room",
        "Quota and ranges have room",
        _room,
        ("networks.network", "networks.gvnic_prefix", "networks.rdma_prefix", "project.region"),
    ),
)
