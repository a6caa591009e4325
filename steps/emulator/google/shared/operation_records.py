"""Code shared by the operations of Compute, GKE and Lustre: storage, and idempotent retries by `requestId`."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, Handler, Record, handles
from grpo_wizard.steps.emulator.google.shared.self_links import basename, with_request_host

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def record_operation(
    call: ApiCall, service: str, key: str, target: Record, body: JSON, state: str = "ready", **extra: Any
) -> Record:
    """Store an operation on a target.

    The call's fault and `requestId` are added to the caller's `extra`.
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
    """Reject a `requestId` that is not a UUID, or the zero UUID, as documented; the text is inferred."""
    asked = _request_id(call)
    if asked and (not _UUID.fullmatch(str(asked)) or not set(str(asked)) - set("0-")):
        text = f"Invalid value for field 'requestId': '{asked}'. The request ID must be a valid UUID."
        raise ApiError(400, text, "INVALID_ARGUMENT", "invalid")


def _previous_operation(call: ApiCall) -> JSON | None:
    """Return the operation that this `requestId` already started."""
    wanted = _request_id(call)
    if not wanted:
        return None
    for record in call.store.all(call.service, "operation", project=call.params.get("project")):
        if record.extra.get("request_id") == wanted and record.extra.get("method") == call.method_id:
            return with_request_host(call, record.body)
    return None


def handles_idempotent(*method_ids: str) -> Callable[[Handler], Handler]:
    """Like `handles`, for a write with a `requestId`: a repeated request is performed once."""

    def register(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def once(call: ApiCall) -> JSON | Awaitable[JSON]:
            _check_request_id(call)
            return _previous_operation(call) or handler(call)

        return handles(*method_ids)(once)

    return register
