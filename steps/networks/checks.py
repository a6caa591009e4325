"""Step 3, Networks: what must hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core.existing import check_existing, owner_label_of
from grpo_wizard.steps.core.model import Check, CheckFinding, CloudReader
from grpo_wizard.steps.gcp.cidr import (
    AUTO_MODE_RANGE,
    GVNIC_RANGE,
    Network,
    first_free_range,
    parse_ranges,
    rdma_range,
)
from grpo_wizard.steps.gcp.naming import region_of
from grpo_wizard.steps.gcp.quota import QuotaRequirement, check_quota
from grpo_wizard.steps.manifests.multinetwork import RDMA_SUBNETS

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_POD_RANGE_PREFIX, _LUSTRE_RANGE_PREFIX = (
    14,
    20,
)  # sizes of the ranges that GKE takes for pods and that is reserved for Lustre
_GKE_FIREWALL_RULES = 6  # firewall rules that GKE makes for a cluster


def _network_fields(answers: Answers) -> dict[str, str]:
    """The three networks by name, with the question that names each."""
    mine = answers.networks
    return {
        mine.network: "networks.network",
        f"{mine.gvnic_prefix}-net": "networks.gvnic_prefix",
        f"{mine.rdma_prefix}-net": "networks.rdma_prefix",
    }


def _unique_names(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine = answers.networks
    names = [mine.network, f"{mine.gvnic_prefix}-net", f"{mine.rdma_prefix}-net"]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield CheckFinding(
            "block",
            f"two networks would be called {twice[0]}",
            "",
            "give network, gvnic_prefix and rdma_prefix different names",
        )
    else:
        yield CheckFinding("pass", "the three networks have different names")


def _rdma_profile(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    zone, project = answers.project.zone, answers.project.project_id
    name = f"{zone}-vpc-roce"
    if world.ask("network_profile", project=project, name=name) is None:
        yield CheckFinding(
            "block",
            f"{zone} has no RDMA network profile",
            f"{name} does not exist",
            "choose a zone that has one: gcloud compute network-profiles list",
        )
    else:
        yield CheckFinding("pass", f"RDMA network profile {name}")


def _networks_by_name(answers: Answers, world: CloudReader) -> dict[str, Mapping[str, Any]]:
    listed = world.ask("network_bodies", project=answers.project.project_id)
    return {str(body["name"]): body for body in listed}


def _network_quotas(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    """Project-wide quotas: the three networks, a subnet in every region and nine more, the firewall rules."""
    project, mine = answers.project.project_id, answers.networks
    have, rows = _networks_by_name(answers, world), world.ask("quotas", project=project)
    to_make = [name for name in _network_fields(answers) if name not in have]
    regions = {region_of(str(row["name"])) for row in world.ask("zones", project=project)}
    auto = len(regions) if mine.network in to_make and not mine.use_existing else 0
    more = RDMA_SUBNETS + 1 if len(set(to_make) - {mine.network}) else 0
    rules = (2 + _GKE_FIREWALL_RULES) if to_make else 0
    needs = (
        QuotaRequirement(
            "NETWORKS",
            len(to_make) - (mine.use_existing and mine.network in to_make),
            "this deployment",
        ),
        QuotaRequirement("SUBNETWORKS", auto + more, "an auto-mode VPC and the GPU nodes' networks"),
        QuotaRequirement("FIREWALLS", rules, "the cluster, its nodes and Lustre"),
        QuotaRequirement("ROUTES", auto + more, "the subnets"),
        QuotaRequirement("GLOBAL_INTERNAL_ADDRESSES", 1, "Lustre's range"),
    )
    yield from check_quota(needs, rows, "the project", project)


def _existing_networks(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    have, mine = _networks_by_name(answers, world), answers.networks
    for name, setting in _network_fields(answers).items():
        named = name == mine.network and mine.use_existing
        if name in have and not named:
            yield from check_existing(
                f"network {name}", "READY", owner_label_of(have[name]), setting, answers, world
            )
    yield from _check_rdma_profile(answers, have)
    if mine.use_existing:
        yield from _check_existing_vpc(answers, have.get(mine.network), world)
    elif not set(_network_fields(answers)) & set(have):
        yield CheckFinding("pass", "no network of these names is there yet")


def _check_rdma_profile(answers: Answers, have: Mapping[str, Mapping[str, Any]]) -> Iterable[CheckFinding]:
    """A profile is given to a network when it is made, and belongs to one zone."""
    name = f"{answers.networks.rdma_prefix}-net"
    wanted, link = f"{answers.project.zone}-vpc-roce", str(have.get(name, {}).get("networkProfile", ""))
    if name in have and link.rpartition("/")[2] != wanted:
        yield CheckFinding(
            "block",
            f"network {name} is there already and is no RDMA network of this zone",
            f"its profile is {link.rpartition('/')[2] or 'none'}, wanted is {wanted}",
            "set networks.rdma_prefix to another prefix",
        )


def _check_existing_vpc(
    answers: Answers, vpc: Mapping[str, Any] | None, world: CloudReader
) -> Iterable[CheckFinding]:
    """The VPC that shall be used as it is, and the cluster's subnet in it."""
    mine, place = answers.networks, answers.project
    if vpc is None:
        listing = f"gcloud compute networks list --project={place.project_id}"
        yield CheckFinding(
            "block", f"network {mine.network} is not there", "networks.use_existing says it is", listing
        )
        return
    here = {
        str(subnet["name"])
        for subnet in world.ask("subnets", project=place.project_id, region=place.region)
        if _network_of(subnet) == mine.network
    }
    listed = ", ".join(sorted(here)) or "none"
    if mine.subnetwork and mine.subnetwork not in here:
        yield CheckFinding(
            "block",
            f"network {mine.network} has no subnet {mine.subnetwork} in {place.region}",
            f"it has: {listed}",
            "correct networks.subnetwork",
        )
    elif not mine.subnetwork and not vpc.get("autoCreateSubnetworks"):
        yield CheckFinding(
            "block",
            f"network {mine.network} makes no subnets by itself",
            f"in {place.region} it has: {listed}",
            "set networks.subnetwork to one of them",
        )
    else:
        yield CheckFinding("pass", f"network {mine.network} is there and is used as it is")


