"""Step 3, Networks: the cluster's VPC, the gVNIC network and the RDMA network with its eight subnets."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

from . import parse
from .manifests.multinetwork import RDMA_SUBNETS
from .naming import api_id, gcloud, network_path, resource_id
from .step import Answers, Check, Field, Finding, Resource, Step, Usual, World

GVNIC_RANGE = "192.168.0.0/24"
_MTU_LUSTRE = 8896  # recommended for Managed Lustre, about 10 % faster (google-cloud.md §3.1, 2026-06)

FIELDS = (
    Field(
        "network",
        "Network",
        "The VPC of the cluster and of Lustre.",
        parse.resource_name,
        "nemo-net",
        env=("NETWORK",),
    ),
    Field(
        "gvnic_prefix",
        "gVNIC prefix",
        "Names PREFIX-net, PREFIX-sub and PREFIX-internal.",
        parse.name_prefix,
        "nemo-gvnic",
        env=("GVNIC_NETWORK_PREFIX",),
    ),
    Field(
        "rdma_prefix",
        "RDMA prefix",
        "Names PREFIX-net and PREFIX-sub-0 to PREFIX-sub-7.",
        parse.name_prefix,
        "nemo-rdma",
        env=("RDMA_NETWORK_PREFIX",),
    ),
    Field(
        "mtu",
        "MTU of the VPC",
        "8896 makes Lustre about 10 % faster; 0 leaves Google's default.",
        parse.integer(0, 8896, unit="bytes"),
        _MTU_LUSTRE,
        kind="integer",
        unit="bytes",
        advanced=True,
    ),
    Field(
        "narrow_firewall",
        "Narrow gVNIC firewall",
        "Allow traffic from the gVNIC subnet only, not from all of 192.168.0.0/16.",
        parse.switch,
        True,
        kind="switch",
        advanced=True,
    ),
)

_QUICK = Usual(10, 90, "gcloud's own waits; no published figure")


def _network(
    name: str, project: str, spec: dict[str, Any], flags: dict[str, Any], watch: tuple[str, ...]
) -> Resource:
    return Resource(
        "networks",
        "network",
        name,
        {"name": name, "routingConfig": {"routingMode": "REGIONAL"}, **spec},
        {"project": project},
        (api_id("compute"),),
        gcloud("compute networks create", flags, name),
        _QUICK,
        watch=watch,
    )


def _subnet(name: str, network: str, cidr: str, answers: Answers) -> Resource:
    place = answers["project"]
    spec = {
        "name": name,
        "network": network_path(place["project_id"], network),
        "ipCidrRange": cidr,
        "privateIpGoogleAccess": False,
    }
    command = gcloud(
        "compute networks subnets create",
        {"network": network, "region": place["region"], "range": cidr},
        name,
    )
    return Resource(
        "networks",
        "subnet",
        name,
        spec,
        {"project": place["project_id"], "region": place["region"]},
        (resource_id("networks", "network", network),),
        command,
        _QUICK,
        watch=("network", "ipCidrRange"),
    )


def _gvnic_firewall(answers: Answers, network: str) -> Resource:
    mine, project = answers["networks"], answers["project"]["project_id"]
    name = f"{mine['gvnic_prefix']}-internal"
    source = GVNIC_RANGE if mine["narrow_firewall"] else "192.168.0.0/16"
    spec = {
        "name": name,
        "network": network_path(project, network),
        "direction": "INGRESS",
        "sourceRanges": [source],
        "allowed": [
            {"IPProtocol": "tcp", "ports": ["0-65535"]},
            {"IPProtocol": "udp", "ports": ["0-65535"]},
            {"IPProtocol": "icmp"},
        ],
    }
    flags = {
        "network": network,
        "action": "ALLOW",
        "rules": "tcp:0-65535,udp:0-65535,icmp",
        "source-ranges": source,
    }
    return Resource(
        "networks",
        "firewall",
        name,
        spec,
        {"project": project},
        (resource_id("networks", "network", network),),
        gcloud("compute firewall-rules create", flags, name),
        _QUICK,
        watch=("network", "direction", "allowed"),
    )


def _resources(answers: Answers) -> Sequence[Resource]:
    mine, project, zone = answers["networks"], answers["project"]["project_id"], answers["project"]["zone"]
    gvnic, rdma = f"{mine['gvnic_prefix']}-net", f"{mine['rdma_prefix']}-net"
    profile = f"{zone}-vpc-roce"
    mtu = {"mtu": mine["mtu"]} if mine["mtu"] else {}
    subnets = [
        _subnet(f"{mine['rdma_prefix']}-sub-{n}", rdma, f"192.168.{n + 1}.0/24", answers)
        for n in range(RDMA_SUBNETS)
    ]
    return [
        _network(
            mine["network"],
            project,
            {"autoCreateSubnetworks": True, **mtu},
            {"subnet-mode": "auto", "mtu": mine["mtu"] or None},
            ("autoCreateSubnetworks",),
        ),
        _network(
            gvnic,
            project,
            {"autoCreateSubnetworks": False},
            {"subnet-mode": "custom"},
            ("autoCreateSubnetworks",),
        ),
        _subnet(f"{mine['gvnic_prefix']}-sub", gvnic, GVNIC_RANGE, answers),
        _gvnic_firewall(answers, gvnic),
        _network(
            rdma,
            project,
            {
                "autoCreateSubnetworks": False,
                "networkProfile": f"projects/{project}/global/networkProfiles/{profile}",
            },
            {"network-profile": profile, "subnet-mode": "custom"},
            ("networkProfile", "autoCreateSubnetworks"),
        ),
        *subnets,
    ]


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
        *(ipaddress.ip_network(f"192.168.{n + 1}.0/24") for n in range(RDMA_SUBNETS)),
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

STEP = Step(
    "networks", "Networks", "The cluster's VPC, and two more for the GPU nodes.", FIELDS, CHECKS, _resources
)
