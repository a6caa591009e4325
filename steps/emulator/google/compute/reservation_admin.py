"""Create, change and delete reservations, as an administrator does before and after a deployment.

A specifically targeted reservation can be deleted only when no machine consumes it; others leave their
machines running (https://docs.cloud.google.com/compute/docs/instances/reservations-delete, 2026-11). The
error text, that of other resources in use, is inferred.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, Record, ResourceStore, on_event
from grpo_wizard.steps.emulator.google.compute.catalog import check_zone
from grpo_wizard.steps.emulator.google.compute.collections import create_record, new_key, require_unused
from grpo_wizard.steps.emulator.google.compute.operations import start_operation
from grpo_wizard.steps.emulator.google.compute.reservations import (
    found_reservation,
    machines_in_use,
    ready_body,
    reservation_key,
    user_of,
)
from grpo_wizard.steps.emulator.google.shared.fixtures import machine_types
from grpo_wizard.steps.emulator.google.shared.operation_records import handles_idempotent
from grpo_wizard.steps.emulator.google.shared.self_links import basename, invalid_field


@handles_idempotent("compute.reservations.insert")
def insert(call: ApiCall) -> JSON:
    """Create a specific reservation of a machine type of the zone, optionally shared."""
    zone = check_zone(call)
    key = new_key(call, reservation_key)
    asked = copy.deepcopy(call.body)
    specific = asked.get("specificReservation", {})
    machine = str(specific.get("instanceProperties", {}).get("machineType", ""))
    if basename(machine) not in machine_types(zone):
        raise invalid_field(
            "resource.specificReservation.instanceProperties.machineType",
            machine,
            f"Machine type does not exist in zone {zone}.",
        )
    specific["instanceProperties"]["machineType"] = basename(machine)
    if int(specific.get("count") or 0) < 1:
        raise invalid_field("resource.specificReservation.count", "0", "Must be at least 1.")
    ends = _deletion_time(call.store, asked)
    if ends is not None:
        asked["deleteAtTime"] = (
            datetime.fromtimestamp(ends, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        )
    _normalize_share_settings(call.store, asked)
    record = create_record(call, "reservation", zone, key, ready_body(call.store, key, asked))
    if ends is not None:
        call.store.schedule_at(ends, "reservation.over", key=key, number=record.body["id"])
    return start_operation(call, "reservation.insert", record, "compute.made")


def _deletion_time(store: ResourceStore, asked: JSON) -> float | None:
    """Return when a reservation deletes itself: `deleteAtTime`, or `deleteAfterDuration` divided by the speed.

    At infinite speed the duration is kept, because the reservation would otherwise disappear at once.
    """
    duration = asked.pop("deleteAfterDuration", None)
    if duration is not None:
        length = float(duration.get("seconds") or 0)
        return store.clock.now() + (store.clock.scale(length) or length)
    if not asked.get("deleteAtTime"):
        return None
    try:
        ends = datetime.fromisoformat(asked["deleteAtTime"]).timestamp()
    except ValueError:
        raise invalid_field(
            "resource.deleteAtTime", asked["deleteAtTime"], "Must be a time (RFC 3339)."
        ) from None
    if ends <= store.clock.now():
        raise invalid_field("resource.deleteAtTime", asked["deleteAtTime"], "Must be a time in the future.")
    return ends


@on_event("reservation.over")
def _expire(store: ResourceStore, key: str, number: str) -> None:
    """Delete a reservation at its time, unless it was re-created since. Running machines stay."""
    record = store.get("compute.googleapis.com", key)
    if record is not None and record.body["id"] == number:
        store.remove(record)


@handles_idempotent("compute.reservations.delete")
def delete(call: ApiCall) -> JSON:
    """Delete a reservation. One with a specific affinity must be unused."""
    record = found_reservation(call)
    if record.body.get("specificReservationRequired"):
        require_unused("reservation", record, user_of(call.store, record.key))
    return start_operation(call, "reservation.delete", record, "compute.gone")


@handles_idempotent("compute.reservations.resize")
def resize(call: ApiCall) -> JSON:
    """Change the number of reserved machines, not below those in use.

    https://docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-reservation-updates
    """
    record, count = found_reservation(call), int(call.body.get("specificSkuCount") or 0)
    if count < 1:
        raise invalid_field("specificSkuCount", count, "Must be at least 1.")
    if count < machines_in_use(call.store, record.key):
        text = "The resize instance count cannot be lower than the in use count for a specific reservation."
        raise ApiError(400, text, "INVALID_ARGUMENT", "invalid")
    return start_operation(call, "reservation.insert", record, "reservation.resized", count=count)


@on_event("reservation.resized")
def _on_resized(store: ResourceStore, target: Record, count: int) -> None:
    target.body["specificReservation"].update(count=str(count), assuredCount=str(count))
    store.put(target)


@handles_idempotent("compute.reservations.update")
def update(call: ApiCall) -> JSON:
    """Change the projects that share a reservation: all, or (gcloud) those that `paths` names."""
    record = found_reservation(call)
    change: JSON = {
        name: copy.deepcopy(call.body[name])
        for name in ("shareSettings", "reservationSharingPolicy")
        if name in call.body
    }
    _normalize_share_settings(call.store, change)
    paths = [str(path) for path in call.params.get("paths", [])]
    named = [call.store.project_id(path.removeprefix(_MAP)) for path in paths if path.startswith(_MAP)]
    if named:
        sharing = copy.deepcopy(record.body["shareSettings"])
        given = change.get("shareSettings", {}).get("projectMap", {})
        kept = {id_: one for id_, one in sharing.get("projectMap", {}).items() if id_ not in named}
        kept |= {id_: given[id_] for id_ in named if id_ in given}
        change["shareSettings"] = {**sharing, "shareType": "SPECIFIC_PROJECTS", "projectMap": kept}
    return start_operation(call, "reservation.insert", record, "network.patched", change=change)


_MAP = "shareSettings.projectMap."


def _normalize_share_settings(store: ResourceStore, asked: JSON) -> None:
    """Return `shareSettings` with project ids in place of numbers."""
    sharing = asked.get("shareSettings", {})
    if "projectMap" in sharing:
        ids = {store.project_id(name): one for name, one in sharing["projectMap"].items()}
        sharing["projectMap"] = {id_: {**one, "projectId": id_} for id_, one in ids.items()}
