"""The initial cloud's static data, read from assets/catalog/emulator_fixtures.json.

Regions, zones, machine and accelerator types, RoCE profiles, limits.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.google.shared.self_links import self_link

_CREATED = "2024-10-01T00:00:00.000-07:00"


@cache
def load_fixtures() -> dict[str, Any]:
    """Return the whole file."""
    text = (
        resources.files("grpo_wizard.assets")
        .joinpath("catalog/emulator_fixtures.json")
        .read_text(encoding="utf-8")
    )
    return dict(json.loads(text))


def regions() -> list[str]:
    """Return all regions."""
    return sorted(load_fixtures()["regions"])


def zones_of(region: str) -> list[str]:
    """Return a region's zones, AI zones last; empty for an unknown region."""
    return list(load_fixtures()["regions"].get(region, {}).get("zones", []))


@cache
def zones() -> dict[str, str]:
    """Return the region by zone.

    The region of an AI zone (`us-central1-ai1a`) precedes its last dash, as in other zones.
    """
    return {zone: region for region in regions() for zone in zones_of(region)}


def is_ai_zone(zone: str) -> bool:
    """Return whether it is an AI zone: those have accelerators only, and GKE does not choose them automatically."""
    return zone.rsplit("-", 1)[-1].startswith("ai")


@cache
def machine_types(zone: str) -> dict[str, JSON]:
    """Return a zone's machine types by name (bodies without project: see `zonal_resource`)."""
    found = {
        name: _machine(
            name, one["cpus"], one["memory_mb"], f"{one['cpus']} vCPUs, {one['memory_mb'] // 1024} GB RAM"
        )
        for name, one in load_fixtures()["general"]["fixed"].items()
    }
    for family, classes in load_fixtures()["general"]["families"].items():
        for shape, sizes in classes.items():
            for cpus in sizes:
                name = f"{family}-{shape}-{cpus}"
                found[name] = _general_purpose_machine(name, shape, cpus)
    for name, data in load_fixtures()["machines"].items():
        if zone in data["zones"]:
            found[name] = _accelerator_machine(name, data)
    return found


def _general_purpose_machine(name: str, shape: str, cpus: int) -> JSON:
    general = load_fixtures()["general"]
    gigabytes = general["exceptions"].get(name, cpus * general["memory_gb_per_cpu"][shape])
    return _machine(name, cpus, gigabytes * 1024, f"{cpus} vCPUs, {gigabytes} GB RAM")


def _accelerator_machine(name: str, data: JSON) -> JSON:
    body = _machine(name, data["cpus"], data["memory_mb"], data["description"])
    accelerator, count = data["gpu"]
    body["accelerators"] = [{"guestAcceleratorType": accelerator, "guestAcceleratorCount": count}]
    body["bundledLocalSsds"] = {"defaultInterface": "NVME", "partitionCount": data["local_ssds"]}
    return body


def _machine(name: str, cpus: int, memory_mb: int, description: str) -> JSON:
    return {
        "kind": "compute#machineType",
        "id": _stable_id(name),
        "creationTimestamp": _CREATED,
        "name": name,
        "description": description,
        "guestCpus": cpus,
        "memoryMb": memory_mb,
        "imageSpaceGb": 0,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "isSharedCpu": False,
        "architecture": "X86_64",
    }


def accelerator_types(zone: str) -> dict[str, JSON]:
    """Return a zone's accelerator types by name."""
    return {
        name: {
            "kind": "compute#acceleratorType",
            "id": _stable_id(name),
            "creationTimestamp": _CREATED,
            "name": name,
            "description": data["description"],
            "maximumCardsPerInstance": data["most"],
        }
        for name, data in load_fixtures()["accelerators"].items()
        if zone in data["zones"]
    }


def disk_types(zone: str) -> dict[str, JSON]:
    """Return a zone's disk types by name."""
    return {
        name: {
            "kind": "compute#diskType",
            "id": _stable_id(name),
            "creationTimestamp": _CREATED,
            "name": name,
            "defaultDiskSizeGb": "100",
            "validDiskSize": "10GB-65536GB",
        }
        for name in load_fixtures()["disk_types"]
        if zone in zones()
    }


def zonal_resource(project: str, zone: str, collection: str, body: JSON) -> JSON:
    """Return a zonal type's body with its zone and link."""
    link: Any = zone if collection == "machineTypes" else self_link(f"projects/{project}/zones/{zone}")
    return {
        **body,
        "zone": link,
        "selfLink": self_link(f"projects/{project}/zones/{zone}/{collection}/{body['name']}"),
    }


def roce_profile(project: str, zone: str) -> JSON:
    """Return the network profile `<zone>-vpc-roce`."""
    name = f"{zone}-vpc-roce"
    key = f"projects/{project}/global/networkProfiles/{name}"
    return {
        "kind": "compute#networkProfile",
        "id": _stable_id(name),
        "creationTimestamp": _CREATED,
        "name": name,
        "description": name,
        "selfLink": self_link(key),
        "location": {"name": zone, "scope": "ZONE"},
        "profileType": {"networkType": "RDMA", "rdmaSubtype": "ROCE"},
        "features": dict(_ROCE),
    }


_ROCE: JSON = {
    "interfaceTypes": ["MRDMA"],
    "subnetworkPurposes": ["PRIVATE"],
    "subnetworkStackTypes": ["IPV4_ONLY"],
    "addressPurposes": ["GCE_ENDPOINT"],
    "firewallPolicyTypes": ["RDMA_ROCE_POLICY"],
    "unicast": "UNICAST_SDN",
    "allowAliasIpRanges": "ALIAS_IP_RANGES_BLOCKED",
    "allowAutoModeSubnet": "AUTO_MODE_SUBNET_BLOCKED",
    "allowClassDFirewalls": "CLASS_D_FIREWALLS_BLOCKED",
    "allowCloudNat": "CLOUD_NAT_BLOCKED",
    "allowCloudRouter": "CLOUD_ROUTER_BLOCKED",
    "allowDefaultNicAttachment": "DEFAULT_NIC_ATTACHMENT_BLOCKED",
    "allowExternalIpAccess": "EXTERNAL_IP_ACCESS_BLOCKED",
    "allowFirewallPolicy": "FIREWALL_POLICY_ALLOWED",
    "allowInterconnect": "INTERCONNECT_BLOCKED",
    "allowIpForwarding": "IP_FORWARDING_BLOCKED",
    "allowLoadBalancing": "LOAD_BALANCING_BLOCKED",
    "allowMultiNicInSameNetwork": "MULTI_NIC_IN_SAME_NETWORK_ALLOWED",
    "allowNcc": "NCC_BLOCKED",
    "allowPacketMirroring": "PACKET_MIRRORING_BLOCKED",
    "allowPrivateGoogleAccess": "PRIVATE_GOOGLE_ACCESS_BLOCKED",
    "allowPsc": "PSC_BLOCKED",
    "allowStaticRoutes": "STATIC_ROUTES_BLOCKED",
    "allowSubInterfaces": "SUBINTERFACES_BLOCKED",
    "allowVpcFirewallRules": "VPC_FIREWALL_RULES_BLOCKED",
    "allowVpcPeering": "VPC_PEERING_BLOCKED",
    "allowVpn": "VPN_BLOCKED",
}


def _stable_id(name: str) -> str:
    """Return a stable id of a static resource."""
    return str(2**62 + int.from_bytes(name.encode()[-7:].rjust(7, b"\0"), "big"))
