"""Checks of step 3, Networks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.cloud_reader import CloudReader, Subnet, VpcNetwork
from grpo_wizard.steps.core.existing import check_existing
from grpo_wizard.steps.core.model import Check, CheckFinding
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

_POD_PREFIX = 14  # the range that GKE takes for pods
_LUSTRE_PREFIX = 20  # the range that is reserved for Lustre
_GKE_FIREWALL_RULES = 6  # that GKE creates for a cluster
_OWN_FIREWALL_RULES = 2  # the gVNIC rule and Lustre's


def _network_fields(answers: Answers) -> dict[str, str]:
    """The three networks by name, with the field that names each."""
    networks = answers.networks
    return {
        networks.network: "networks.network",
        f"{networks.gvnic_prefix}-net": "networks.gvnic_prefix",
        f"{networks.rdma_prefix}-net": "networks.rdma_prefix",
    }


def _unique_names(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    networks = answers.networks
    names = [networks.network, f"{networks.gvnic_prefix}-net", f"{networks.rdma_prefix}-net"]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        yield CheckFinding(
            "block",
            detail=f"Two networks would be named {duplicates[0]}.",
            fix="Change networks.network, networks.gvnic_prefix or networks.rdma_prefix.",
        )
    else:
        yield CheckFinding("pass", detail="The three networks have different names.")


def _rdma_profile(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    zone = answers.project.zone
    name = f"{zone}-vpc-roce"
    if reader.has_network_profile(project=answers.project.project_id, name=name):
        yield CheckFinding("pass", detail=f"{zone} has the RDMA network profile {name}.")
    else:
        yield CheckFinding(
            "block",
            detail=f"{zone} has no RDMA network profile: {name} does not exist.",
            fix="Choose a zone that has one. To list the profiles, run: gcloud compute network-profiles list",
        )


def _networks_by_name(answers: Answers, reader: CloudReader) -> dict[str, VpcNetwork]:
    return {network.name: network for network in reader.networks(project=answers.project.project_id)}


def _network_quotas(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    """Project-wide quotas: the three networks, a subnet in every region and nine more, the firewall rules."""
    project, networks = answers.project.project_id, answers.networks
    existing, quotas = _networks_by_name(answers, reader), reader.quotas(project=project)
    missing = [name for name in _network_fields(answers) if name not in existing]
    if networks.use_existing:
        missing = [name for name in missing if name != networks.network]
    regions = {region_of(zone.name) for zone in reader.zones(project=project)}
    subnets = len(regions) if networks.network in missing else 0
    subnets += RDMA_SUBNETS + 1 if set(missing) - {networks.network} else 0
    rules = _OWN_FIREWALL_RULES + _GKE_FIREWALL_RULES if missing else 0
    yield from check_quota(
        requirements=(
            QuotaRequirement("NETWORKS", len(missing), "its networks"),
            QuotaRequirement("SUBNETWORKS", subnets, "the auto-mode VPC and the GPU networks"),
            QuotaRequirement("FIREWALLS", rules, "the cluster, its nodes and Lustre"),
            QuotaRequirement("ROUTES", subnets, "the subnets"),
            QuotaRequirement("GLOBAL_INTERNAL_ADDRESSES", 1, "Lustre's address range"),
        ),
        quotas=quotas,
        scope="the project",
        project=project,
    )


def _existing_networks(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    existing, networks = _networks_by_name(answers, reader), answers.networks
    fields = _network_fields(answers)
    for name, setting in fields.items():
        if name in existing and not (name == networks.network and networks.use_existing):
            yield from check_existing(
                resource=f"network {name}",
                state="READY",
                owner_label=existing[name].owner_label,
                setting=setting,
                answers=answers,
                reader=reader,
            )
    yield from _check_rdma_profile(answers, existing)
    if networks.use_existing:
        yield from _check_existing_vpc(answers, existing.get(networks.network), reader)
    elif not set(fields) & set(existing):
        yield CheckFinding("pass", detail="None of the three networks exists yet.")


def _check_rdma_profile(answers: Answers, existing: Mapping[str, VpcNetwork]) -> Iterable[CheckFinding]:
    """A network gets its profile when it is created, and the profile belongs to one zone."""
    name = f"{answers.networks.rdma_prefix}-net"
    required, network = f"{answers.project.zone}-vpc-roce", existing.get(name)
    if network is not None and network.network_profile != required:
        profile = f"profile {network.network_profile}" if network.network_profile else "no network profile"
        yield CheckFinding(
            "block",
            detail=f"Network {name} exists but is not an RDMA network for this zone: it has "
            f"{profile}, but {required} is required.",
            fix="Set networks.rdma_prefix to a different prefix.",
        )


def _check_existing_vpc(
    answers: Answers, vpc: VpcNetwork | None, reader: CloudReader
) -> Iterable[CheckFinding]:
    """The VPC that is used as it is, and the cluster's subnet in it."""
    networks, project = answers.networks, answers.project
    if vpc is None:
        yield CheckFinding(
            "block",
            detail=f"Network {networks.network} does not exist, but networks.use_existing is set.",
            fix=f"gcloud compute networks list --project={project.project_id}",
        )
        return
    subnets = reader.region_subnets(project=project.project_id, region=project.region)
    names = {subnet.name for subnet in subnets if subnet.network == networks.network}
    listed = f"Its subnets in this region: {', '.join(sorted(names)) or 'none'}."
    if networks.subnetwork and networks.subnetwork not in names:
        yield CheckFinding(
            "block",
            detail=f"Network {networks.network} has no subnet named {networks.subnetwork} in {project.region}. {listed}",
            fix="Correct networks.subnetwork.",
        )
    elif not networks.subnetwork and not vpc.auto_mode:
        yield CheckFinding(
            "block",
            detail=f"Network {networks.network} is a custom-mode VPC, so you must specify a subnet in {project.region}. {listed}",
            fix="Set networks.subnetwork to one of them.",
        )
    else:
        yield CheckFinding("pass", detail=f"Network {networks.network} exists and will be used as is.")


