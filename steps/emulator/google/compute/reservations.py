"""Reservations with their blocks and sub-blocks; `inUseCount` follows the node pools' nodes."""

from __future__ import annotations

import copy

from grpo_wizard.steps.emulator.drills.active import runs
from grpo_wizard.steps.emulator.google.compute.catalog import check_zone
from grpo_wizard.steps.emulator.google.compute.collections import found, of_project, project_of
from grpo_wizard.steps.emulator.google.shared.fixtures import ground, zones
from grpo_wizard.steps.emulator.google.shared.ids import number, pacific
from grpo_wizard.steps.emulator.google.shared.lists import aggregated, listed
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    CONTAINER,
    last,
    missing,
    sent,
    stored,
)
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Record, World, serves

# A4 and A3 Ultra: a sub-block is at most 18 machines (Google's page on capacity blocks; not compared).
_PER_SUB_BLOCK = 18
_GONE = "reservation-gone"  # the drill in which somebody deleted them all


def seed(world: World, project: str, name: str, zone: str, machine: str, count: int) -> Record:
    """Puts one specific, ready reservation into the world as the ground a caller finds."""
    key = f"projects/{project}/zones/{zone}/reservations/{name}"
    data = ground()["machines"][machine]
    accelerator, cards = data["gpu"]
    properties = {
        "machineType": machine,
        "locationHint": "",
        "guestAccelerators": [{"acceleratorType": accelerator, "acceleratorCount": cards}],
        "localSsds": [{"diskSizeGb": "375", "interface": "NVME"} for _ in range(data["local_ssds"])],
    }
    asked = {"name": name, "specificReservationRequired": True, "deploymentType": "DENSE"}
    asked["specificReservation"] = {"count": str(count), "instanceProperties": properties}
    body = made_body(world, key, asked)
    return world.put(Record(COMPUTE, "reservation", name, project, zone, key, body, hidden=True))


