"""Long-running operations of the small services: google.longrunning.Operation with a flat name (`operations/acf.…`)."""

from __future__ import annotations

import secrets

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)


def start_operation(
    call: ApiCall,
    prefix: str,
    seconds: float,
    response: JSON,
    metadata: JSON,
    project: str,
    effect: str = "",
    args: JSON | None = None,
) -> JSON:
    """Start an operation that ends after `seconds` of real duration, when EVENT_HANDLERS[effect](store, **args) is called.

    With a fault's `operation_error` it fails without an effect.
    """
    name = f"operations/{prefix}.p0-{call.store.next_number()}-{secrets.token_hex(8)}"
    body: JSON = {"name": name, "metadata": metadata}
    extra = {"response": response, "error": call.operation_error}
    call.store.put(
        Record(
            call.service,
            "operation",
            name.removeprefix("operations/"),
            project,
            "global",
            name,
            body,
            "creating",
            hidden=True,
            extra=extra,
        )
    )
    call.store.schedule(
        seconds, "operation.end", service=call.service, key=name, effect=effect, args=args or {}
    )
    return body


@on_event("operation.end")
def finish_operation(store: ResourceStore, service: str, key: str, effect: str, args: JSON) -> None:
    """Finish an operation: its effect, then `response` or `error`."""
    from grpo_wizard.steps.emulator.context import EVENT_HANDLERS

    record = store.get(service, key)
    if record is None:
        return
    error = record.extra.get("error")
    if error is None and effect:
        try:
            EVENT_HANDLERS[effect](store, **args)
        except ApiError as problem:
            error = {
                "code": _canonical_code(problem.status),
                "message": problem.message,
                "details": problem.details,
            }
    record.body["done"] = True
    record.body["error" if error else "response"] = error or record.extra["response"]
    record.state = "failed" if error else "ready"
    store.mark_dirty()


def _canonical_code(status: str) -> int:
    names = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
    ]
    return names.index(status) if status in names else 2


@handles(
    "serviceusage.operations.get", "cloudresourcemanager.operations.get", "servicenetworking.operations.get"
)
def get(call: ApiCall) -> JSON:
    """Return one operation of the called service."""
    record = call.store.get(call.service, call.params["name"])
    if record is None:
        raise ApiError(404, f"Operation {call.params['name']} not found.", "NOT_FOUND")
    return record.body


@handles("serviceusage.operations.list", "servicenetworking.operations.list")
def list_all(call: ApiCall) -> JSON:
    """List all operations of the called service, newest first; unfiltered (the services filter by a consumer's name only)."""
    return {"operations": [r.body for r in reversed(call.store.all(call.service, "operation"))]}
