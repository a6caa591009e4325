"""Making and changing reservations, and future ones: what an administrator does before a deployment."""

from __future__ import annotations

from ..contract import JSON, ApiError, Call, Record, World, happens, serves
from .catalogue import machine_types
from .compute_catalogue import check_zone
from .compute_operations import same_request, start
from .compute_reservations import in_use, made_body
from .links import COMPUTE, check_name, exists, invalid, last, missing, stored
from .stamps import number, pacific


def _key(call: Call, name: str, collection: str = "reservations") -> str:
    return f"projects/{call.params['project']}/zones/{check_zone(call)}/{collection}/{name}"


def _found(call: Call) -> Record:
    key = _key(call, str(call.params["reservation"]))
    record = call.world.get(COMPUTE, key)
    if record is None:
        raise missing(key)
    return record


@serves("compute.reservations.insert")
def insert(call: Call) -> JSON:
    """Makes a specific reservation of any machine type of the zone, shared or not."""
    if again := same_request(call):
        return again
    zone, name = check_zone(call), check_name(call.body.get("name"))
    key = _key(call, name)
    if call.world.get(COMPUTE, key):
        raise exists(key)
    machine = call.body.get("specificReservation", {}).get("instanceProperties", {}).get("machineType", "")
    if last(machine) not in machine_types(zone):
        raise invalid(
            "resource.specificReservation.instanceProperties.machineType",
            machine,
            f"Machine type does not exist in zone {zone}.",
        )
    if int(call.body["specificReservation"].get("count") or 0) < 1:
        raise invalid("resource.specificReservation.count", "0", "Must be at least 1.")
    body = made_body(call.world, key, call.body)
    record = Record(COMPUTE, "reservation", name, str(call.params["project"]), zone, key, body, "creating")
    call.world.put(record)
    return start(call, "reservation.insert", record, "compute.made")


@serves("compute.reservations.delete")
def delete(call: Call) -> JSON:
    """Deletes a reservation, also one whose machines are in use (they then run on demand)."""
    if again := same_request(call):
        return again
    record = _found(call)
    return start(call, "reservation.delete", record, "compute.gone")


@serves("compute.reservations.resize")
def resize(call: Call) -> JSON:
    """Changes how many machines are reserved; never below those in use."""
    if again := same_request(call):
        return again
    record, count = _found(call), int(call.body.get("specificSkuCount") or 0)
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


@serves("compute.reservations.update")
def update(call: Call) -> JSON:
    """Changes with whom a reservation is shared."""
    if again := same_request(call):
        return again
    change = {
        name: call.body[name] for name in ("shareSettings", "reservationSharingPolicy") if name in call.body
    }
    return start(call, "reservation.insert", _found(call), "network.patched", change=change)


@serves("compute.futureReservations.insert")
def future_insert(call: Call) -> JSON:
    """Asks for capacity in the future; it stays PENDING_APPROVAL, as nobody approves here."""
    if again := same_request(call):
        return again
    zone, name = check_zone(call), check_name(call.body.get("name"))
    key = _key(call, name, "futureReservations")
    if call.world.get(COMPUTE, key):
        raise exists(key)
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
    project = str(call.params["project"])
    record = Record(COMPUTE, "future_reservation", name, project, zone, key, body, "creating")
    call.world.put(record)
    return start(call, "reservation.insert", record, "compute.made")
