"""Reservations with their blocks and sub-blocks. `inUseCount` is derived from the node pools' nodes."""

from __future__ import annotations

import copy

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, Record, ResourceStore, handles
from grpo_wizard.steps.emulator.drills.active import is_active
from grpo_wizard.steps.emulator.google.compute.catalog import check_zone
from grpo_wizard.steps.emulator.google.compute.collections import get_resource, list_in_project, project_of
from grpo_wizard.steps.emulator.google.shared.fixtures import load_fixtures, zones
from grpo_wizard.steps.emulator.google.shared.ids import generate_resource_id, pacific_timestamp
from grpo_wizard.steps.emulator.google.shared.lists import aggregated_response, compute_list
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    CONTAINER,
    basename,
    not_found_error,
    self_link,
    with_request_host,
)

# A4 and A3 Ultra: a sub-block has at most 18 machines (Google's documentation; not verified).
_PER_SUB_BLOCK = 18
_RESERVATION_GONE_DRILL = "reservation-gone"  # the drill that deletes them all


def add_reservation(
    store: ResourceStore, project: str, name: str, zone: str, machine: str, count: int
) -> Record:
    """Add a specific, ready reservation to the initial state."""
    key = f"projects/{project}/zones/{zone}/reservations/{name}"
    data = load_fixtures()["machines"][machine]
    accelerator, cards = data["gpu"]
    properties = {
        "machineType": machine,
        "locationHint": "",
        "guestAccelerators": [{"acceleratorType": accelerator, "acceleratorCount": cards}],
        "localSsds": [{"diskSizeGb": "375", "interface": "NVME"} for _ in range(data["local_ssds"])],
    }
    asked = {"name": name, "specificReservationRequired": True, "deploymentType": "DENSE"}
    asked["specificReservation"] = {"count": str(count), "instanceProperties": properties}
    body = ready_body(store, key, asked)
    return store.put(Record(COMPUTE, "reservation", name, project, zone, key, body, hidden=True))


def ready_body(store: ResourceStore, key: str, asked: JSON) -> JSON:
    """Return a ready reservation's body."""
    specific = asked["specificReservation"]
    return {
        "kind": "compute#reservation",
        "id": generate_resource_id(),
        "creationTimestamp": pacific_timestamp(store),
        "selfLink": self_link(key),
        "zone": self_link(key.split("/reservations/")[0]),
        "status": "READY",
        "specificReservationRequired": False,
        "enableEmergentMaintenance": False,
        "satisfiesPzs": False,
        "shareSettings": {"shareType": "LOCAL"},
        "reservationSharingPolicy": {"serviceShareType": "DISALLOW_ALL"},
        "resourceStatus": {"reservationBlockCount": 1, "specificSkuAllocation": {}},
        **asked,
        "specificReservation": {**specific, "assuredCount": str(specific["count"]), "inUseCount": "0"},
    }


def parse_reservation(project: str, zone: str, value: str) -> tuple[str, str, str]:
    """Return (key, block, sub-block) of a pool's reservation value.

    It may be a name, a path, a block's or sub-block's path, or a full link.
    """
    path = value.split("/compute/v1/", 1)[-1]
    parts = path.split("/")
    if parts[0] != "projects":
        parts = ["projects", project, "reservations", *parts]
    if "zones" in parts:
        at = parts.index("zones")
        zone = parts[at + 1]
        parts = parts[:at] + parts[at + 2 :]
    named = dict(zip(parts[::2], parts[1::2], strict=False))
    key = f"projects/{named['projects']}/zones/{zone}/reservations/{named.get('reservations', '')}"
    return key, named.get("reservationBlocks", ""), named.get("reservationSubBlocks", "")


def reservation_of(pool: JSON) -> str | None:
    """Return the value of the specific reservation that a pool must use; None if it uses none."""
    affinity = pool.get("config", {}).get("reservationAffinity", {})
    if affinity.get("consumeReservationType") != "SPECIFIC_RESERVATION":
        return None
    values = affinity.get("values", [])
    if len(values) != 1 or affinity.get("key") != "compute.googleapis.com/reservation-name":
        raise ApiError(
            400,
            "Invalid reservationAffinity value: a specific reservation needs key "
            "compute.googleapis.com/reservation-name and one value.",
            "INVALID_ARGUMENT",
            "badRequest",
        )
    return str(values[0])


