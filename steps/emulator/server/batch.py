"""Batch requests: several calls in one multipart/mixed body, as gcloud sends them for several names.

`POST /batch/compute/v1` (and `/beta`) for Compute, `POST /batch` for others: the `batchPath` of each
discovery document. At most 1,000 calls of one API; a header of the batch applies to each call that does not
set it; calls succeed or fail independently (https://docs.cloud.google.com/compute/docs/api/how-tos/batch,
2026-11).
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from grpo_wizard.steps.emulator.context import ApiError
from grpo_wizard.steps.emulator.server import payload
from grpo_wizard.steps.emulator.server.dispatch import Dispatcher, RawRequest
from grpo_wizard.steps.emulator.server.errors import error_body, internal_error
from grpo_wizard.steps.emulator.server.recorder import OPERATION_ERROR, RecorderMiddleware
from grpo_wizard.steps.emulator.server.routes import SERVICES_BY_PREFIX, Route

JSON = dict[str, Any]
_MAX_CALLS = 1000
_BATCH_PATHS = {"compute.googleapis.com": ("/batch/compute/v1", "/batch/compute/beta")}
_BAD_BATCH_TEXT = "Failed to parse batch request, error: {}."


@dataclass(frozen=True)
class BatchPart:
    """One call of a batch."""

    content_id: str
    method: str
    path: str
    query: dict[str, list[str]]
    headers: CIMultiDict[str]
    body: bytes


def is_batch(method: str, route: Route) -> bool:
    """Return whether a request goes to its API's batch endpoint."""
    paths = _BATCH_PATHS.get(route.service, ("/batch",) if route.service.endswith(".googleapis.com") else ())
    return method == "POST" and route.path in paths


async def answer_batch(
    request: web.Request, route: Route, dispatcher: Dispatcher, middleware: RecorderMiddleware
) -> web.Response:
    """Answer each call and join the responses, each with the Content-ID of its call.

    Raises ApiError 400 if the body is not a batch.
    """
    parts = split(request.headers.get("Content-Type", ""), await request.read())
    replies = [(part, await _answer_part(part, request, route, dispatcher, middleware)) for part in parts]
    return _join_replies(replies)


def split(content_type: str, raw: bytes) -> list[BatchPart]:
    """Return the calls of a batch's body.

    Raises ApiError 400 if it is not a batch or holds too many calls.
    """
    message = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + raw)
    if not message.is_multipart():
        raise _bad_batch("the body is not multipart/mixed")
    parts = [part for part in message.get_payload() if isinstance(part, Message)]
    if not parts:
        raise _bad_batch("the body contains no calls")
    if len(parts) > _MAX_CALLS:  # the limit is documented; the text is inferred
        raise _bad_batch(f"the batch contains {len(parts)} calls; the maximum is {_MAX_CALLS}")
    return [_parse_part(part) for part in parts]


def _bad_batch(reason: str) -> ApiError:
    return ApiError(400, _BAD_BATCH_TEXT.format(reason), "INVALID_ARGUMENT", "badRequest")


def _parse_part(part: Message) -> BatchPart:
    raw = part.get_payload(decode=True)
    head, _, body = (raw if isinstance(raw, bytes) else b"").replace(b"\r\n", b"\n").partition(b"\n\n")
    first, *lines = head.decode(errors="replace").split("\n")
    words = first.split(" ")
    if len(words) < 2:
        raise _bad_batch("a part contains no request line")
    try:
        url = urlsplit(words[1])
    except ValueError:
        raise _bad_batch(f"'{words[1]}' is not a valid URL") from None
    headers = CIMultiDict({k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines) if k})
    query = parse_qs(url.query, keep_blank_values=True)
    return BatchPart(str(part.get("Content-ID", "")), words[0].upper(), url.path, query, headers, body)


async def _answer_part(
    part: BatchPart,
    request: web.Request,
    route: Route,
    dispatcher: Dispatcher,
    middleware: RecorderMiddleware,
) -> tuple[int, Any]:
    """Return status and body of one call; it is recorded and faulted like a single request."""
    inner = Route(route.service, _strip_service_prefix(route.service, part.path), route.base_url)
    do = middleware.match_fault(route.service, part.method, inner.path)
    await asyncio.sleep(do.get("delay_s", 0))
    headers = CIMultiDict(request.headers)
    headers.update(part.headers)
    if "status" in do:
        status, body = do["status"], do.get("body", {})
    else:
        error = do.get(OPERATION_ERROR)
        asked = RawRequest(inner, part.method, part.query, part.body, headers, error)
        status, body = await _dispatch(asked, dispatcher)
    query = {name: values[0] if len(values) == 1 else values for name, values in part.query.items()}
    middleware.recorder.write(route.service, part.method, inner.path, query, _parse_body(part.body), status)
    return status, body


async def _dispatch(raw: RawRequest, dispatcher: Dispatcher) -> tuple[int, Any]:
    try:
        body = await dispatcher.dispatch(raw)
        return 204 if body is None else 200, body
    except ApiError as error:
        return error.code, error_body(raw.route.service, error)
    except Exception:
        broken = internal_error(raw.http_method, raw.route.path)
        return broken.code, error_body(raw.route.service, broken)


def _strip_service_prefix(service: str, path: str) -> str:
    """Return a call's path without this server's prefix for its API (`/container/v1/…`)."""
    for prefix, known in SERVICES_BY_PREFIX.items():
        if known == service and path.startswith(f"/{prefix}/"):
            return path.removeprefix(f"/{prefix}")
    return path


def _parse_body(raw: bytes) -> Any:
    try:
        return payload.parse_body(raw)
    except ApiError:
        return raw.decode(errors="replace")


def _printable(text: str) -> str:
    return "".join(letter for letter in text if " " <= letter <= "~")


def _reason_phrase(status: int) -> str:
    """Return the reason phrase of a status; a fault may use a status without one."""
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else "Unknown"


def _join_replies(replies: list[tuple[BatchPart, tuple[int, Any]]]) -> web.Response:
    boundary = f"batch_{secrets.token_urlsafe(16)}"
    pieces = []
    for part, (status, body) in replies:
        raw = b"" if body is None else msgspec.json.encode(body)
        kind = "" if body is None else "Content-Type: application/json; charset=UTF-8\r\n"
        head = (
            f"--{boundary}\r\nContent-Type: application/http\r\n"
            f"Content-ID: <response-{_printable(part.content_id).strip('<>')}>\r\n\r\n"
            f"HTTP/1.1 {status} {_reason_phrase(status)}\r\n{kind}Content-Length: {len(raw)}\r\n\r\n"
        )
        pieces.append(head.encode() + raw + b"\r\n")
    whole = b"".join(pieces) + f"--{boundary}--\r\n".encode()
    return web.Response(body=whole, headers={"Content-Type": f"multipart/mixed; boundary={boundary}"})
