"""Compute's fixed things: project, regions, zones, machine, accelerator and disk types, RoCE profiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from grpo_wizard.steps.emulator.google.compute import quotas
from grpo_wizard.steps.emulator.google.shared.fixtures import (
    accelerator_types,
    disk_types,
    ground,
    machine_types,
    placed,
    regions,
    roce_profile,
    zones,
    zones_of,
)
from grpo_wizard.steps.emulator.google.shared.lists import aggregated, listed
from grpo_wizard.steps.emulator.google.shared.self_links import missing, sent, stored
from grpo_wizard.steps.emulator.server.context import JSON, Call, serves

_KINDS: dict[str, tuple[str, str, Callable[[str], dict[str, JSON]]]] = {
    "machineTypes": ("machineType", "machineType", machine_types),
    "acceleratorTypes": ("acceleratorType", "acceleratorType", accelerator_types),
    "diskTypes": ("diskType", "diskType", disk_types),
}


def _project(call: Call) -> str:
    return str(call.params["project"])


@serves("compute.projects.get")
def project(call: Call) -> JSON:
    """The project as Compute sees it, with its quotas."""
    name = _project(call)
    number = call.world.project_number(name)
    return sent(
        call,
        {
            "kind": "compute#project",
            "id": number,
            "name": name,
            "selfLink": stored(f"projects/{name}"),
            "creationTimestamp": "2024-10-01T00:00:00.000-07:00",
            "quotas": quotas.of_project(call.world, name),
            "commonInstanceMetadata": {"kind": "compute#metadata", "fingerprint": "AAAAAAAAAAA="},
            "defaultServiceAccount": f"{number}-compute@developer.gserviceaccount.com",
            "defaultNetworkTier": "PREMIUM",
            "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
            "vmDnsSetting": "ZONAL_ONLY",
        },
    )


def _region(call: Call, name: str) -> JSON:
    project_id = _project(call)
    return {
        "kind": "compute#region",
        "id": str(1000 + regions().index(name)),
        "name": name,
        "description": name,
        "status": "UP",
        "creationTimestamp": "1969-12-31T16:00:00.000-08:00",
        "selfLink": stored(f"projects/{project_id}/regions/{name}"),
        "zones": [stored(f"projects/{project_id}/zones/{zone}") for zone in zones_of(name)],
        "quotas": quotas.of_region(call.world, project_id, name),
        "supportsPzs": False,
    }


@serves("compute.regions.get")
def region(call: Call) -> JSON:
    """One region with its quotas."""
    name = str(call.params["region"])
    if name not in regions():
        raise missing(f"projects/{_project(call)}/regions/{name}")
    return sent(call, _region(call, name))


@serves("compute.regions.list")
def region_list(call: Call) -> JSON:
    """Every region."""
    return listed(call, "regionList", [_region(call, name) for name in regions()])


def _zone(call: Call, name: str) -> JSON:
    project_id = _project(call)
    return {
        "kind": "compute#zone",
        "id": str(2000 + list(zones()).index(name)),
        "name": name,
        "description": name,
        "status": "UP",
        "creationTimestamp": "1969-12-31T16:00:00.000-08:00",
        "region": stored(f"projects/{project_id}/regions/{zones()[name]}"),
        "selfLink": stored(f"projects/{project_id}/zones/{name}"),
        "supportsPzs": False,
    }


@serves("compute.zones.get")
def zone(call: Call) -> JSON:
    """One zone."""
    check_zone(call)
    return sent(call, _zone(call, str(call.params["zone"])))


@serves("compute.zones.list")
def zone_list(call: Call) -> JSON:
    """Every zone."""
    return listed(call, "zoneList", [_zone(call, name) for name in zones()])


def check_zone(call: Call) -> str:
    """The call's zone, or 404."""
    name = str(call.params["zone"])
    if name not in zones():
        raise missing(f"projects/{_project(call)}/zones/{name}")
    return name


@serves("compute.machineTypes.get", "compute.acceleratorTypes.get", "compute.diskTypes.get")
def type_get(call: Call) -> JSON:
    """One type in a zone."""
    collection = call.method_id.split(".")[1]
    _, param, types = _KINDS[collection]
    where, name = check_zone(call), str(call.params[param])
    body = types(where).get(name)
    if body is None:
        raise missing(f"projects/{_project(call)}/zones/{where}/{collection}/{name}")
    return sent(call, placed(_project(call), where, collection, body))


@serves("compute.machineTypes.list", "compute.acceleratorTypes.list", "compute.diskTypes.list")
def type_list(call: Call) -> JSON:
    """A zone's types."""
    collection = call.method_id.split(".")[1]
    kind, _, types = _KINDS[collection]
    where = check_zone(call)
    return listed(
        call,
        f"{kind}List",
        [placed(_project(call), where, collection, body) for body in types(where).values()],
    )


@lru_cache(maxsize=16)
def _everywhere(project_id: str, collection: str) -> list[tuple[str, JSON]]:
    """All zones' types: built once, thousands of them."""
    types = _KINDS[collection][2]
    return [
        (f"zones/{where}", placed(project_id, where, collection, body))
        for where in zones()
        for body in types(where).values()
    ]


@serves(
    "compute.machineTypes.aggregatedList",
    "compute.acceleratorTypes.aggregatedList",
    "compute.diskTypes.aggregatedList",
)
def type_aggregated(call: Call) -> JSON:
    """Every zone's types."""
    collection = call.method_id.split(".")[1]
    kind = _KINDS[collection][0]
    items = _everywhere(_project(call), collection)
    return aggregated(
        call, f"{kind}AggregatedList", collection, items, [f"zones/{where}" for where in zones()]
    )


@serves("compute.networkProfiles.get")
def profile_get(call: Call) -> JSON:
    """One network profile."""
    name = str(call.params["networkProfile"])
    where = name.removesuffix("-vpc-roce")
    if where == name or where not in ground()["roce_zones"]:
        raise missing(f"projects/{_project(call)}/global/networkProfiles/{name}")
    return sent(call, roce_profile(_project(call), where))


@serves("compute.networkProfiles.list")
def profile_list(call: Call) -> JSON:
    """Every network profile."""
    return listed(
        call, "networkProfileList", [roce_profile(_project(call), where) for where in ground()["roce_zones"]]
    )
