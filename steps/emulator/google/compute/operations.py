"""Compute's operations: started by every write, read by get, list and wait, ended by the clock.

A finished operation that failed is DONE with `error` and `httpErrorStatusCode`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from grpo_wizard.steps.emulator.google.shared.durations import seconds
from grpo_wizard.steps.emulator.google.shared.ids import number, operation_name, pacific
from grpo_wizard.steps.emulator.google.shared.lists import aggregated, listed
from grpo_wizard.steps.emulator.google.shared.operation_records import keep
from grpo_wizard.steps.emulator.google.shared.self_links import COMPUTE, last, missing, sent, stored
from grpo_wizard.steps.emulator.server.context import (
    EVENTS,
    JSON,
    ApiError,
    Call,
    Record,
    World,
    happens,
    serves,
)

_WAIT_S = 120.0  # Google holds `wait` for up to two minutes; gcloud and the Python client ask again
_WAIT_LEAST_S = 1.0  # however fast the clock
_HTTP = {400: "BAD REQUEST", 403: "FORBIDDEN", 404: "NOT FOUND", 409: "CONFLICT", 429: "TOO MANY REQUESTS"}
_STATUS_OF = {
    "QUOTA_EXCEEDED": 403,
    "ZONE_RESOURCE_POOL_EXHAUSTED": 503,
    "RESOURCE_NOT_FOUND": 404,
    "RESOURCE_ALREADY_EXISTS": 409,
}


def start(call: Call, what: str, target: Record, effect: str = "", **args: Any) -> JSON:
    """Starts the operation that carries out `what` ("network.insert" …) on a target.

    When its time has come, the event `effect` is called.
    """
    verb = what.split(".")[1]
    scope = "global" if target.location == "global" else _scope_of(target)
    name = operation_name(call.world)
    key = f"projects/{target.project}/{scope}/operations/{name}"
    body: JSON = {
        "kind": "compute#operation",
        "id": number(),
        "name": name,
        "operationType": verb,
        "status": "RUNNING",
        "progress": 0,
        "user": call.caller,
        "targetLink": stored(target.key),
        "targetId": str(target.body.get("id", "0")),
        "insertTime": pacific(call.world),
        "startTime": pacific(call.world),
        "selfLink": stored(key),
    }
    if scope != "global":
        body[scope.split("/")[0].rstrip("s")] = stored(f"projects/{target.project}/{scope}")
    record = keep(call, COMPUTE, key, target, body)
    call.world.later(
        seconds(what, target.name), "compute.done", operation=key, target=target.key, effect=effect, args=args
    )
    return shown(call, record)


def _scope_of(target: Record) -> str:
    return "/".join(target.key.split("/")[2:4])


@happens("compute.done")
def _done(world: World, operation: str, target: str, effect: str, args: JSON) -> None:
    record = world.get(COMPUTE, operation)
    if record is None:
        return
    thing = world.get(COMPUTE, target)
    failure = record.extra.get("fail")
    if failure is None and thing is not None and effect:
        try:
            EVENTS[effect](world, target=thing, **args)
        except ApiError as refusal:
            failure = {
                "errors": [{"code": _shout(refusal.reason), "message": refusal.message}],
                "status": refusal.code,
            }
    if failure is not None:
        _fail(world, record, thing, failure)
    record.body.update(status="DONE", progress=100, endTime=pacific(world))
    world.put(record)


def _fail(world: World, operation: Record, thing: Record | None, failure: JSON) -> None:
    errors = failure.get("errors") or [
        {"code": str(failure.get("code", "INTERNAL_ERROR")), "message": str(failure.get("message", ""))}
    ]
    status = failure.get("status") or _STATUS_OF.get(str(errors[0].get("code")), 400)
    operation.body.update(
        error={"errors": errors},
        httpErrorStatusCode=status,
        httpErrorMessage=_HTTP.get(status, "SERVICE UNAVAILABLE"),
    )
    if thing is None:
        return
    if operation.body["operationType"] == "insert":
        world.remove(thing)
    else:
        thing.state = "ready"
        world.put(thing)


def _shout(reason: str) -> str:
    """resourceInUseByAnotherResource -> RESOURCE_IN_USE_BY_ANOTHER_RESOURCE."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in reason).upper()


@happens("compute.made")
def _made(world: World, target: Record) -> None:
    target.state = "ready"
    world.put(target)


@happens("compute.gone")
def _gone(world: World, target: Record) -> None:
    world.remove(target)


def shown(call: Call, record: Record) -> JSON:
    """An operation as this caller sees it."""
    return sent(call, record.body)


def _key(call: Call) -> str:
    params = call.params
    scope = (
        f"regions/{params['region']}"
        if "region" in params
        else f"zones/{params['zone']}"
        if "zone" in params
        else "global"
    )
    return f"projects/{params['project']}/{scope}/operations/{params['operation']}"


def _found(call: Call) -> Record:
    record = call.world.get(COMPUTE, _key(call))
    if record is None:
        raise missing(_key(call))
    return record


@serves("compute.globalOperations.get", "compute.regionOperations.get", "compute.zoneOperations.get")
def get(call: Call) -> JSON:
    """One operation."""
    return shown(call, _found(call))


@serves("compute.globalOperations.wait", "compute.regionOperations.wait", "compute.zoneOperations.wait")
async def wait(call: Call) -> JSON:
    """Held until the operation is done, or for Google's two minutes, which the speed divides too."""
    record, pause = _found(call), 0.01
    left = max(call.world.clock.shrink(_WAIT_S), _WAIT_LEAST_S)
    while record.body["status"] != "DONE" and left > 0:
        await asyncio.sleep(pause)
        left -= pause
        pause = min(pause * 1.5, 0.25)
        record = _found(call)
    return shown(call, record)


@serves("compute.globalOperations.list", "compute.regionOperations.list", "compute.zoneOperations.list")
def list_(call: Call) -> JSON:
    """A scope's operations."""
    prefix = _key(Call(**{**call.__dict__, "params": {**call.params, "operation": ""}}))
    records = call.world.all(COMPUTE, "operation", project=str(call.params["project"]))
    return listed(call, "operationList", [record.body for record in records if record.key.startswith(prefix)])


@serves("compute.globalOperations.aggregatedList")
def aggregated_list(call: Call) -> JSON:
    """Every scope's operations."""
    records = call.world.all(COMPUTE, "operation", project=str(call.params["project"]))
    items = [(record.key.split("/", 2)[2].rsplit("/operations/", 1)[0], record.body) for record in records]
    return aggregated(call, "operationAggregatedList", "operations", items, {scope for scope, _ in items})


@serves("compute.globalOperations.delete", "compute.regionOperations.delete", "compute.zoneOperations.delete")
def delete(call: Call) -> JSON:
    """Forgets a finished operation."""
    record = _found(call)
    if record.body["status"] != "DONE":
        raise ApiError(
            400,
            f"The operation '{last(record.key)}' is still running.",
            "FAILED_PRECONDITION",
            "operationInProgress",
        )
    call.world.remove(record)
    return {}