def _network_of(body: Mapping[str, Any]) -> str:
    return str(body.get("network", "")).rpartition("/")[2]


def _address_ranges(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    """A network that is there holds addresses already: room for pods and Lustre, and nothing where ours shall go."""
    have, project = _networks_by_name(answers, world), answers.project.project_id
    own = set(_network_fields(answers)) & set(have)
    if not own:
        yield CheckFinding("pass", "the networks are new: all their ranges are free")
        return
    subnets = [s for s in world.ask("all_subnets", project=project) if _network_of(s) in own]
    yield from _check_overlaps(subnets, own - {answers.networks.network})
    network = answers.networks.network
    if network in own:
        taken = [*_used_ranges(network, have[network], subnets, world, project)]
        yield from _check_free_ranges(network, taken)


def _used_ranges(
    network: str,
    vpc: Mapping[str, Any],
    subnets: Iterable[Mapping[str, Any]],
    world: CloudReader,
    project: str,
) -> Iterable[Network]:
    """All that is in use in a VPC: subnets with their secondary ranges, routes, reserved ranges."""
    texts: list[str] = []
    for subnet in subnets:
        if _network_of(subnet) == network:
            texts += [subnet["ipCidrRange"], *(r["ipCidrRange"] for r in subnet.get("secondaryIpRanges", []))]
    texts += [r["destRange"] for r in world.ask("routes", project=project) if _network_of(r) == network]
    texts += [
        f"{a['address']}/{a.get('prefixLength', 32)}"
        for a in world.ask("global_addresses", project=project)
        if _network_of(a) == network and "address" in a
    ]
    yield from (one for one in parse_ranges(texts) if one.prefixlen)  # the default route takes nothing
    if vpc.get("autoCreateSubnetworks"):
        yield AUTO_MODE_RANGE


def _check_free_ranges(network: str, taken: list[Network]) -> Iterable[CheckFinding]:
    for prefix, whose in ((_POD_RANGE_PREFIX, "the cluster's pods"), (_LUSTRE_RANGE_PREFIX, "Lustre")):
        if first_free_range(prefix, taken) is None:
            yield CheckFinding(
                "block",
                f"network {network} has no free range of /{prefix} for {whose}",
                f"{len(taken)} ranges are in use",
                "use another network, or free a range",
            )
            return
    yield CheckFinding(
        "pass",
        f"network {network} has room for pods (/{_POD_RANGE_PREFIX}) and Lustre (/{_LUSTRE_RANGE_PREFIX})",
    )


def _check_overlaps(subnets: Iterable[Mapping[str, Any]], own: set[str]) -> Iterable[CheckFinding]:
    """Only subnets of the same network can overlap; one of our name made by somebody else may hold such a one."""
    wanted = [*parse_ranges([GVNIC_RANGE, *(rdma_range(n) for n in range(RDMA_SUBNETS))])]
    for subnet in subnets:
        network = _network_of(subnet)
        for held in parse_ranges([subnet["ipCidrRange"]]):
            clash = [str(net) for net in wanted if net.overlaps(held) and net != held]
            if network in own and clash:
                yield CheckFinding(
                    "block",
                    f"subnet {subnet['name']} of {network} holds {held}",
                    f"it overlaps {clash[0]}",
                    "choose another prefix",
                )


_NAME_FIELDS = ("networks.network", "networks.gvnic_prefix", "networks.rdma_prefix")
_VPC_FIELDS = ("networks.network", "networks.use_existing", "networks.subnetwork", "project.project_id")
CHECKS = (
    Check("names", "Networks have different names", _unique_names, _NAME_FIELDS),
    Check("profile", "The zone has an RDMA profile", _rdma_profile, ("project.zone",)),
    Check("room", "Quotas of networks have room", _network_quotas, (*_NAME_FIELDS, "project.project_id")),
    Check(
        "there",
        "Networks of these names",
        _existing_networks,
        (*_NAME_FIELDS, *_VPC_FIELDS[1:], "project.region"),
    ),
    Check("ranges", "Address ranges are free", _address_ranges, (*_NAME_FIELDS, "project.project_id")),
)
