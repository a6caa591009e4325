"""Validation of node pools: name, zones, machine, networks, scaling and reservation.

Error texts without a source are inferred.
"""

from __future__ import annotations

import re

from grpo_wizard.steps.emulator.context import JSON, ApiError, Record, ResourceStore
from grpo_wizard.steps.emulator.google.compute.networks import resolve_network as find_network
from grpo_wizard.steps.emulator.google.compute.reservations import (
    available_for,
    insufficient_capacity_error,
    reservation_of,
)
from grpo_wizard.steps.emulator.google.compute.subnets import resolve_subnet as find_subnet
from grpo_wizard.steps.emulator.google.container.versions import resolve_node_version
from grpo_wizard.steps.emulator.google.shared.fixtures import accelerator_types, machine_types, zones
from grpo_wizard.steps.emulator.google.shared.self_links import basename

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_MAX_NODES_PER_ZONE = 1000


def _invalid_argument(message: str) -> ApiError:
    return ApiError(400, message, "INVALID_ARGUMENT", "badRequest")


def check_pool(store: ResourceStore, cluster: Record, asked: JSON) -> None:
    """Reject a pool with an invalid name, zone, machine, accelerator, network or reservation."""
    name, config = str(asked.get("name", "")), asked.get("config", {})
    if not _NAME.fullmatch(name):
        raise _invalid_argument(
            f'Invalid value for field "node_pool.name": "{name}". Must be a match of regex '
            f'"(?:[a-z](?:[-a-z0-9]{{0,38}}[a-z0-9])?)".'
        )
    check_count(int(asked.get("initialNodeCount", 0)))
    resolve_node_version(asked.get("version"), str(cluster.body["currentMasterVersion"]))
    region = zones().get(cluster.location, cluster.location)
    places = asked.get("locations") or cluster.body["locations"]
    for zone in places:
        if zones().get(zone) != region:
            raise _invalid_argument(f'Location "{zone}" does not belong to region "{region}".')
        _check_machine(config, zone)
    check_taints(config.get("taints", []))
    _check_networks(store, cluster, asked, region, places)
    check_max_pods(asked.get("maxPodsConstraint", {}).get("maxPodsPerNode"))
    check_scaling(asked.get("autoscaling", {}))
    for zone in places:
        check_reservation(store, cluster.project, asked, zone, int(asked.get("initialNodeCount", 0)))


def _check_machine(config: JSON, zone: str) -> None:
    machine = config.get("machineType", "e2-medium")
    if machine not in machine_types(zone):
        raise _invalid_argument(f'Machine type with name "{machine}" does not exist in zone "{zone}".')
    fixed = {
        one["guestAcceleratorType"]: one["guestAcceleratorCount"]
        for one in machine_types(zone).get(machine, {}).get("accelerators", [])
    }
    for card in config.get("accelerators", []):
        kind, count = card.get("acceleratorType"), int(card.get("acceleratorCount", 0))
        if kind not in accelerator_types(zone):
            raise _invalid_argument(f'Accelerator type "{kind}" does not exist in zone {zone}.')
        if fixed.get(kind) != count:
            raise _invalid_argument(
                "Number of accelerator cards attached to an instance must be one of "
                f'{sorted(fixed.values())} for accelerator type "{kind}" '
                f'and machine type "{machine}".'
            )


def _check_networks(
    store: ResourceStore, cluster: Record, asked: JSON, region: str, places: list[str]
) -> None:
    """Check additional node networks; the texts are inferred.

    Each must exist, appear once, not be the cluster's own, and belong to one profile's zone.
    """
    extra = asked.get("networkConfig", {}).get("additionalNodeNetworkConfigs", [])
    if extra and not cluster.body.get("networkConfig", {}).get("enableMultiNetworking"):
        raise _invalid_argument("Additional node networks require a cluster with multi-networking enabled.")
    seen = {cluster.extra.get("subnetwork")}
    for one in extra:
        name = str(one.get("subnetwork", ""))
        network = find_network(store, cluster.project, one.get("network", ""))
        subnet = find_subnet(store, cluster.project, region, name)
        if network is None:
            raise _invalid_argument(f'Network "{one.get("network", "")}" does not exist.')
        if subnet is None:
            raise _invalid_argument(f'Subnetwork "{name}" does not exist in region "{region}".')
        if basename(str(subnet.body["network"])) != network.name:
            raise _invalid_argument(f'Subnetwork "{name}" does not belong to network "{network.name}".')
        if subnet.key in seen or network.key == cluster.extra.get("network"):
            raise _invalid_argument(f'Subnetwork "{name}" is already attached to the nodes.')
        seen.add(subnet.key)
        home = basename(str(network.body.get("networkProfile", ""))).removesuffix("-vpc-roce")
        if home and places != [home]:
            raise _invalid_argument(
                f'Network "{network.name}" has a network profile of zone "{home}": the node pool must be in that '
                "zone only."
            )


def check_taints(taints: list[JSON]) -> None:
    """Reject a taint without key or effect; the text is inferred."""
    for taint in taints:
        if not taint.get("key") or taint.get("effect", "EFFECT_UNSPECIFIED") == "EFFECT_UNSPECIFIED":
            raise _invalid_argument("Node taints must have a key and an effect.")


def check_count(count: int) -> None:
    """Reject a negative node count, or more than GKE's limit of 1,000 per zone
    (https://docs.cloud.google.com/kubernetes-engine/quotas).
    """
    if not 0 <= count <= _MAX_NODES_PER_ZONE:
        raise _invalid_argument(
            f"Node count {count} is invalid: must be between 0 and {_MAX_NODES_PER_ZONE} in a zone."
        )


def check_max_pods(most: object) -> None:
    """Reject a maximum outside 8 to 256 pods per node (GKE's documentation of flexible Pod CIDR, 2026-11; text inferred)."""
    if most is not None and not 8 <= int(str(most)) <= 256:
        raise _invalid_argument(f"Maximum number of pods per node must be between 8 and 256, not {most}.")


def check_scaling(scaling: JSON) -> None:
    """Accept limits per zone or in total, never both (as the document states); the texts are inferred."""
    zonal, total = ("minNodeCount", "maxNodeCount"), ("totalMinNodeCount", "totalMaxNodeCount")
    if any(scaling.get(name) for name in zonal) and any(scaling.get(name) for name in total):
        raise _invalid_argument(
            "The total_*_node_count fields are mutually exclusive with the *_node_count fields."
        )
    for low, high in (zonal, total):
        if scaling.get(high) is not None and int(scaling.get(low, 0)) > int(scaling[high]):
            raise _invalid_argument(f"{low} ({scaling.get(low)}) must not exceed {high} ({scaling[high]}).")


def check_reservation(store: ResourceStore, project: str, pool: JSON, zone: str, needed: int) -> None:
    """Check the reservation only when nodes are needed, as GKE does: a pool of 0 nodes accepts any name."""
    asked = reservation_of(pool)
    if asked is None or needed <= 0:
        return
    machine = pool.get("config", {}).get("machineType", "e2-medium")
    record, left = available_for(store, project, zone, asked, machine)
    if left < needed:
        raise insufficient_capacity_error(record, asked, str(pool["name"]), zone, machine, needed, left)