def made_body(world: World, key: str, asked: JSON) -> JSON:
    """A ready reservation as it is read back."""
    specific = asked["specificReservation"]
    return {
        "kind": "compute#reservation",
        "id": number(),
        "creationTimestamp": pacific(world),
        "selfLink": stored(key),
        "zone": stored(key.split("/reservations/")[0]),
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


def parse(project: str, zone: str, value: str) -> tuple[str, str, str]:
    """(key, block, sub-block) of a pool's reservation value.

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
    """The value of the specific reservation that a pool must take; None where it takes none."""
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


def in_use(world: World, key: str) -> int:
    """Machines of a reservation that node pools hold now."""
    return sum(
        count
        for pool in world.all(CONTAINER, "node_pool")
        for zone, count in pool.extra.get("sizes", {}).items()
        if pool.extra.get("reservations", {}).get(zone) == key
    )


def user_of(world: World, key: str) -> str | None:
    """Key of a node pool whose machines come from a reservation."""
    for pool in world.all(CONTAINER, "node_pool"):
        if any(
            pool.extra.get("reservations", {}).get(zone) == key
            for zone, n in pool.extra.get("sizes", {}).items()
            if n
        ):
            return pool.key
    return None


def free(world: World, record: Record) -> int:
    """Machines of a reservation that are still free; none where it is not ready."""
    if record.body.get("status") != "READY":
        return 0
    specific = record.body["specificReservation"]
    return int(specific.get("assuredCount") or specific["count"]) - in_use(world, record.key)


def have(world: World, consumer: str, zone: str, value: str, machine: str) -> tuple[Record | None, int]:
    """(reservation, machines that a project may still take from it) for a pool's reservation value.

    None of it where it is not there, not shared with that project, of another machine type, or where the
    block that the value names is not one of its.
    """
    key, block, sub_block = parse(consumer, zone, value)
    record = None if runs(_GONE) else world.get(COMPUTE, key)
    if record is None or not shared(record, consumer):
        return record, 0
    if record.body["specificReservation"]["instanceProperties"]["machineType"] != machine:
        return record, 0
    blocks = {_block(world, record)["name"], ""}
    sub_blocks = {_sub_block(world, record)["name"], ""}
    return record, free(world, record) if block in blocks and sub_block in sub_blocks else 0


def shared(record: Record, consumer: str) -> bool:
    """Whether a project may use a reservation: its own, or one whose shareSettings name it."""
    settings = record.body.get("shareSettings", {})
    return record.project == consumer or (
        settings.get("shareType") == "SPECIFIC_PROJECTS" and consumer in settings.get("projectMap", {})
    )


def _view(world: World, record: Record) -> JSON:
    body = copy.deepcopy(record.body)
    if "specificReservation" in body:
        body["specificReservation"]["inUseCount"] = str(in_use(world, record.key))
    return body


def reservation_key(call: Call, name: str) -> str:
    """Key of a reservation in the call's zone."""
    return f"projects/{project_of(call)}/zones/{check_zone(call)}/reservations/{name}"


def found_reservation(call: Call) -> Record:
    """The reservation that a call names, or 404."""
    key = reservation_key(call, str(call.params["reservation"]))
    if runs(_GONE):
        raise missing(key)
    return found(call.world, key)


@serves("compute.reservations.get")
def get(call: Call) -> JSON:
    """One reservation."""
    return sent(call, _view(call.world, found_reservation(call)))


@serves("compute.reservations.list")
def list_(call: Call) -> JSON:
    """A zone's reservations."""
    records = _standing(call, check_zone(call))
    return listed(call, "reservationList", [_view(call.world, record) for record in records])


@serves("compute.reservations.aggregatedList")
def aggregated_list(call: Call) -> JSON:
    """Every zone's reservations."""
    records = _standing(call)
    items = [(f"zones/{record.location}", _view(call.world, record)) for record in records]
    return aggregated(
        call, "reservationAggregatedList", "reservations", items, [f"zones/{zone}" for zone in zones()]
    )


def _standing(call: Call, zone: str | None = None) -> list[Record]:
    return [] if runs(_GONE) else of_project(call, "reservation", zone)


def _block(world: World, record: Record) -> JSON:
    """A dense reservation of a few machines is one block with one sub-block."""
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
        "inUseCount": in_use(world, record.key),
        "selfLink": stored(f"{record.key}/reservationBlocks/{name}"),
        "reservationSubBlockCount": -(-total // _PER_SUB_BLOCK),
        "physicalTopology": {"cluster": f"{record.location}-cluster", "block": "c0ffee0000000001"},
    }


def _sub_block(world: World, record: Record) -> JSON:
    block = _block(world, record)
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


@serves("compute.reservationBlocks.list")
def blocks(call: Call) -> JSON:
    """A reservation's blocks."""
    return listed(call, "reservationBlocksListResponse", [_block(call.world, found_reservation(call))])


@serves("compute.reservationBlocks.get")
def block(call: Call) -> JSON:
    """One block."""
    body = _block(call.world, found_reservation(call))
    if body["name"] != call.params["reservationBlock"]:
        raise missing(f"{found_reservation(call).key}/reservationBlocks/{call.params['reservationBlock']}")
    return sent(call, {"resource": body})


def _of_parent(call: Call) -> Record:
    """The reservation behind a sub-block call's `parentName` (reservations/R/reservationBlocks/B)."""
    named = dict(zip(*[iter(str(call.params["parentName"]).split("/"))] * 2, strict=False))
    call.params["reservation"] = named.get("reservations", "")
    record = found_reservation(call)
    if named.get("reservationBlocks") != _block(call.world, record)["name"]:
        raise missing(f"{record.key}/reservationBlocks/{named.get('reservationBlocks')}")
    return record


@serves("compute.reservationSubBlocks.list")
def sub_blocks(call: Call) -> JSON:
    """A block's sub-blocks."""
    return listed(call, "reservationSubBlocksListResponse", [_sub_block(call.world, _of_parent(call))])


@serves("compute.reservationSubBlocks.get")
def sub_block(call: Call) -> JSON:
    """One sub-block."""
    record = _of_parent(call)
    body = _sub_block(call.world, record)
    block_key = f"{record.key}/reservationBlocks/{last(str(call.params['parentName']))}"
    if body["name"] != call.params["reservationSubBlock"]:
        raise missing(f"{block_key}/reservationSubBlocks/{call.params['reservationSubBlock']}")
    return sent(call, {"resource": body})


def not_found(value: str, pool: str, zone: str) -> str:
    """GKE's words for a reservation that is not there: GoogleCloudPlatform/cluster-toolkit pull 5043."""
    return f'Google Compute Engine: reservation "{value}" not found for node pool "{pool}" at zone "{zone}".'


def refuse_short(
    record: Record | None, value: str, pool: str, zone: str, machine: str, needed: int, have: int
) -> ApiError:
    """GKE's 429 for a reservation that cannot serve a pool (case a05); 404 for one that is not there."""
    if record is None:
        return ApiError(404, not_found(value, pool, zone), "NOT_FOUND", "notFound")
    name = record.name
    return ApiError(
        429,
        f'Reservation does not have enough resources for the request: specific reservation "{name}" is '
        "insufficient for node "
        f'pool "{pool}" at zone "{zone}": required {needed} and short of {needed - max(have, 0)} VM count '
        f"of machine type {machine}.",
        "RESOURCE_EXHAUSTED",
    )
