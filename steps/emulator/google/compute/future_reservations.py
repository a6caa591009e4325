"""Future reservations: create, read, cancel, delete. Nothing approves them here: they stay PENDING_APPROVAL.

A pending request must be canceled before it can be deleted
(https://docs.cloud.google.com/compute/docs/instances/future-reservations-overview, 2026-11). The error texts
are inferred.
"""

from __future__ import annotations

from datetime import datetime

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)
from grpo_wizard.steps.emulator.google.compute.catalog import check_zone
from grpo_wizard.steps.emulator.google.compute.collections import (
    create_record,
    get_resource,
    list_in_project,
    new_key,
    project_of,
)
from grpo_wizard.steps.emulator.google.compute.operations import start_operation
from grpo_wizard.steps.emulator.google.shared.fixtures import machine_types, zones
from grpo_wizard.steps.emulator.google.shared.ids import generate_resource_id, pacific_timestamp
from grpo_wizard.steps.emulator.google.shared.lists import aggregated_response, compute_list
from grpo_wizard.steps.emulator.google.shared.operation_records import handles_idempotent
from grpo_wizard.steps.emulator.google.shared.self_links import (
    basename,
    invalid_field,
    self_link,
    with_request_host,
)

_DELETABLE_STATES = ("CANCELLED", "DECLINED", "DRAFTING", "EXPIRED", "FAILED", "FULFILLED")


def _key(call: ApiCall, name: str) -> str:
    return f"projects/{project_of(call)}/zones/{check_zone(call)}/futureReservations/{name}"


def _found(call: ApiCall) -> Record:
    return get_resource(call.store, _key(call, str(call.params["futureReservation"])))


@handles("compute.futureReservations.list")
def future_list(call: ApiCall) -> JSON:
    """List a zone's future reservations."""
    records = list_in_project(call, "future_reservation", check_zone(call))
    return compute_list(call, "futureReservationsListResponse", [record.body for record in records])


@handles("compute.futureReservations.aggregatedList")
def future_aggregated(call: ApiCall) -> JSON:
    """List every zone's future reservations."""
    items = [
        (f"zones/{record.location}", record.body) for record in list_in_project(call, "future_reservation")
    ]
    return aggregated_response(
        call,
        "futureReservationsAggregatedListResponse",
        "futureReservations",
        items,
        [f"zones/{zone}" for zone in zones()],
    )


@handles("compute.futureReservations.get")
def future_get(call: ApiCall) -> JSON:
    """Return one future reservation."""
    return with_request_host(call, _found(call).body)


@handles_idempotent("compute.futureReservations.insert")
def insert(call: ApiCall) -> JSON:
    """Request future capacity."""
    zone = check_zone(call)
    key = new_key(call, _key)
    _check(call, zone)
    drafted = call.body.get("planningStatus") == "DRAFT"
    body = {
        "kind": "compute#futureReservation",
        "id": generate_resource_id(),
        "creationTimestamp": pacific_timestamp(call.store),
        "planningStatus": "SUBMITTED",
        **call.body,
        "selfLink": self_link(key),
        "zone": self_link(key.split("/futureReservations/")[0]),
        "status": {"procurementStatus": "DRAFTING" if drafted else "PENDING_APPROVAL"},
    }
    record = create_record(call, "future_reservation", zone, key, body)
    return start_operation(call, "reservation.insert", record, "compute.made")


def _check(call: ApiCall, zone: str) -> None:
    asked = call.body.get("specificSkuProperties", {})
    machine = str(asked.get("instanceProperties", {}).get("machineType", ""))
    if basename(machine) not in machine_types(zone):
        field = "resource.specificSkuProperties.instanceProperties.machineType"
        raise invalid_field(field, machine, f"Machine type does not exist in zone {zone}.")
    if int(asked.get("totalCount") or 0) < 1:
        raise invalid_field(
            "resource.specificSkuProperties.totalCount", asked.get("totalCount", ""), "Must be at least 1."
        )
    begins = str(call.body.get("timeWindow", {}).get("startTime", ""))
    try:
        future = datetime.fromisoformat(begins).timestamp() > call.store.clock.now()
    except ValueError:
        future = False
    if not future:
        raise invalid_field(
            "resource.timeWindow.startTime", begins, "Must be a time in the future (RFC 3339)."
        )


@handles_idempotent("compute.futureReservations.cancel")
def cancel(call: ApiCall) -> JSON:
    """Cancel a request."""
    record = _found(call)
    if record.body["status"]["procurementStatus"] in _DELETABLE_STATES[:1] + _DELETABLE_STATES[-1:]:
        raise _wrong_state(record, "cancelled")
    return start_operation(call, "reservation.insert", record, "future.cancelled")


@on_event("future.cancelled")
def _on_cancelled(store: ResourceStore, target: Record) -> None:
    target.body["status"] = {**target.body["status"], "procurementStatus": "CANCELLED"}
    store.put(target)


@handles_idempotent("compute.futureReservations.delete")
def delete(call: ApiCall) -> JSON:
    """Delete a request that has ended."""
    record = _found(call)
    if record.body["status"]["procurementStatus"] not in _DELETABLE_STATES:
        raise _wrong_state(record, "deleted")
    return start_operation(call, "reservation.delete", record, "compute.gone")


def _wrong_state(record: Record, what: str) -> ApiError:
    status = record.body["status"]["procurementStatus"]
    text = f"The resource '{record.key}' cannot be {what} while its procurement status is {status}."
    return ApiError(400, text, "FAILED_PRECONDITION", "conditionNotMet")
