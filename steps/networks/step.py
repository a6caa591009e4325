"""Step 3, Networks: the cluster's VPC, the gVNIC network, and the RDMA network with its eight subnets."""

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


_NETWORK_DURATION = DurationEstimate(10, 90, "gcloud's own timeouts; Google publishes no figure")


def _network(
    name: str,
    answers: Answers,
    spec: dict[str, object],
    flags: dict[str, object],
    adopt_paths: tuple[str, ...],
) -> Resource:
    project_id = answers.project.project_id
    return Resource(
        step="networks",
        kind="network",
        name=name,
        spec={"name": name, "routingConfig": {"routingMode": "REGIONAL"}, **spec},
        parent={
            "project": project_id,
            "gke": answers.cluster.cluster_name,  # GKE may leave firewall rules of this cluster on it
        },
        depends_on=(api_id("compute"),),
        command=gcloud_command("compute networks create", flags, name),
        expected_duration=_NETWORK_DURATION,
        adopt_paths=adopt_paths,
    )


def _subnet(name: str, network: str, cidr: str, answers: Answers) -> Resource:
    project = answers.project
    spec = {
        "name": name,
        "network": network_path(project.project_id, network),
        "ipCidrRange": cidr,
        "privateIpGoogleAccess": False,
    }
    command = gcloud_command(
        "compute networks subnets create",
        {"network": network, "region": project.region, "range": cidr},
        name,
    )
    return Resource(
        step="networks",
        kind="subnet",
        name=name,
        spec=spec,
        parent={"project": project.project_id, "region": project.region},
        depends_on=(resource_id("networks", "network", network),),
        command=command,
        expected_duration=_NETWORK_DURATION,
        adopt_paths=("network", "ipCidrRange"),
    )


def _gvnic_firewall(answers: Answers, network: str) -> Resource:
    networks, project_id = answers.networks, answers.project.project_id
    name = f"{networks.gvnic_prefix}-internal"
    source = GVNIC_RANGE if networks.narrow_firewall else "192.168.0.0/16"
    spec = {
        "name": name,
        "network": network_path(project_id, network),
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
        parent={"project": project_id},
        depends_on=(resource_id("networks", "network", network),),
        command=gcloud_command("compute firewall-rules create", flags, name),
        expected_duration=_NETWORK_DURATION,
        adopt_paths=("network", "direction", "allowed"),
    )


def _existing_vpc(answers: Answers) -> list[Resource]:
    """The VPC, and the cluster's subnet in it if one is named: both are only read."""
    networks, project, note = (
        answers.networks,
        answers.project,
        "existing resource; used as is, never changed or deleted",
    )
    project_id, name, subnet = project.project_id, networks.network, networks.subnetwork
    vpc = Resource(
        step="networks",
        kind="network",
        name=name,
        spec={"name": name},
        parent={"project": project_id},
        depends_on=(api_id("compute"),),
        command=gcloud_command("compute networks describe", {}, name),
        note=note,
        data_source=True,
        adopt_paths=(),
    )
    if not subnet:
        return [vpc]
    spec = {"name": subnet, "network": network_path(project_id, name)}
    parent = {"project": project_id, "region": project.region}
    command = gcloud_command("compute networks subnets describe", {"region": project.region}, subnet)
    return [
        vpc,
        Resource(
            step="networks",
            kind="subnet",
            name=subnet,
            spec=spec,
            parent=parent,
            depends_on=(vpc.id,),
            command=command,
            note=note,
            data_source=True,
            adopt_paths=("network",),
        ),
    ]


def _resources(answers: Answers) -> Sequence[Resource]:
    networks, project_id, zone = answers.networks, answers.project.project_id, answers.project.zone
    gvnic, rdma = f"{networks.gvnic_prefix}-net", f"{networks.rdma_prefix}-net"
    profile = f"{zone}-vpc-roce"
    mtu = {"mtu": networks.mtu} if networks.mtu else {}
    subnets = [
        _subnet(f"{networks.rdma_prefix}-sub-{n}", rdma, rdma_range(n), answers) for n in range(RDMA_SUBNETS)
    ]
    vpc = (
        _existing_vpc(answers)
        if networks.use_existing
        else [
            _network(
                networks.network,
                answers,
                {"autoCreateSubnetworks": True, **mtu},
                {"subnet-mode": "auto", "mtu": networks.mtu or None},
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
        _subnet(f"{networks.gvnic_prefix}-sub", gvnic, GVNIC_RANGE, answers),
        _gvnic_firewall(answers, gvnic),
        _network(
            rdma,
            answers,
            {
                "autoCreateSubnetworks": False,
                "networkProfile": f"projects/{project_id}/global/networkProfiles/{profile}",
            },
            {"network-profile": profile, "subnet-mode": "custom"},
            ("networkProfile", "autoCreateSubnetworks"),
        ),
        *subnets,
    ]


STEP = Step(
    answers=NetworksAnswers,
    title="Networks",
    purpose="The cluster's VPC and two networks for the GPU nodes.",
    checks=CHECKS,
    resources=_resources,
)