def machines_in_use(store: ResourceStore, key: str) -> int:
    """Return the number of a reservation's machines that node pools use."""
    return sum(
        count
        for pool in store.all(CONTAINER, "node_pool")
        for zone, count in pool.extra.get("sizes", {}).items()
        if pool.extra.get("reservations", {}).get(zone) == key
    )


def user_of(store: ResourceStore, key: str) -> str | None:
    """Return the key of a node pool that uses a reservation."""
    for pool in store.all(CONTAINER, "node_pool"):
        if any(
            pool.extra.get("reservations", {}).get(zone) == key
            for zone, n in pool.extra.get("sizes", {}).items()
            if n
        ):
            return pool.key
    return None


def free_machines(store: ResourceStore, record: Record) -> int:
    """Return a reservation's unused machines; 0 if it is not ready."""
    if record.body.get("status") != "READY":
        return 0
    specific = record.body["specificReservation"]
    return int(specific.get("assuredCount") or specific["count"]) - machines_in_use(store, record.key)


def available_for(
    store: ResourceStore, consumer: str, zone: str, value: str, machine: str
) -> tuple[Record | None, int]:
    """Return (reservation, machines still available to a project) for a pool's reservation value.

    0 if it does not exist, is not shared with that project, has another machine type, or lacks the named
    block.
    """
    key, block, sub_block = parse_reservation(consumer, zone, value)
    record = None if is_active(_RESERVATION_GONE_DRILL) else store.get(COMPUTE, key)
    if record is None or not is_shared_with(record, consumer):
        return record, 0
    if record.body["specificReservation"]["instanceProperties"]["machineType"] != machine:
        return record, 0
    blocks = {_block(store, record)["name"], ""}
    sub_blocks = {_sub_block(store, record)["name"], ""}
    return record, free_machines(store, record) if block in blocks and sub_block in sub_blocks else 0


def is_shared_with(record: Record, consumer: str) -> bool:
    """Return whether a project may use a reservation: its own, or one of its shareSettings."""
    settings = record.body.get("shareSettings", {})
    return record.project == consumer or (
        settings.get("shareType") == "SPECIFIC_PROJECTS" and consumer in settings.get("projectMap", {})
    )


def _view(store: ResourceStore, record: Record) -> JSON:
    body = copy.deepcopy(record.body)
    if "specificReservation" in body:
        body["specificReservation"]["inUseCount"] = str(machines_in_use(store, record.key))
    return body


def reservation_key(call: ApiCall, name: str) -> str:
    """Return the key of a reservation in the call's zone."""
    return f"projects/{project_of(call)}/zones/{check_zone(call)}/reservations/{name}"


def found_reservation(call: ApiCall) -> Record:
    """Return the reservation that a call names. Raises 404."""
    key = reservation_key(call, str(call.params["reservation"]))
    if is_active(_RESERVATION_GONE_DRILL):
        raise not_found_error(key)
    return get_resource(call.store, key)


@handles("compute.reservations.get")
def get(call: ApiCall) -> JSON:
    """Return one reservation."""
    return with_request_host(call, _view(call.store, found_reservation(call)))


@handles("compute.reservations.list")
def list_(call: ApiCall) -> JSON:
    """List a zone's reservations."""
    records = _list_reservations(call, check_zone(call))
    return compute_list(call, "reservationList", [_view(call.store, record) for record in records])


@handles("compute.reservations.aggregatedList")
def aggregated_list(call: ApiCall) -> JSON:
    """List every zone's reservations."""
    records = _list_reservations(call)
    items = [(f"zones/{record.location}", _view(call.store, record)) for record in records]
    return aggregated_response(
        call, "reservationAggregatedList", "reservations", items, [f"zones/{zone}" for zone in zones()]
    )


def _list_reservations(call: ApiCall, zone: str | None = None) -> list[Record]:
    return [] if is_active(_RESERVATION_GONE_DRILL) else list_in_project(call, "reservation", zone)


