"""Compute's static data: project, regions, zones, machine, accelerator and disk types, RoCE profiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from grpo_wizard.steps.emulator.context import JSON, ApiCall, handles
from grpo_wizard.steps.emulator.google.compute import quotas
from grpo_wizard.steps.emulator.google.shared.fixtures import (
    accelerator_types,
    disk_types,
    load_fixtures,
    machine_types,
    regions,
    roce_profile,
    zonal_resource,
    zones,
    zones_of,
)
from grpo_wizard.steps.emulator.google.shared.lists import aggregated_response, compute_list
from grpo_wizard.steps.emulator.google.shared.self_links import not_found_error, self_link, with_request_host

_KINDS: dict[str, tuple[str, str, Callable[[str], dict[str, JSON]]]] = {
    "machineTypes": ("machineType", "machineType", machine_types),
    "acceleratorTypes": ("acceleratorType", "acceleratorType", accelerator_types),
    "diskTypes": ("diskType", "diskType", disk_types),
}


def _project(call: ApiCall) -> str:
    return str(call.params["project"])


@handles("compute.projects.get")
def project(call: ApiCall) -> JSON:
    """Return the project as Compute's resource, with its quotas."""
    name = _project(call)
    number = call.store.project_number(name)
    return with_request_host(
        call,
        {
            "kind": "compute#project",
            "id": number,
            "name": name,
            "selfLink": self_link(f"projects/{name}"),
            "creationTimestamp": "2024-10-01T00:00:00.000-07:00",
            "quotas": quotas.project_quotas(call.store, name),
            "commonInstanceMetadata": {"kind": "compute#metadata", "fingerprint": "AAAAAAAAAAA="},
            "defaultServiceAccount": f"{number}-compute@developer.gserviceaccount.com",
            "defaultNetworkTier": "PREMIUM",
            "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
            "vmDnsSetting": "ZONAL_ONLY",
        },
    )


def _region(call: ApiCall, name: str) -> JSON:
    project_id = _project(call)
    return {
        "kind": "compute#region",
        "id": str(1000 + regions().index(name)),
        "name": name,
        "description": name,
        "status": "UP",
        "creationTimestamp": "1969-12-31T16:00:00.000-08:00",
        "selfLink": self_link(f"projects/{project_id}/regions/{name}"),
        "zones": [self_link(f"projects/{project_id}/zones/{zone}") for zone in zones_of(name)],
        "quotas": quotas.region_quotas(call.store, project_id, name),
        "supportsPzs": False,
    }


@handles("compute.regions.get")
def region(call: ApiCall) -> JSON:
    """Return one region with its quotas."""
    name = str(call.params["region"])
    if name not in regions():
        raise not_found_error(f"projects/{_project(call)}/regions/{name}")
    return with_request_host(call, _region(call, name))


@handles("compute.regions.list")
def region_list(call: ApiCall) -> JSON:
    """List the regions."""
    return compute_list(call, "regionList", [_region(call, name) for name in regions()])


def _zone(call: ApiCall, name: str) -> JSON:
    project_id = _project(call)
    return {
        "kind": "compute#zone",
        "id": str(2000 + list(zones()).index(name)),
        "name": name,
        "description": name,
        "status": "UP",
        "creationTimestamp": "1969-12-31T16:00:00.000-08:00",
        "region": self_link(f"projects/{project_id}/regions/{zones()[name]}"),
        "selfLink": self_link(f"projects/{project_id}/zones/{name}"),
        "supportsPzs": False,
    }


@handles("compute.zones.get")
def zone(call: ApiCall) -> JSON:
    """Return one zone."""
    check_zone(call)
    return with_request_host(call, _zone(call, str(call.params["zone"])))


@handles("compute.zones.list")
def zone_list(call: ApiCall) -> JSON:
    """List the zones."""
    return compute_list(call, "zoneList", [_zone(call, name) for name in zones()])


def check_zone(call: ApiCall) -> str:
    """Return the call's zone. Raises 404."""
    name = str(call.params["zone"])
    if name not in zones():
        raise not_found_error(f"projects/{_project(call)}/zones/{name}")
    return name


@handles("compute.machineTypes.get", "compute.acceleratorTypes.get", "compute.diskTypes.get")
def type_get(call: ApiCall) -> JSON:
    """Return one type in a zone."""
    collection = call.method_id.split(".")[1]
    _, param, types = _KINDS[collection]
    where, name = check_zone(call), str(call.params[param])
    body = types(where).get(name)
    if body is None:
        raise not_found_error(f"projects/{_project(call)}/zones/{where}/{collection}/{name}")
    return with_request_host(call, zonal_resource(_project(call), where, collection, body))


@handles("compute.machineTypes.list", "compute.acceleratorTypes.list", "compute.diskTypes.list")
def type_list(call: ApiCall) -> JSON:
    """List a zone's types."""
    collection = call.method_id.split(".")[1]
    kind, _, types = _KINDS[collection]
    where = check_zone(call)
    return compute_list(
        call,
        f"{kind}List",
        [zonal_resource(_project(call), where, collection, body) for body in types(where).values()],
    )


@lru_cache(maxsize=16)
def _types_in_all_zones(project_id: str, collection: str) -> list[tuple[str, JSON]]:
    """Return all zones' types: thousands, built once."""
    types = _KINDS[collection][2]
    return [
        (f"zones/{where}", zonal_resource(project_id, where, collection, body))
        for where in zones()
        for body in types(where).values()
    ]


@handles(
    "compute.machineTypes.aggregatedList",
    "compute.acceleratorTypes.aggregatedList",
    "compute.diskTypes.aggregatedList",
)
def type_aggregated(call: ApiCall) -> JSON:
    """List every zone's types."""
    collection = call.method_id.split(".")[1]
    kind = _KINDS[collection][0]
    items = _types_in_all_zones(_project(call), collection)
    return aggregated_response(
        call, f"{kind}AggregatedList", collection, items, [f"zones/{where}" for where in zones()]
    )


@handles("compute.networkProfiles.get")
def profile_get(call: ApiCall) -> JSON:
    """Return one network profile."""
    name = str(call.params["networkProfile"])
    where = name.removesuffix("-vpc-roce")
    if where == name or where not in load_fixtures()["roce_zones"]:
        raise not_found_error(f"projects/{_project(call)}/global/networkProfiles/{name}")
    return with_request_host(call, roce_profile(_project(call), where))


@handles("compute.networkProfiles.list")
def profile_list(call: ApiCall) -> JSON:
    """List the network profiles."""
    return compute_list(
        call,
        "networkProfileList",
        [roce_profile(_project(call), where) for where in load_fixtures()["roce_zones"]],
    )
