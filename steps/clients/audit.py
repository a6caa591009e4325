"""Audit of every request that writes: a line before it is sent and a line for its outcome.

A request without an answer (connection reset, timeout) may still have taken effect, so the first line is on disk before anything is
sent. All clients come through here: the Google SDKs and Service Networking (requests sessions), Kubernetes, and Ray's Jobs API.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

ATTEMPT, RESULT = "attempt", "result"
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_READ_VERBS = (":testIamPermissions", ":getIamPolicy")  # reads that Google serves as POST


class AuditSink(Protocol):
    """Where lines go: `AuditLog.append`. `id` is shared by the two lines of a request, `phase` is attempt or result."""

    def __call__(
        self,
        identity: str,
        method: str,
        url: str,
        operation: str,
        result: str,
        *,
        id: str = "",
        phase: str = "",
    ) -> None: ...


def discard(*_parts: str, **_more: str) -> None:
    """An audit sink for contexts that only read."""


@dataclass
class AuditedRequest:
    """A request under way; whoever sends it fills in what the answer says."""

    status: int = 0  # HTTP status; 0 while there is no answer
    operation: str = ""  # the long-running operation, or the object's id


RequestAudit = Callable[[str, str, str], AbstractContextManager[AuditedRequest]]  # method, url, operation


@contextmanager
def audited(
    sink: AuditSink, identity: str, method: str, url: str, operation: str = ""
) -> Iterator[AuditedRequest]:
    """Audit the one request that is sent inside. Reads leave no line."""
    request = AuditedRequest(operation=operation)
    if not is_write(method, url):
        yield request
        return
    id = secrets.token_hex(8)
    sink(identity, method, url, operation, "", id=id, phase=ATTEMPT)
    failure = ""
    try:
        yield request
    except BaseException as error:
        failure = f"error: {type(error).__name__}"
        raise
    finally:
        result = str(request.status) if request.status else failure
        sink(identity, method, url, request.operation, result, id=id, phase=RESULT)


def is_write(method: str, url: str) -> bool:
    """Whether a request may change something."""
    return method.upper() not in _READ_METHODS and not url.partition("?")[0].endswith(_READ_VERBS)


def audit_session(session: Session, audit: RequestAudit) -> None:
    """Audit what a requests session sends: each hop and each retry, whatever adapters are mounted now or later."""
    send = session.send

    def audited_send(request: PreparedRequest, **options: Any) -> Response:
        method, url = request.method or "", request.url or ""
        with audit(method, url, "") as sent:
            answer = send(request, **options)
            sent.status = answer.status_code
            if is_write(method, url):
                sent.operation = operation_name(answer.content)
            return answer

    session.send = audited_send  # type: ignore[method-assign]


def operation_name(content: bytes) -> str:
    """The long-running operation that Google's answer names; empty when it names none."""
    try:
        body = json.loads(content)
    except ValueError:
        return ""
    if not isinstance(body, dict):
        return ""
    name = str(body.get("name", ""))
    started = (
        body.get("kind") == "compute#operation"
        or "operationType" in body
        or name.startswith("operations/")
        or "/operations/" in name
    )
    return name if started else ""