def _block(store: ResourceStore, record: Record) -> JSON:
    """Return the block of a dense reservation of a few machines: one block with one sub-block."""
    total = int(record.body["specificReservation"]["count"])
    name = f"{record.name}-block-0001"
    return {
        "kind": "compute#reservationBlock",
        "id": record.body["id"],
        "creationTimestamp": record.body["creationTimestamp"],
        "name": name,
        "zone": record.body["zone"],
        "status": "READY",
        "count": total,
        "inUseCount": machines_in_use(store, record.key),
        "selfLink": self_link(f"{record.key}/reservationBlocks/{name}"),
        "reservationSubBlockCount": -(-total // _PER_SUB_BLOCK),
        "physicalTopology": {"cluster": f"{record.location}-cluster", "block": "c0ffee0000000001"},
    }


def _sub_block(store: ResourceStore, record: Record) -> JSON:
    block = _block(store, record)
    name = f"{block['name']}-subblock-0001"
    return {
        "kind": "compute#reservationSubBlock",
        "id": block["id"],
        "creationTimestamp": block["creationTimestamp"],
        "name": name,
        "zone": block["zone"],
        "status": "READY",
        "count": block["count"],
        "inUseCount": block["inUseCount"],
        "selfLink": f"{block['selfLink']}/reservationSubBlocks/{name}",
        "physicalTopology": {**block["physicalTopology"], "subBlock": "c0ffee0000000002"},
    }


@handles("compute.reservationBlocks.list")
def blocks(call: ApiCall) -> JSON:
    """List a reservation's blocks."""
    return compute_list(call, "reservationBlocksListResponse", [_block(call.store, found_reservation(call))])


@handles("compute.reservationBlocks.get")
def block(call: ApiCall) -> JSON:
    """Return one block."""
    body = _block(call.store, found_reservation(call))
    if body["name"] != call.params["reservationBlock"]:
        raise not_found_error(
            f"{found_reservation(call).key}/reservationBlocks/{call.params['reservationBlock']}"
        )
    return with_request_host(call, {"resource": body})


def _parent_reservation(call: ApiCall) -> Record:
    """Return the reservation of a sub-block call's `parentName` (reservations/R/reservationBlocks/B)."""
    named = dict(zip(*[iter(str(call.params["parentName"]).split("/"))] * 2, strict=False))
    call.params["reservation"] = named.get("reservations", "")
    record = found_reservation(call)
    if named.get("reservationBlocks") != _block(call.store, record)["name"]:
        raise not_found_error(f"{record.key}/reservationBlocks/{named.get('reservationBlocks')}")
    return record


@handles("compute.reservationSubBlocks.list")
def sub_blocks(call: ApiCall) -> JSON:
    """List a block's sub-blocks."""
    return compute_list(
        call, "reservationSubBlocksListResponse", [_sub_block(call.store, _parent_reservation(call))]
    )


@handles("compute.reservationSubBlocks.get")
def sub_block(call: ApiCall) -> JSON:
    """Return one sub-block."""
    record = _parent_reservation(call)
    body = _sub_block(call.store, record)
    block_key = f"{record.key}/reservationBlocks/{basename(str(call.params['parentName']))}"
    if body["name"] != call.params["reservationSubBlock"]:
        raise not_found_error(f"{block_key}/reservationSubBlocks/{call.params['reservationSubBlock']}")
    return with_request_host(call, {"resource": body})


def reservation_not_found(value: str, pool: str, zone: str) -> str:
    """Return GKE's text for a missing reservation: GoogleCloudPlatform/cluster-toolkit pull 5043."""
    return f'Google Compute Engine: reservation "{value}" not found for node pool "{pool}" at zone "{zone}".'


def insufficient_capacity_error(
    record: Record | None, value: str, pool: str, zone: str, machine: str, needed: int, have: int
) -> ApiError:
    """Return GKE's 429 for a reservation without enough machines for a pool; 404 for a missing one.

    The 429 text is quoted in public reports.
    """
    if record is None:
        return ApiError(404, reservation_not_found(value, pool, zone), "NOT_FOUND", "notFound")
    name = record.name
    return ApiError(
        429,
        f'Reservation does not have enough resources for the request: specific reservation "{name}" is '
        "insufficient for node "
        f'pool "{pool}" at zone "{zone}": required {needed} and short of {needed - max(have, 0)} VM count '
        f"of machine type {machine}.",
        "RESOURCE_EXHAUSTED",
    )
