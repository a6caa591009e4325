"""Lustre's operations (AIP-151): typed metadata and response without a percentage, as in the real service."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)
from grpo_wizard.steps.emulator.google.shared.durations import sample_seconds
from grpo_wizard.steps.emulator.google.shared.ids import operation_name, utc_timestamp
from grpo_wizard.steps.emulator.google.shared.operation_records import record_operation
from grpo_wizard.steps.emulator.google.shared.self_links import LUSTRE, parse_parent

_TYPE = "type.googleapis.com/google.cloud.lustre.v1."
LustreEffect = Callable[..., JSON]
_EFFECTS: dict[str, LustreEffect] = {}
_CODES = {
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
}


def on_complete(name: str) -> Callable[[LustreEffect], LustreEffect]:
    """Register what an operation does when it is due: called as (store, target=, **args).

    The function returns the operation's response with its @type.
    """

    def register(function: LustreEffect) -> LustreEffect:
        _EFFECTS[name] = function
        return function

    return register


def to_any(name: str, body: JSON) -> JSON:
    """Return a message of Lustre's package as an Any."""
    return {"@type": _TYPE + name, **body}


def start_operation(
    call: ApiCall,
    verb: str,
    span: str,
    target: Record,
    does: str,
    metadata: str = "OperationMetadata",
    **args: Any,
) -> JSON:
    """Start an operation on an instance; `does` is its effect."""
    store, name = call.store, operation_name(call.store)
    key = f"projects/{target.project}/locations/{target.location}/operations/{name}"
    about: JSON = {"createTime": utc_timestamp(store), "target": target.key, "requestedCancellation": False}
    if metadata == "OperationMetadata":
        about["apiVersion"] = "v1"
    if metadata != "ImportDataMetadata":
        about["verb"] = verb
    body: JSON = {"name": key, "metadata": to_any(metadata, about), "done": False}
    record_operation(call, LUSTRE, key, target, body, "creating")
    store.schedule(
        sample_seconds(span, target.name),
        "lustre.due",
        operation=key,
        target=target.key,
        does=does,
        args=args,
    )
    return copy.deepcopy(body)


@on_event("lustre.due")
def _complete(store: ResourceStore, operation: str, target: str, does: str, args: JSON) -> None:
    record, instance = store.get(LUSTRE, operation), store.get(LUSTRE, target)
    if record is None or instance is None:
        return
    failure, response = record.extra.get("fail"), None
    if failure is None:
        try:
            response = _EFFECTS[does](store, target=instance, **args)
        except ApiError as refusal:
            failure = {"code": _CODES.get(refusal.status, 13), "message": refusal.message}
    record.body["done"], record.state = True, "ready"
    record.body["metadata"]["endTime"] = utc_timestamp(store)
    if failure is not None:
        record.body["error"] = {
            "code": int(failure.get("code", 13)),
            "message": str(failure.get("message", "")),
        }
        _roll_back(store, instance)
    else:
        record.body["response"] = response
    store.put(record)


def _roll_back(store: ResourceStore, instance: Record) -> None:
    """A failed create leaves nothing behind; other failures leave the instance unchanged."""
    if instance.state == "creating":
        store.remove(instance)
    else:
        instance.state, instance.body["state"] = "ready", "ACTIVE"
        store.put(instance)


def get_named(call: ApiCall, kind: str) -> Record:
    """Return the resource of this kind with the call's `name`. Raises Lustre's 404."""
    name = str(call.params["name"])
    record = call.store.get(LUSTRE, name)
    if record is None or record.kind != kind:
        raise ApiError(404, f"Resource '{name}' was not found", "NOT_FOUND", "notFound")
    return record


def list_in_location(store: ResourceStore, kind: str, parent: str) -> list[Record]:
    """List the resources of a kind in `projects/P/locations/L`; location `-` means all."""
    project, location = parse_parent(parent)
    return store.all(LUSTRE, kind, project=project, location=location)


@handles("lustre.projects.locations.operations.get")
def get(call: ApiCall) -> JSON:
    """Return one operation."""
    return copy.deepcopy(get_named(call, "operation").body)


@handles("lustre.projects.locations.operations.list")
def list_(call: ApiCall) -> JSON:
    """List a location's operations."""
    records = list_in_location(call.store, "operation", str(call.params["name"]))
    return {"operations": [copy.deepcopy(record.body) for record in records]}


@handles("lustre.projects.locations.operations.cancel")
def cancel(call: ApiCall) -> JSON:
    """Record that cancellation was requested; instance operations continue, as the service may do."""
    record = get_named(call, "operation")
    record.body["metadata"]["requestedCancellation"] = True
    call.store.put(record)
    return {}


@handles("lustre.projects.locations.operations.delete")
def delete(call: ApiCall) -> JSON:
    """Delete an operation."""
    call.store.remove(get_named(call, "operation"))
    return {}