def _address_ranges(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    """An existing network has addresses in use: pods and Lustre need free ranges, and our subnets must not overlap."""
    existing, network = _networks_by_name(answers, reader), answers.networks.network
    present = set(_network_fields(answers)) & set(existing)
    if not present:
        yield CheckFinding("pass", detail="The networks do not exist yet, so all their ranges are free.")
        return
    subnets = [
        subnet for subnet in reader.subnets(project=answers.project.project_id) if subnet.network in present
    ]
    yield from _check_overlaps(subnets, present - {network})
    if network in present:
        used = [*_used_ranges(existing[network], subnets, reader, answers.project.project_id)]
        yield _check_free_ranges(network, used)


def _used_ranges(
    vpc: VpcNetwork, subnets: Sequence[Subnet], reader: CloudReader, project: str
) -> Iterator[Network]:
    """Everything in use in a VPC: subnets with their secondary ranges, routes, reserved ranges."""
    used = [text for subnet in subnets if subnet.network == vpc.name for text in subnet.ranges]
    others = [*reader.routes(project=project), *reader.global_addresses(project=project)]
    used += [other.range for other in others if other.network == vpc.name]
    yield from (network for network in parse_ranges(used) if network.prefixlen)  # skips the default route
    if vpc.auto_mode:
        yield AUTO_MODE_RANGE


def _check_free_ranges(network: str, used: list[Network]) -> CheckFinding:
    for prefix, purpose in ((_POD_PREFIX, "the cluster's pods"), (_LUSTRE_PREFIX, "Lustre")):
        if first_free_range(prefix, used) is None:
            return CheckFinding(
                "block",
                detail=f"Network {network} has no free /{prefix} range for {purpose}: {len(used)} ranges are in use.",
                fix="Use a different network, or free up a range.",
            )
    return CheckFinding(
        "pass",
        detail=f"Network {network} has free ranges for pods (/{_POD_PREFIX}) and Lustre (/{_LUSTRE_PREFIX}).",
    )


def _check_overlaps(subnets: Sequence[Subnet], own: set[str]) -> Iterable[CheckFinding]:
    """Only subnets of the same network can overlap; a network of our name that someone else created may have one."""
    planned = [*parse_ranges([GVNIC_RANGE, *(rdma_range(number) for number in range(RDMA_SUBNETS))])]
    for subnet in subnets:
        for used in parse_ranges(subnet.ranges[:1]):
            clashes = [str(network) for network in planned if network.overlaps(used) and network != used]
            if subnet.network in own and clashes:
                yield CheckFinding(
                    "block",
                    detail=f"Subnet {subnet.name} in network {subnet.network} uses {used}, which overlaps {clashes[0]}.",
                    fix="Choose a different prefix.",
                )


CHECKS = (
    Check(
        id="names",
        title="Network names",
        run=_unique_names,
        needs=lambda a: (a.networks.network, a.networks.gvnic_prefix, a.networks.rdma_prefix),
    ),
    Check(id="profile", title="RDMA network profile", run=_rdma_profile, needs=lambda a: a.project.zone),
    Check(
        id="room",
        title="Network quotas",
        run=_network_quotas,
        needs=lambda a: (
            a.networks.network,
            a.networks.gvnic_prefix,
            a.networks.rdma_prefix,
            a.networks.use_existing,
            a.project.project_id,
        ),
    ),
    Check(
        id="there",
        title="Existing networks",
        run=_existing_networks,
        needs=lambda a: (
            a.networks.network,
            a.networks.gvnic_prefix,
            a.networks.rdma_prefix,
            a.networks.use_existing,
            a.networks.subnetwork,
            a.project.project_id,
            a.project.region,
            a.project.zone,
        ),
    ),
    Check(
        id="ranges",
        title="Address ranges",
        run=_address_ranges,
        needs=lambda a: (
            a.networks.network,
            a.networks.gvnic_prefix,
            a.networks.rdma_prefix,
            a.project.project_id,
        ),
    ),
)
