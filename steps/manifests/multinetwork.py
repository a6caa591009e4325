"""Device networks, through which pods request the gVNIC and the eight RDMA interfaces: a GKENetworkParamSet and a Network for each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.gcp.naming import resource_id

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

RDMA_SUBNETS = 8  # one for the network interface of each GPU


def node_networks(answers: Answers) -> list[tuple[str, str]]:
    """(network, subnet) of the nine additional interfaces of a GPU node: gVNIC first, then RDMA 0 to 7."""
    gvnic, rdma = answers.networks.gvnic_prefix, answers.networks.rdma_prefix
    return [
        (f"{gvnic}-net", f"{gvnic}-sub"),
        *((f"{rdma}-net", f"{rdma}-sub-{n}") for n in range(RDMA_SUBNETS)),
    ]


def subnet_ids(answers: Answers) -> tuple[str, ...]:
    return tuple(resource_id("networks", "subnet", subnet) for _, subnet in node_networks(answers))


def device_names() -> list[str]:
    return ["gvnic-1", *(f"rdma-{n}" for n in range(RDMA_SUBNETS))]


def interfaces_annotation() -> str:
    """The value of `networking.gke.io/interfaces`: eth0 for the cluster's network, eth1 to eth9 for the devices."""
    cards = ["default", *device_names()]
    return json.dumps([{"interfaceName": f"eth{n}", "network": name} for n, name in enumerate(cards)])


def device_networks(answers: Answers, parent: Mapping[str, str], cluster: str) -> Sequence[Resource]:
    made: list[Resource] = []
    for name, (network, subnet) in zip(device_names(), node_networks(answers), strict=True):
        params = Resource(
            step="cluster",
            kind="network_params",
            name=name,
            spec=_params(name, network, subnet),
            parent=parent,
            depends_on=(cluster, resource_id("networks", "subnet", subnet)),
            command="kubectl apply -f network-mapping.yaml",
        )
        made += [
            params,
            Resource(
                step="cluster",
                kind="device_network",
                name=name,
                spec=_network(name),
                parent=parent,
                depends_on=(params.id,),
                command="kubectl apply -f network-mapping.yaml",
            ),
        ]
    return made


def _params(name: str, network: str, subnet: str) -> dict[str, object]:
    mode = "RDMA" if name.startswith("rdma") else "NetDevice"
    return {
        "apiVersion": "networking.gke.io/v1",
        "kind": "GKENetworkParamSet",
        "metadata": {"name": name},
        "spec": {"vpc": network, "vpcSubnet": subnet, "deviceMode": mode},
    }


def _network(name: str) -> dict[str, object]:
    reference = {"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": name}
    return {
        "apiVersion": "networking.gke.io/v1",
        "kind": "Network",
        "metadata": {"name": name},
        "spec": {"type": "Device", "parametersRef": reference},
    }
