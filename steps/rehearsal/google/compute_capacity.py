"""Making and changing reservations, and future ones: what an administrator does before a deployment."""

from __future__ import annotations

from ..contract import JSON, ApiError, Call, Record, World, happens
from .catalogue import machine_types
from .compute_catalogue import check_zone
from .compute_collections import begin, new_key
from .compute_operations import start
from .compute_reservations import found_reservation, future_key, in_use, made_body, reservation_key
from .links import invalid, last, stored
from .operation_records import writes
from .stamps import number, pacific


@writes("compute.reservations.insert")
def insert(call: Call) -> JSON:
    """Makes a specific reservation of any machine type of the zone, shared or not."""
    zone = check_zone(call)
    key = new_key(call, reservation_key)
    machine = call.body.get("specificReservation", {}).get("instanceProperties", {}).get("machineType", "")
    if last(machine) not in machine_types(zone):
        raise invalid(
            "resource.specificReservation.instanceProperties.machineType",
            machine,
            f"Machine type does not exist in zone {zone}.",
        )
    if int(call.body["specificReservation"].get("count") or 0) < 1:
        raise invalid("resource.specificReservation.count", "0", "Must be at least 1.")
    record = begin(call, "reservation", zone, key, made_body(call.world, key, call.body))
    return start(call, "reservation.insert", record, "compute.made")


@writes("compute.reservations.delete")
def delete(call: Call) -> JSON:
    """Deletes a reservation, also one whose machines are in use (they then run on demand)."""
    return start(call, "reservation.delete", found_reservation(call), "compute.gone")


@writes("compute.reservations.resize")
def resize(call: Call) -> JSON:
    """Changes how many machines are reserved; never below those in use."""
    record, count = found_reservation(call), int(call.body.get("specificSkuCount") or 0)
    used = in_use(call.world, record.key)
    if count < max(1, used):
        raise ApiError(
            400, f"The count ({count}) must be at least {max(1, used)}.", "INVALID_ARGUMENT", "invalid"
        )
    return start(call, "reservation.insert", record, "reservation.resized", count=count)


@happens("reservation.resized")
def _resized(world: World, target: Record, count: int) -> None:
    target.body["specificReservation"].update(count=str(count), assuredCount=str(count))
    world.put(target)


@writes("compute.reservations.update")
def update(call: Call) -> JSON:
    """Changes with whom a reservation is shared."""
    change = {
        name: call.body[name] for name in ("shareSettings", "reservationSharingPolicy") if name in call.body
    }
    return start(call, "reservation.insert", found_reservation(call), "network.patched", change=change)


@writes("compute.futureReservations.insert")
def future_insert(call: Call) -> JSON:
    """Asks for capacity in the future; it stays PENDING_APPROVAL, as nobody approves here."""
    zone = check_zone(call)
    key = new_key(call, future_key)
    body = {
        "kind": "compute#futureReservation",
        "id": number(),
        "creationTimestamp": pacific(call.world),
        **call.body,
        "selfLink": stored(key),
        "zone": stored(key.split("/futureReservations/")[0]),
        "planningStatus": "SUBMITTED",
        "status": {"procurementStatus": "PENDING_APPROVAL"},
    }
    record = begin(call, "future_reservation", zone, key, body)
    return start(call, "reservation.insert", record, "compute.made")
