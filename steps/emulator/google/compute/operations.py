"""Compute's operations: started by every write, read by get, list and wait, finished by the clock.

A failed operation is DONE with `error` and `httpErrorStatusCode`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from grpo_wizard.steps.emulator.context import (
    EVENT_HANDLERS,
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)
from grpo_wizard.steps.emulator.google.shared.durations import sample_seconds
from grpo_wizard.steps.emulator.google.shared.ids import (
    generate_resource_id,
    operation_name,
    pacific_timestamp,
)
from grpo_wizard.steps.emulator.google.shared.lists import aggregated_response, compute_list
from grpo_wizard.steps.emulator.google.shared.operation_records import record_operation
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    basename,
    not_found_error,
    self_link,
    with_request_host,
)

_WAIT_S = 120.0  # Google blocks `wait` for up to two minutes; gcloud and the Python client then call it again
_MIN_WAIT_S = 1.0  # however fast the clock
_HTTP = {400: "BAD REQUEST", 403: "FORBIDDEN", 404: "NOT FOUND", 409: "CONFLICT", 429: "TOO MANY REQUESTS"}
_STATUS_OF = {
    "QUOTA_EXCEEDED": 403,
    "ZONE_RESOURCE_POOL_EXHAUSTED": 503,
    "RESOURCE_NOT_FOUND": 404,
    "RESOURCE_ALREADY_EXISTS": 409,
}


def start_operation(call: ApiCall, what: str, target: Record, effect: str = "", **args: Any) -> JSON:
    """Start the operation for `what` ("network.insert" …) on a target.

    The event `effect` is called when it is due.
    """
    verb = what.split(".")[1]
    scope = "global" if target.location == "global" else _scope_of(target)
    name = operation_name(call.store)
    key = f"projects/{target.project}/{scope}/operations/{name}"
    body: JSON = {
        "kind": "compute#operation",
        "id": generate_resource_id(),
        "name": name,
        "operationType": verb,
        "status": "RUNNING",
        "progress": 0,
        "user": call.caller,
        "targetLink": self_link(target.key),
        "targetId": str(target.body.get("id", "0")),
        "insertTime": pacific_timestamp(call.store),
        "startTime": pacific_timestamp(call.store),
        "selfLink": self_link(key),
    }
    if scope != "global":
        body[scope.split("/")[0].rstrip("s")] = self_link(f"projects/{target.project}/{scope}")
    record = record_operation(call, COMPUTE, key, target, body)
    call.store.schedule(
        sample_seconds(what, target.name),
        "compute.done",
        operation=key,
        target=target.key,
        effect=effect,
        args=args,
    )
    return view(call, record)


def _scope_of(target: Record) -> str:
    return "/".join(target.key.split("/")[2:4])


@on_event("compute.done")
def _complete(store: ResourceStore, operation: str, target: str, effect: str, args: JSON) -> None:
    record = store.get(COMPUTE, operation)
    if record is None:
        return
    resource = store.get(COMPUTE, target)
    failure = record.extra.get("fail")
    if failure is None and resource is not None and effect:
        try:
            EVENT_HANDLERS[effect](store, target=resource, **args)
        except ApiError as refusal:
            failure = {
                "errors": [{"code": _to_upper_snake(refusal.reason), "message": refusal.message}],
                "status": refusal.code,
            }
    if failure is not None:
        _set_error(store, record, resource, failure)
    record.body.update(status="DONE", progress=100, endTime=pacific_timestamp(store))
    store.put(record)


def _set_error(store: ResourceStore, operation: Record, resource: Record | None, failure: JSON) -> None:
    errors = failure.get("errors") or [
        {"code": str(failure.get("code", "INTERNAL_ERROR")), "message": str(failure.get("message", ""))}
    ]
    status = failure.get("status") or _STATUS_OF.get(str(errors[0].get("code")), 400)
    operation.body.update(
        error={"errors": errors},
        httpErrorStatusCode=status,
        httpErrorMessage=_HTTP.get(status, "SERVICE UNAVAILABLE"),
    )
    if resource is None:
        return
    if operation.body["operationType"] == "insert":
        store.remove(resource)
    else:
        resource.state = "ready"
        store.put(resource)


def _to_upper_snake(reason: str) -> str:
    """resourceInUseByAnotherResource -> RESOURCE_IN_USE_BY_ANOTHER_RESOURCE."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in reason).upper()


@on_event("compute.made")
def _on_created(store: ResourceStore, target: Record) -> None:
    target.state = "ready"
    store.put(target)


@on_event("compute.gone")
def _on_deleted(store: ResourceStore, target: Record) -> None:
    store.remove(target)


def view(call: ApiCall, record: Record) -> JSON:
    """Return an operation for this caller."""
    return with_request_host(call, record.body)


def _key(call: ApiCall) -> str:
    params = call.params
    scope = (
        f"regions/{params['region']}"
        if "region" in params
        else f"zones/{params['zone']}"
        if "zone" in params
        else "global"
    )
    return f"projects/{params['project']}/{scope}/operations/{params['operation']}"


def _found(call: ApiCall) -> Record:
    record = call.store.get(COMPUTE, _key(call))
    if record is None:
        raise not_found_error(_key(call))
    return record


@handles("compute.globalOperations.get", "compute.regionOperations.get", "compute.zoneOperations.get")
def get(call: ApiCall) -> JSON:
    """Return one operation."""
    return view(call, _found(call))


@handles("compute.globalOperations.wait", "compute.regionOperations.wait", "compute.zoneOperations.wait")
async def wait(call: ApiCall) -> JSON:
    """Block until the operation is done, or for Google's two minutes, divided by the speed."""
    record, pause = _found(call), 0.01
    left = max(call.store.clock.scale(_WAIT_S), _MIN_WAIT_S)
    while record.body["status"] != "DONE" and left > 0:
        await asyncio.sleep(pause)
        left -= pause
        pause = min(pause * 1.5, 0.25)
        record = _found(call)
    return view(call, record)


@handles("compute.globalOperations.list", "compute.regionOperations.list", "compute.zoneOperations.list")
def list_(call: ApiCall) -> JSON:
    """List a scope's operations."""
    prefix = _key(ApiCall(**{**call.__dict__, "params": {**call.params, "operation": ""}}))
    records = call.store.all(COMPUTE, "operation", project=str(call.params["project"]))
    return compute_list(
        call, "operationList", [record.body for record in records if record.key.startswith(prefix)]
    )


@handles("compute.globalOperations.aggregatedList")
def aggregated_list(call: ApiCall) -> JSON:
    """List every scope's operations."""
    records = call.store.all(COMPUTE, "operation", project=str(call.params["project"]))
    items = [(record.key.split("/", 2)[2].rsplit("/operations/", 1)[0], record.body) for record in records]
    return aggregated_response(
        call, "operationAggregatedList", "operations", items, {scope for scope, _ in items}
    )


@handles(
    "compute.globalOperations.delete", "compute.regionOperations.delete", "compute.zoneOperations.delete"
)
def delete(call: ApiCall) -> JSON:
    """Delete a finished operation."""
    record = _found(call)
    if record.body["status"] != "DONE":
        raise ApiError(
            400,
            f"The operation '{basename(record.key)}' is still running.",
            "FAILED_PRECONDITION",
            "operationInProgress",
        )
    call.store.remove(record)
    return {}
