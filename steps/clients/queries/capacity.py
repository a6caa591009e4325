"""Questions about machines: zones, accelerators, reservations in every form, quotas."""

from __future__ import annotations

from grpo_wizard.steps.clients.context import call, get_or_none
from grpo_wizard.steps.clients.google.compute import compute_client
from grpo_wizard.steps.clients.queries.base import QueryBase, query
from grpo_wizard.steps.clients.serialization import JSON, to_json
from grpo_wizard.steps.core.cloud_reader import QuotaUsage, ReservationBlock, ReservationStatus, ZoneStatus


class CapacityQueries(QueryBase):
    """Questions about what a zone or region has, and how much of it is left."""

    @query
    def zones(self, *, project: str) -> list[ZoneStatus]:
        listed = self._list_compute("ZonesClient", project=project)
        return [ZoneStatus(name=str(row["name"]), status=row.get("status", "")) for row in listed]

    @query
    def has_machine_type(self, *, project: str, zone: str, name: str) -> bool:
        found = self._get_compute("MachineTypesClient", project=project, zone=zone, machine_type=name)
        return found is not None

    @query
    def machine_type_zones(self, *, project: str, name: str) -> list[str]:
        """Every zone that has a machine type."""
        pages = self._list_compute_zones("MachineTypesClient", project=project, filter=f"name={name}")
        return sorted(zone for zone, page in pages if page.machine_types)

    @query
    def has_accelerator(self, *, project: str, zone: str, name: str) -> bool:
        found = self._get_compute("AcceleratorTypesClient", project=project, zone=zone, accelerator_type=name)
        return found is not None

    @query
    def reservation(self, *, project: str, zone: str, name: str) -> ReservationStatus | None:
        found = self._get_compute("ReservationsClient", project=project, zone=zone, reservation=name)
        return _reservation(found) if found else None

    @query
    def reservations(self, *, project: str, zone: str) -> list[ReservationStatus]:
        """All of a zone, to choose from."""
        return [
            _reservation(row) for row in self._list_compute("ReservationsClient", project=project, zone=zone)
        ]

    @query
    def reservation_zones(self, *, project: str, name: str) -> list[str]:
        """Zones that have a reservation of this name."""
        pages = self._list_compute_zones("ReservationsClient", project=project)
        return sorted(zone for zone, page in pages if any(r.name == name for r in page.reservations))

    @query
    def future_reservation_zones(self, *, project: str, name: str) -> list[str]:
        """Zones that have a future reservation of this name."""
        pages = self._list_compute_zones("FutureReservationsClient", project=project)
        return sorted(zone for zone, page in pages if any(r.name == name for r in page.future_reservations))

    @query
    def reservation_block(self, *, project: str, zone: str, name: str, block: str) -> ReservationBlock | None:
        request = {"project": project, "zone": zone, "reservation": name, "reservation_block": block}
        found = get_or_none(compute_client(self.cloud, "ReservationBlocksClient").get, "compute", request)
        return _block(found)

    @query
    def reservation_sub_block(
        self, *, project: str, zone: str, name: str, block: str, sub_block: str
    ) -> ReservationBlock | None:
        parent = f"reservations/{name}/reservationBlocks/{block}"
        request = {
            "project": project,
            "zone": zone,
            "parent_name": parent,
            "reservation_sub_block": sub_block,
        }
        found = get_or_none(compute_client(self.cloud, "ReservationSubBlocksClient").get, "compute", request)
        return _block(found)

    @query
    def quotas(self, *, project: str) -> dict[str, QuotaUsage]:
        """The project's Compute Engine quotas by metric."""
        get = compute_client(self.cloud, "ProjectsClient").get
        return _quotas(to_json(call("compute", get, request={"project": project})))

    @query
    def region_quotas(self, *, project: str, region: str) -> dict[str, QuotaUsage]:
        """A region's Compute Engine quotas by metric."""
        get = compute_client(self.cloud, "RegionsClient").get
        return _quotas(to_json(call("compute", get, request={"project": project, "region": region})))

    @query
    def gpu_quota(self, *, project: str, region: str, family: str, quota: str) -> int | None:
        """GPUs of a family in a region, from Cloud Quotas: the quotas of Compute Engine list no B200 and no H200."""
        client = self.cloud.rest_client("cloudquotas", "google.cloud.cloudquotas_v1", "CloudQuotasClient")
        name = f"projects/{project}/locations/global/services/compute.googleapis.com/quotaInfos/{quota}"
        info = to_json(call("cloudquotas", client.get_quota_info, request={"name": name}))
        for row in info.get("dimensionsInfos", []):
            dimensions = row.get("dimensions", {})
            if dimensions.get("gpu_family") == family and (
                region in row.get("applicableLocations", []) or dimensions.get("region") == region
            ):
                return int(row.get("details", {}).get("value", 0))
        return None


def _reservation(body: JSON) -> ReservationStatus:
    specific, sharing = body.get("specificReservation", {}), body.get("shareSettings", {})
    count = int(specific.get("count") or 0)
    machine_type = str(specific.get("instanceProperties", {}).get("machineType", ""))
    return ReservationStatus(
        name=str(body["name"]),
        status=str(body.get("status")),
        machine_type=machine_type.rpartition("/")[2],
        count=count,
        assured=int(specific.get("assuredCount") or count),
        in_use=int(specific.get("inUseCount") or 0),
        targeted_by_name=bool(body.get("specificReservationRequired")),
        share_type=sharing.get("shareType", "LOCAL"),
        shared_with=frozenset(sharing.get("projectMap", {})),
        placement_policies=frozenset(
            str(link).rpartition("/")[2] for link in body.get("resourcePolicies", {}).values()
        ),
        delete_at=str(body.get("deleteAtTime", "")),
    )


def _block(found: JSON | None) -> ReservationBlock | None:
    """Return the block or sub-block that a `get` response wraps."""
    if found is None:
        return None
    body = found["resource"]
    return ReservationBlock(count=int(body.get("count", 0)), in_use=int(body.get("inUseCount", 0)))


def _quotas(body: JSON) -> dict[str, QuotaUsage]:
    return {
        str(row["metric"]): QuotaUsage(limit=float(row.get("limit", 0)), usage=float(row.get("usage", 0)))
        for row in body.get("quotas", [])
        if "metric" in row
    }
