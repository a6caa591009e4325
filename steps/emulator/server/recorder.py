"""The middleware of every request: it counts, records (`--record`) and injects faults (`--faults`).

The Google services and each cluster's Kubernetes API use the same middleware, so one fault file and one
record cover both.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from grpo_wizard.steps.emulator.kube.api import protobuf

JSON = dict[str, Any]
_log = logging.getLogger(__name__)
RequestIdentifier = Callable[[web.Request], tuple[str, str]]
RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
OPERATION_ERROR = (
    "operation_error"  # request[...]: the error with which the operation started by this request ends
)
METHOD_ID = "method_id"
_TOKEN_SERVICE = "oauth2.googleapis.com"  # carries credentials: not recorded
_UNCOUNTED_PATHS = ("/_rehearsal/status", "/_rehearsal/drills")  # monitoring does not count as use
_MASK = "***"
_MATCH_KEYS = {"service", "method", "path", "nth"}
_ACTION_KEYS = {"status", "body", "headers", "drop", "delay_s", "operation_error", "truncate"}


@dataclass
class RequestFault:
    """One entry of the fault file."""

    match: JSON
    action: JSON
    match_count: int = 0

    def matches(self, service: str, method: str, path: str) -> bool:
        """Return whether the entry applies to this request; counts the requests whose service, method and path match."""
        for value, wanted in ((service, self.match.get("service")), (path, self.match.get("path"))):
            if wanted is not None and not fnmatch.fnmatchcase(value, wanted):
                return False
        if self.match.get("method", method).upper() != method:
            return False
        self.match_count += 1
        return self.match.get("nth") in (None, self.match_count)


def read_faults(path: Path | None) -> list[RequestFault]:
    """Read a fault file. Raises ValueError, which names the entry and the key."""
    entries = json.loads(path.read_text()) if path else []
    if type(entries) is not list:
        raise ValueError("The fault file must contain a JSON list.")
    for number, entry in enumerate(entries):
        if (
            not isinstance(entry, dict)
            or set(entry) - {"match", "do"}
            or not isinstance(entry.get("do"), dict)
        ):
            raise ValueError(f"Fault {number}: expected an object with `match` and `do`.")
        wrong = (set(entry.get("match", {})) - _MATCH_KEYS) | (set(entry["do"]) - _ACTION_KEYS)
        if wrong:
            raise ValueError(f"Fault {number}: unknown key {sorted(wrong)[0]!r}.")
    return [RequestFault(entry.get("match", {}), entry["do"]) for entry in entries]


class Recorder:
    """Append each request to a file as a JSON line. Secret data is masked; headers are never written."""

    def __init__(self, path: Path | None) -> None:
        self._file = open(path, "a", buffering=1, opener=_open_private) if path else None  # noqa: SIM115

    def write(self, service: str, method: str, path: str, query: JSON, body: Any, status: int) -> None:
        if self._file is not None:
            line = {
                "service": service,
                "method": method,
                "path": path,
                "query": query,
                "body": _MASK if _is_partial_secret(service, path, body) else mask_secrets(body),
                "status": status,
            }
            try:
                self._file.write(json.dumps(line) + "\n")
            except OSError as error:  # a full disk must not fail the request
                _log.error("cannot record a request: %s", error)

    @property
    def enabled(self) -> bool:
        return self._file is not None


def _open_private(path: str, flags: int) -> int:
    """Open the record for its owner only."""
    return os.open(path, flags, 0o600)


def _is_partial_secret(service: str, path: str, body: Any) -> bool:
    """Return whether a body sent to a Secret does not identify itself as one: a patch, or not JSON."""
    whole = isinstance(body, dict) and body.get("kind") in ("Secret", "DeleteOptions")
    return service == "kubernetes" and "/secrets" in path and body is not None and not whole


def mask_secrets(body: Any) -> Any:
    """Replace the data of Kubernetes Secrets, also in lists and last-applied annotations."""
    if isinstance(body, list):
        return [mask_secrets(item) for item in body]
    if not isinstance(body, dict):
        return body
    if body.get("kind") == "Secret" or (
        "type" in body and {"data", "stringData"} & set(body) and "metadata" in body
    ):
        body = {
            **body,
            **{
                k: dict.fromkeys(body[k] or {}, _MASK)
                for k in ("data", "stringData")
                if isinstance(body.get(k), dict)
            },
        }
        body.get("metadata", {}).get("annotations", {}).pop(
            "kubectl.kubernetes.io/last-applied-configuration", None
        )
    return {
        key: mask_secrets(value) if isinstance(value, dict | list) else value for key, value in body.items()
    }


@dataclass
class RecorderMiddleware:
    """The request counters, the record and the faults of one server process."""

    recorder: Recorder
    faults: list[RequestFault]
    last_request_at: float = field(default_factory=time.monotonic)
    in_flight: int = 0
    request_count: int = 0
    token_fault: Callable[[str, web.Request], JSON] = (
        lambda service, request: {}
    )  # the fault that a drill injects

    def match_fault(self, service: str, method: str, path: str) -> JSON:
        """Return `do` of the first fault that applies to this request; {} where none does.

        Every entry counts its matches.
        """
        return next((f.action for f in [f for f in self.faults if f.matches(service, method, path)]), {})

    def idle_seconds(self) -> float:
        """Return the seconds since the last request; 0 while a request (a watch or a stream, too) is running."""
        return 0.0 if self.in_flight else time.monotonic() - self.last_request_at

    def build(self, identify: RequestIdentifier, on_done: Callable[[web.Request], None]) -> Any:
        """Build an aiohttp middleware.

        `identify` returns a request's service and Google path; `on_done` is called when a request is done.
        """

        @web.middleware
        async def watch(request: web.Request, handler: RequestHandler) -> web.StreamResponse:
            if request.method == "GET" and request.path in _UNCOUNTED_PATHS:
                return await handler(request)
            self.in_flight += 1
            self.request_count += 1
            try:
                return await self._process(request, handler, *identify(request))
            finally:
                self.in_flight -= 1
                self.last_request_at = time.monotonic()
                on_done(request)

        return watch

    async def _process(
        self, request: web.Request, handler: RequestHandler, service: str, path: str
    ) -> web.StreamResponse:
        own = path.startswith("/_rehearsal")
        do = (
            {}
            if own
            else self.match_fault(service, request.method, path) or self.token_fault(service, request)
        )
        await asyncio.sleep(do.get("delay_s", 0))
        if do.get("drop") == "before":
            return _drop_connection(request)
        if OPERATION_ERROR in do:
            request[OPERATION_ERROR] = do[OPERATION_ERROR]
        response = _fault_response(do) if "status" in do else await handler(request)
        if self.recorder.enabled and not own and service != _TOKEN_SERVICE:
            query = {k: v[0] if len(v) == 1 else v for k in request.query for v in [request.query.getall(k)]}
            self.recorder.write(
                service, request.method, path, query, await _request_body(request), response.status
            )
        if do.get("drop") in ("after", True):
            return _drop_connection(request)
        if "truncate" in do and isinstance(response, web.Response):
            return await _send_truncated(request, response, do["truncate"])
        return response


def _fault_response(do: JSON) -> web.Response:
    body = do.get("body", {})
    text, kind = (body, "text/html") if isinstance(body, str) else (json.dumps(body), "application/json")
    headers = {"Content-Type": kind} | {k: str(v) for k, v in do.get("headers", {}).items()}
    return web.Response(status=do["status"], body=text.encode(), headers=headers)


async def _request_body(request: web.Request) -> Any:
    if not request.can_read_body and not request._read_bytes:
        return None
    raw = await request.read()
    try:
        if request.content_type == protobuf.MEDIA_TYPE:
            return protobuf.decode(raw)
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode(errors="replace")


def _drop_connection(request: web.Request) -> web.Response:
    """Close the connection without a response."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


async def _send_truncated(request: web.Request, response: web.Response, count: int) -> web.StreamResponse:
    """Announce the whole body, send its first `count` bytes and close the connection."""
    body = response.body if isinstance(response.body, bytes) else b""
    headers = {"Content-Type": response.content_type, "Content-Length": str(len(body))}
    cut = web.StreamResponse(status=response.status, headers=headers)
    await cut.prepare(request)
    await cut.write(body[:count])
    if request.transport is not None:
        request.transport.close()
    return cut
