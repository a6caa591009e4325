"""What the operations of Compute, GKE and Lustre share: how they are kept, and a write that is sent twice."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any

from grpo_wizard.steps.emulator.google.shared.self_links import basename, with_request_host
from grpo_wizard.steps.emulator.server.context import JSON, ApiCall, ApiError, Handler, Record, handles

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def record_operation(
    call: ApiCall, service: str, key: str, target: Record, body: JSON, state: str = "ready", **extra: Any
) -> Record:
    """Puts an operation on a target into the world.

    What the call's fault and `requestId` say of it goes with the caller's `extra`.
    """
    notes = {"request_id": _request_id(call), "method": call.method_id, "fail": call.operation_error, **extra}
    return call.store.put(
        Record(
            service,
            "operation",
            basename(key),
            target.project,
            target.location,
            key,
            body,
            state,
            hidden=True,
            extra=notes,
        )
    )


def _request_id(call: ApiCall) -> str | None:
    return call.params.get("requestId") or call.body.get("requestId")


def _check_request_id(call: ApiCall) -> None:
    """Refuses a `requestId` that is no UUID, or the zero one, as documented; the sentence is inferred."""
    asked = _request_id(call)
    if asked and (not _UUID.fullmatch(str(asked)) or not set(str(asked)) - set("0-")):
        text = f"Invalid value for field 'requestId': '{asked}'. The request ID must be a valid UUID."
        raise ApiError(400, text, "INVALID_ARGUMENT", "invalid")


def _previous_operation(call: ApiCall) -> JSON | None:
    """The operation that this `requestId` already started."""
    wanted = _request_id(call)
    if not wanted:
        return None
    for record in call.store.all(call.service, "operation", project=call.params.get("project")):
        if record.extra.get("request_id") == wanted and record.extra.get("method") == call.method_id:
            return with_request_host(call, record.body)
    return None


def handles_idempotent(*method_ids: str) -> Callable[[Handler], Handler]:
    """Like `serves`, for a write that takes a `requestId`: sent twice, it is carried out once."""

    def register(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def once(call: ApiCall) -> JSON | Awaitable[JSON]:
            _check_request_id(call)
            return _previous_operation(call) or handler(call)

        return handles(*method_ids)(once)

    return register
