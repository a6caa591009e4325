"""Questions about machines: zones, accelerators, reservations in every form, quotas."""

from __future__ import annotations

from grpo_wizard.steps.clients.context import CloudContext, call, get_or_none
from grpo_wizard.steps.clients.google.compute import compute_client
from grpo_wizard.steps.clients.queries.registry import get_compute, list_compute, query
from grpo_wizard.steps.clients.serialization import JSON, to_json


@query
def zone(cloud: CloudContext, project: str, zone: str) -> JSON | None:
    return get_compute(cloud, "ZonesClient", project=project, zone=zone)


@query
def zones(cloud: CloudContext, project: str) -> list[JSON]:
    return list_compute(cloud, "ZonesClient", project=project)


@query
def machine_type(cloud: CloudContext, project: str, zone: str, name: str) -> JSON | None:
    return get_compute(cloud, "MachineTypesClient", project=project, zone=zone, machine_type=name)


@query
def machine_zones(cloud: CloudContext, project: str, name: str) -> list[str]:
    """Every zone that has a machine type."""
    request = {"project": project, "filter": f"name={name}"}
    pages = call("compute", compute_client(cloud, "MachineTypesClient").aggregated_list, request=request)
    return sorted(scope.rpartition("/")[2] for scope, listed in pages if listed.machine_types)


@query
def accelerator(cloud: CloudContext, project: str, zone: str, name: str) -> JSON | None:
    return get_compute(cloud, "AcceleratorTypesClient", project=project, zone=zone, accelerator_type=name)


@query
def reservation(cloud: CloudContext, project: str, zone: str, name: str) -> JSON | None:
    return get_compute(cloud, "ReservationsClient", project=project, zone=zone, reservation=name)


@query
def reservations(cloud: CloudContext, project: str, zone: str) -> list[JSON]:
    """All of a zone, to choose from."""
    return list_compute(cloud, "ReservationsClient", project=project, zone=zone)


@query
def reservation_zones(cloud: CloudContext, project: str, name: str) -> list[str]:
    pages = call(
        "compute", compute_client(cloud, "ReservationsClient").aggregated_list, request={"project": project}
    )
    return sorted(
        scope.rpartition("/")[2]
        for scope, listed in pages
        if any(r.name == name for r in listed.reservations)
    )


@query
def future_reservations(cloud: CloudContext, project: str, name: str) -> list[str]:
    """Zones in which a future reservation of that name is waited for."""
    client = compute_client(cloud, "FutureReservationsClient")
    pages = call("compute", client.aggregated_list, request={"project": project})
    return sorted(
        scope.rpartition("/")[2]
        for scope, listed in pages
        if any(r.name == name for r in listed.future_reservations)
    )


@query
def reservation_block(cloud: CloudContext, project: str, zone: str, name: str, block: str) -> JSON | None:
    request = {"project": project, "zone": zone, "reservation": name, "reservation_block": block}
    found = get_or_none(compute_client(cloud, "ReservationBlocksClient").get, "compute", request)
    return found and found.get("resource")


@query
def reservation_sub_block(
    cloud: CloudContext, project: str, zone: str, name: str, block: str, sub: str
) -> JSON | None:
    parent = f"reservations/{name}/reservationBlocks/{block}"
    request = {"project": project, "zone": zone, "parent_name": parent, "reservation_sub_block": sub}
    found = get_or_none(compute_client(cloud, "ReservationSubBlocksClient").get, "compute", request)
    return found and found.get("resource")


@query
def quotas(cloud: CloudContext, project: str, region: str = "") -> dict[str, JSON]:
    """Compute's quotas by metric, {limit, usage}: the project's, or a region's."""
    if region:
        client, request = compute_client(cloud, "RegionsClient"), {"project": project, "region": region}
    else:
        client, request = compute_client(cloud, "ProjectsClient"), {"project": project}
    seen = to_json(call("compute", client.get, request=request))
    return {
        str(row["metric"]): {"limit": float(row.get("limit", 0)), "usage": float(row.get("usage", 0))}
        for row in seen.get("quotas", [])
        if "metric" in row
    }


@query
def gpu_quota(
    cloud: CloudContext,
    project: str,
    region: str,
    family: str,
    quota: str = "GPUS-PER-GPU-FAMILY-per-project-region",
) -> int | None:
    """GPUs of a family in a region by Cloud Quotas; compute's own list does not know B200 and H200 (google-cloud.md §3.6)."""
    client = cloud.rest_client("cloudquotas", "google.cloud.cloudquotas_v1", "CloudQuotasClient")
    name = f"projects/{project}/locations/global/services/compute.googleapis.com/quotaInfos/{quota}"
    info = to_json(call("cloudquotas", client.get_quota_info, request={"name": name}))
    for row in info.get("dimensionsInfos", []):
        at = row.get("dimensions", {})
        if at.get("gpu_family") == family and (
            region in row.get("applicableLocations", []) or at.get("region") == region
        ):
            return int(row.get("details", {}).get("value", 0))
    return None
