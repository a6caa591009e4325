"""Step 3, Networks: the cluster's VPC, the gVNIC network and the RDMA network with its eight subnets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import DurationEstimate, Resource, Step
from grpo_wizard.steps.gcp.cidr import GVNIC_RANGE, rdma_range
from grpo_wizard.steps.gcp.naming import api_id, gcloud_command, network_path, resource_id
from grpo_wizard.steps.manifests.multinetwork import RDMA_SUBNETS
from grpo_wizard.steps.networks.answers import NetworksAnswers
from grpo_wizard.steps.networks.checks import CHECKS

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


_NETWORK_DURATION = DurationEstimate(10, 90, "gcloud's own waits; no published figure")


def _network(
    name: str,
    answers: Answers,
    spec: dict[str, object],
    flags: dict[str, object],
    adopt_paths: tuple[str, ...],
) -> Resource:
    project = answers.project.project_id
    return Resource(
        step="networks",
        kind="network",
        name=name,
        spec={"name": name, "routingConfig": {"routingMode": "REGIONAL"}, **spec},
        parent={
            "project": project,
            "gke": answers.cluster.cluster_name,
        },  # whose rules may be left behind on it
        depends_on=(api_id("compute"),),
        command=gcloud_command("compute networks create", flags, name),
        expected_duration=_NETWORK_DURATION,
        adopt_paths=adopt_paths,
    )


def _subnet(name: str, network: str, cidr: str, answers: Answers) -> Resource:
    place = answers.project
    spec = {
        "name": name,
        "network": network_path(place.project_id, network),
        "ipCidrRange": cidr,
        "privateIpGoogleAccess": False,
    }
    command = gcloud_command(
        "compute networks subnets create",
        {"network": network, "region": place.region, "range": cidr},
        name,
    )
    return Resource(
        step="networks",
        kind="subnet",
        name=name,
        spec=spec,
        parent={"project": place.project_id, "region": place.region},
        depends_on=(resource_id("networks", "network", network),),
        command=command,
        expected_duration=_NETWORK_DURATION,
        adopt_paths=("network", "ipCidrRange"),
    )


def _gvnic_firewall(answers: Answers, network: str) -> Resource:
    mine, project = answers.networks, answers.project.project_id
    name = f"{mine.gvnic_prefix}-internal"
    source = GVNIC_RANGE if mine.narrow_firewall else "192.168.0.0/16"
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
        step="networks",
        kind="firewall",
        name=name,
        spec=spec,
        parent={"project": project},
        depends_on=(resource_id("networks", "network", network),),
        command=gcloud_command("compute firewall-rules create", flags, name),
        expected_duration=_NETWORK_DURATION,
        adopt_paths=("network", "direction", "allowed"),
    )


def _existing_vpc(answers: Answers) -> list[Resource]:
    """The VPC, and the cluster's subnet in it where one is named: looked at only."""
    mine, place, note = answers.networks, answers.project, "named by you: used, never deleted"
    project, name, subnet = place.project_id, mine.network, mine.subnetwork
    vpc = Resource(
        step="networks",
        kind="network",
        name=name,
        spec={"name": name},
        parent={"project": project},
        depends_on=(api_id("compute"),),
        command=gcloud_command("compute networks describe", {}, name),
        note=note,
        data_source=True,
        adopt_paths=(),
    )
    if not subnet:
        return [vpc]
    spec = {"name": subnet, "network": network_path(project, name)}
    where = {"project": project, "region": place.region}
    look = gcloud_command("compute networks subnets describe", {"region": place.region}, subnet)
    return [
        vpc,
        Resource(
            step="networks",
            kind="subnet",
            name=subnet,
            spec=spec,
            parent=where,
            depends_on=(vpc.id,),
            command=look,
            note=note,
            data_source=True,
            adopt_paths=("network",),
        ),
    ]


def _resources(answers: Answers) -> Sequence[Resource]:
    mine, project, zone = answers.networks, answers.project.project_id, answers.project.zone
    gvnic, rdma = f"{mine.gvnic_prefix}-net", f"{mine.rdma_prefix}-net"
    profile = f"{zone}-vpc-roce"
    mtu = {"mtu": mine.mtu} if mine.mtu else {}
    subnets = [
        _subnet(f"{mine.rdma_prefix}-sub-{n}", rdma, rdma_range(n), answers) for n in range(RDMA_SUBNETS)
    ]
    vpc = (
        _existing_vpc(answers)
        if mine.use_existing
        else [
            _network(
                mine.network,
                answers,
                {"autoCreateSubnetworks": True, **mtu},
                {"subnet-mode": "auto", "mtu": mine.mtu or None},
                ("autoCreateSubnetworks",),
            )
        ]
    )
    return [
        *vpc,
        _network(
            gvnic,
            answers,
            {"autoCreateSubnetworks": False},
            {"subnet-mode": "custom"},
            ("autoCreateSubnetworks",),
        ),
        _subnet(f"{mine.gvnic_prefix}-sub", gvnic, GVNIC_RANGE, answers),
        _gvnic_firewall(answers, gvnic),
        _network(
            rdma,
            answers,
            {
                "autoCreateSubnetworks": False,
                "networkProfile": f"projects/{project}/global/networkProfiles/{profile}",
            },
            {"network-profile": profile, "subnet-mode": "custom"},
            ("networkProfile", "autoCreateSubnetworks"),
        ),
        *subnets,
    ]


STEP = Step(
    answers=NetworksAnswers,
    title="Networks",
    purpose="The cluster's VPC, and two more for the GPU nodes.",
    checks=CHECKS,
    resources=_resources,
)
