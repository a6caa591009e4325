"""Future reservations: asked for, read, cancelled, deleted. Nobody approves here, so one stays PENDING_APPROVAL.

https://docs.cloud.google.com/compute/docs/instances/future-reservations-overview, 2026-11: a request that is pending must
be cancelled before it can be deleted. The sentences are inferred.
"""

from __future__ import annotations

from datetime import datetime

from grpo_wizard.steps.emulator.google.compute.catalog import check_zone
from grpo_wizard.steps.emulator.google.compute.collections import (
    begin,
    found,
    new_key,
    of_project,
    project_of,
)
from grpo_wizard.steps.emulator.google.compute.operations import start
from grpo_wizard.steps.emulator.google.shared.fixtures import machine_types, zones
from grpo_wizard.steps.emulator.google.shared.ids import number, pacific
from grpo_wizard.steps.emulator.google.shared.lists import aggregated, listed
from grpo_wizard.steps.emulator.google.shared.operation_records import writes
from grpo_wizard.steps.emulator.google.shared.self_links import invalid, last, sent, stored
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Record, World, happens, serves

_OVER = ("CANCELLED", "DECLINED", "DRAFTING", "EXPIRED", "FAILED", "FULFILLED")


def _key(call: Call, name: str) -> str:
    return f"projects/{project_of(call)}/zones/{check_zone(call)}/futureReservations/{name}"


def _found(call: Call) -> Record:
    return found(call.world, _key(call, str(call.params["futureReservation"])))


@serves("compute.futureReservations.list")
def future_list(call: Call) -> JSON:
    """A zone's future reservations."""
    records = of_project(call, "future_reservation", check_zone(call))
    return listed(call, "futureReservationsListResponse", [record.body for record in records])


@serves("compute.futureReservations.aggregatedList")
def future_aggregated(call: Call) -> JSON:
    """Every zone's future reservations."""
    items = [(f"zones/{record.location}", record.body) for record in of_project(call, "future_reservation")]
    return aggregated(
        call,
        "futureReservationsAggregatedListResponse",
        "futureReservations",
        items,
        [f"zones/{zone}" for zone in zones()],
    )


@serves("compute.futureReservations.get")
def future_get(call: Call) -> JSON:
    """One future reservation."""
    return sent(call, _found(call).body)


@writes("compute.futureReservations.insert")
def insert(call: Call) -> JSON:
    """Asks for capacity in the future."""
    zone = check_zone(call)
    key = new_key(call, _key)
    _check(call, zone)
    drafted = call.body.get("planningStatus") == "DRAFT"
    body = {
        "kind": "compute#futureReservation",
        "id": number(),
        "creationTimestamp": pacific(call.world),
        "planningStatus": "SUBMITTED",
        **call.body,
        "selfLink": stored(key),
        "zone": stored(key.split("/futureReservations/")[0]),
        "status": {"procurementStatus": "DRAFTING" if drafted else "PENDING_APPROVAL"},
    }
    record = begin(call, "future_reservation", zone, key, body)
    return start(call, "reservation.insert", record, "compute.made")


def _check(call: Call, zone: str) -> None:
    asked = call.body.get("specificSkuProperties", {})
    machine = str(asked.get("instanceProperties", {}).get("machineType", ""))
    if last(machine) not in machine_types(zone):
        field = "resource.specificSkuProperties.instanceProperties.machineType"
        raise invalid(field, machine, f"Machine type does not exist in zone {zone}.")
    if int(asked.get("totalCount") or 0) < 1:
        raise invalid(
            "resource.specificSkuProperties.totalCount", asked.get("totalCount", ""), "Must be at least 1."
        )
    begins = str(call.body.get("timeWindow", {}).get("startTime", ""))
    try:
        future = datetime.fromisoformat(begins).timestamp() > call.world.clock.now()
    except ValueError:
        future = False
    if not future:
        raise invalid("resource.timeWindow.startTime", begins, "Must be a time in the future (RFC 3339).")


@writes("compute.futureReservations.cancel")
def cancel(call: Call) -> JSON:
    """Takes a request back."""
    record = _found(call)
    if record.body["status"]["procurementStatus"] in _OVER[:1] + _OVER[-1:]:
        raise _not_now(record, "cancelled")
    return start(call, "reservation.insert", record, "future.cancelled")


@happens("future.cancelled")
def _cancelled(world: World, target: Record) -> None:
    target.body["status"] = {**target.body["status"], "procurementStatus": "CANCELLED"}
    world.put(target)


@writes("compute.futureReservations.delete")
def delete(call: Call) -> JSON:
    """Deletes a request that is over."""
    record = _found(call)
    if record.body["status"]["procurementStatus"] not in _OVER:
        raise _not_now(record, "deleted")
    return start(call, "reservation.delete", record, "compute.gone")


def _not_now(record: Record, what: str) -> ApiError:
    status = record.body["status"]["procurementStatus"]
    text = f"The resource '{record.key}' cannot be {what} while its procurement status is {status}."
    return ApiError(400, text, "FAILED_PRECONDITION", "conditionNotMet")
