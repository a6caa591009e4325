"""Lustre's operations (AIP-151): typed metadata and response, no percentage, as in the real service."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from grpo_wizard.steps.emulator.google.shared.durations import seconds
from grpo_wizard.steps.emulator.google.shared.ids import operation_name, zulu
from grpo_wizard.steps.emulator.google.shared.operation_records import keep
from grpo_wizard.steps.emulator.google.shared.self_links import LUSTRE, place
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Record, World, happens, serves

_TYPE = "type.googleapis.com/google.cloud.lustre.v1."
Effect = Callable[..., JSON]
_EFFECTS: dict[str, Effect] = {}
_CODES = {
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
}


def effect(name: str) -> Callable[[Effect], Effect]:
    """Registers what an operation does when it is due: called as (world, target=, **args).

    It returns the operation's response with its @type.
    """

    def register(function: Effect) -> Effect:
        _EFFECTS[name] = function
        return function

    return register


def typed(name: str, body: JSON) -> JSON:
    """A message of Lustre's package as an Any."""
    return {"@type": _TYPE + name, **body}


def start(
    call: Call,
    verb: str,
    span: str,
    target: Record,
    does: str,
    metadata: str = "OperationMetadata",
    **args: Any,
) -> JSON:
    """Starts an operation on an instance; `does` is its effect."""
    world, name = call.world, operation_name(call.world)
    key = f"projects/{target.project}/locations/{target.location}/operations/{name}"
    about: JSON = {"createTime": zulu(world), "target": target.key, "requestedCancellation": False}
    if metadata == "OperationMetadata":
        about["apiVersion"] = "v1"
    if metadata != "ImportDataMetadata":
        about["verb"] = verb
    body: JSON = {"name": key, "metadata": typed(metadata, about), "done": False}
    keep(call, LUSTRE, key, target, body, "creating")
    world.later(
        seconds(span, target.name), "lustre.due", operation=key, target=target.key, does=does, args=args
    )
    return copy.deepcopy(body)


@happens("lustre.due")
def _due(world: World, operation: str, target: str, does: str, args: JSON) -> None:
    record, thing = world.get(LUSTRE, operation), world.get(LUSTRE, target)
    if record is None or thing is None:
        return
    failure, response = record.extra.get("fail"), None
    if failure is None:
        try:
            response = _EFFECTS[does](world, target=thing, **args)
        except ApiError as refusal:
            failure = {"code": _CODES.get(refusal.status, 13), "message": refusal.message}
    record.body["done"], record.state = True, "ready"
    record.body["metadata"]["endTime"] = zulu(world)
    if failure is not None:
        record.body["error"] = {
            "code": int(failure.get("code", 13)),
            "message": str(failure.get("message", "")),
        }
        _undo(world, thing)
    else:
        record.body["response"] = response
    world.put(record)


def _undo(world: World, thing: Record) -> None:
    """A create that failed leaves nothing behind; anything else leaves the instance as it was."""
    if thing.state == "creating":
        world.remove(thing)
    else:
        thing.state, thing.body["state"] = "ready", "ACTIVE"
        world.put(thing)


def named(call: Call, kind: str) -> Record:
    """The thing of this kind that a call's `name` means, or Lustre's 404."""
    name = str(call.params["name"])
    record = call.world.get(LUSTRE, name)
    if record is None or record.kind != kind:
        raise ApiError(404, f"Resource '{name}' was not found", "NOT_FOUND", "notFound")
    return record


def within(world: World, kind: str, parent: str) -> list[Record]:
    """Things of a kind in `projects/P/locations/L`; a location of `-` means all."""
    project, location = place(parent)
    return world.all(LUSTRE, kind, project=project, location=location)


@serves("lustre.projects.locations.operations.get")
def get(call: Call) -> JSON:
    """One operation."""
    return copy.deepcopy(named(call, "operation").body)


@serves("lustre.projects.locations.operations.list")
def list_(call: Call) -> JSON:
    """A location's operations."""
    records = within(call.world, "operation", str(call.params["name"]))
    return {"operations": [copy.deepcopy(record.body) for record in records]}


@serves("lustre.projects.locations.operations.cancel")
def cancel(call: Call) -> JSON:
    """Notes that cancelling was asked for; an instance's operations run on, as the service may do."""
    record = named(call, "operation")
    record.body["metadata"]["requestedCancellation"] = True
    call.world.put(record)
    return {}


@serves("lustre.projects.locations.operations.delete")
def delete(call: Call) -> JSON:
    """Forgets an operation."""
    call.world.remove(named(call, "operation"))
    return {}
