"""Questions about machines: zones, accelerators, reservations in every form, quotas."""

from __future__ import annotations

from grpo_wizard.steps.clients.context import Cloud, absent_is_none, call
from grpo_wizard.steps.clients.google.compute import compute
from grpo_wizard.steps.clients.queries.registry import compute_all, compute_one, question
from grpo_wizard.steps.clients.serialization import JSON, document


@question
def zone(cloud: Cloud, project: str, zone: str) -> JSON | None:
    return compute_one(cloud, "ZonesClient", project=project, zone=zone)


@question
def zones(cloud: Cloud, project: str) -> list[JSON]:
    return compute_all(cloud, "ZonesClient", project=project)


@question
def machine_type(cloud: Cloud, project: str, zone: str, name: str) -> JSON | None:
    return compute_one(cloud, "MachineTypesClient", project=project, zone=zone, machine_type=name)


@question
def machine_zones(cloud: Cloud, project: str, name: str) -> list[str]:
    """Every zone that has a machine type."""
    request = {"project": project, "filter": f"name={name}"}
    pages = call("compute", compute(cloud, "MachineTypesClient").aggregated_list, request=request)
    return sorted(scope.rpartition("/")[2] for scope, listed in pages if listed.machine_types)


@question
def accelerator(cloud: Cloud, project: str, zone: str, name: str) -> JSON | None:
    return compute_one(cloud, "AcceleratorTypesClient", project=project, zone=zone, accelerator_type=name)


@question
def reservation(cloud: Cloud, project: str, zone: str, name: str) -> JSON | None:
    return compute_one(cloud, "ReservationsClient", project=project, zone=zone, reservation=name)


@question
def reservations(cloud: Cloud, project: str, zone: str) -> list[JSON]:
    """All of a zone, to choose from."""
    return compute_all(cloud, "ReservationsClient", project=project, zone=zone)


@question
def reservation_zones(cloud: Cloud, project: str, name: str) -> list[str]:
    pages = call(
        "compute", compute(cloud, "ReservationsClient").aggregated_list, request={"project": project}
    )
    return sorted(
        scope.rpartition("/")[2]
        for scope, listed in pages
        if any(r.name == name for r in listed.reservations)
    )


@question
def future_reservations(cloud: Cloud, project: str, name: str) -> list[str]:
    """Zones in which a future reservation of that name is waited for."""
    client = compute(cloud, "FutureReservationsClient")
    pages = call("compute", client.aggregated_list, request={"project": project})
    return sorted(
        scope.rpartition("/")[2]
        for scope, listed in pages
        if any(r.name == name for r in listed.future_reservations)
    )


@question
def reservation_block(cloud: Cloud, project: str, zone: str, name: str, block: str) -> JSON | None:
    request = {"project": project, "zone": zone, "reservation": name, "reservation_block": block}
    found = absent_is_none(compute(cloud, "ReservationBlocksClient").get, "compute", request)
    return found and found.get("resource")


@question
def reservation_sub_block(
    cloud: Cloud, project: str, zone: str, name: str, block: str, sub: str
) -> JSON | None:
    parent = f"reservations/{name}/reservationBlocks/{block}"
    request = {"project": project, "zone": zone, "parent_name": parent, "reservation_sub_block": sub}
    found = absent_is_none(compute(cloud, "ReservationSubBlocksClient").get, "compute", request)
    return found and found.get("resource")


@question
def quotas(cloud: Cloud, project: str, region: str = "") -> dict[str, JSON]:
    """Compute's quotas by metric, {limit, usage}: the project's, or a region's."""
    if region:
        client, request = compute(cloud, "RegionsClient"), {"project": project, "region": region}
    else:
        client, request = compute(cloud, "ProjectsClient"), {"project": project}
    seen = document(call("compute", client.get, request=request))
    return {
        str(row["metric"]): {"limit": float(row.get("limit", 0)), "usage": float(row.get("usage", 0))}
        for row in seen.get("quotas", [])
        if "metric" in row
    }


@question
def gpu_quota(
    cloud: Cloud,
    project: str,
    region: str,
    family: str,
    quota: str = "GPUS-PER-GPU-FAMILY-per-project-region",
) -> int | None:
    """GPUs of a family in a region by Cloud Quotas; compute's own list does not know B200 and H200 (google-cloud.md §3.6)."""
    client = cloud.rest("cloudquotas", "google.cloud.cloudquotas_v1", "CloudQuotasClient")
    name = f"projects/{project}/locations/global/services/compute.googleapis.com/quotaInfos/{quota}"
    info = document(call("cloudquotas", client.get_quota_info, request={"name": name}))
    for row in info.get("dimensionsInfos", []):
        at = row.get("dimensions", {})
        if at.get("gpu_family") == family and (
            region in row.get("applicableLocations", []) or at.get("region") == region
        ):
            return int(row.get("details", {}).get("value", 0))
    return None
