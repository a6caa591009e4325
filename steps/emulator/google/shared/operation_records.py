"""What the operations of Compute, GKE and Lustre share: how they are kept, and a write that is sent twice."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any

from grpo_wizard.steps.emulator.google.shared.self_links import last, sent
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Handler, Record, serves

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def keep(
    call: Call, service: str, key: str, target: Record, body: JSON, state: str = "ready", **extra: Any
) -> Record:
    """Puts an operation on a target into the world.

    What the call's fault and `requestId` say of it goes with the caller's `extra`.
    """
    notes = {"request_id": _request_id(call), "method": call.method_id, "fail": call.operation_error, **extra}
    return call.world.put(
        Record(
            service,
            "operation",
            last(key),
            target.project,
            target.location,
            key,
            body,
            state,
            hidden=True,
            extra=notes,
        )
    )


def _request_id(call: Call) -> str | None:
    return call.params.get("requestId") or call.body.get("requestId")


def _check_id(call: Call) -> None:
    """Refuses a `requestId` that is no UUID, or the zero one, as documented; the sentence is inferred."""
    asked = _request_id(call)
    if asked and (not _UUID.fullmatch(str(asked)) or not set(str(asked)) - set("0-")):
        text = f"Invalid value for field 'requestId': '{asked}'. The request ID must be a valid UUID."
        raise ApiError(400, text, "INVALID_ARGUMENT", "invalid")


def _same_request(call: Call) -> JSON | None:
    """The operation that this `requestId` already started."""
    wanted = _request_id(call)
    if not wanted:
        return None
    for record in call.world.all(call.service, "operation", project=call.params.get("project")):
        if record.extra.get("request_id") == wanted and record.extra.get("method") == call.method_id:
            return sent(call, record.body)
    return None


def writes(*method_ids: str) -> Callable[[Handler], Handler]:
    """Like `serves`, for a write that takes a `requestId`: sent twice, it is carried out once."""

    def register(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def once(call: Call) -> JSON | Awaitable[JSON]:
            _check_id(call)
            return _same_request(call) or handler(call)

        return serves(*method_ids)(once)

    return register
