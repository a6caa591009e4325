"""Lists: filter, order, pages; and Compute's aggregated lists by scope."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import cache
from typing import Any

from ..contract import JSON, ApiError, Call
from .filters import parse
from .links import sent, stored


def cut(
    call: Call, items: Iterable[JSON], *, size: str = "maxResults", most: int = 500
) -> tuple[list[JSON], str]:
    """The page that this call asks for, and the token of the next one ("" at the end)."""
    test = parse(str(call.params.get("filter", "")))
    chosen = [item for item in items if test(item)]
    _order(chosen, str(call.params.get("orderBy", "")))
    token = str(call.params.get("pageToken", ""))
    start = _offset(token)
    if start is None:
        raise ApiError(400, f"Invalid value for field 'pageToken': '{token}'.", "INVALID_ARGUMENT", "invalid")
    end = start + min(int(call.params.get(size) or most), most)
    return chosen[start:end], _token(end) if end < len(chosen) else ""


def _order(items: list[JSON], order: str) -> None:
    field, _, direction = order.partition(" ")
    if field in ("name", "creationTimestamp"):
        items.sort(key=lambda item: str(item.get(field, "")), reverse=direction == "desc")


def _token(offset: int) -> str:
    return base64.urlsafe_b64encode(str(offset).encode()).decode()


def _offset(token: str) -> int | None:
    try:
        return int(base64.urlsafe_b64decode(token)) if token else 0
    except ValueError:
        return None


def paged(call: Call, field: str, items: list[JSON], size: int) -> JSON:
    """One page of the services that list neither by filter nor by order: `field` and `nextPageToken`."""
    start = _offset(str(call.params.get("pageToken", "")))
    if start is None:
        raise ApiError(400, "The page token is not valid.", "INVALID_ARGUMENT")
    end = start + size
    return {field: items[start:end], **({"nextPageToken": _token(end)} if end < len(items) else {})}


def listed(call: Call, kind: str, items: Iterable[JSON]) -> JSON:
    """A Compute list. As at Google, `items` is absent when there is none."""
    page, token = cut(call, items)
    answer = _head(call, kind)
    if page:
        answer["items"] = page
    if token:
        answer["nextPageToken"] = token
    return sent(call, answer)


def aggregated(
    call: Call, kind: str, field: str, items: Iterable[tuple[str, JSON]], scopes: Iterable[str]
) -> JSON:
    """A Compute aggregated list.

    `items` are (scope, body), scope like `zones/us-central1-b`; an empty scope carries Google's warning.
    """
    by_scope: dict[str, list[JSON]] = {scope: [] for scope in scopes}
    scope_of: dict[int, str] = {}
    bodies: list[JSON] = []
    for scope, body in items:
        scope_of[id(body)] = scope
        bodies.append(body)
    page, token = cut(call, bodies)
    for body in page:
        by_scope.setdefault(scope_of[id(body)], []).append(sent(call, body))
    answer = sent(call, _head(call, kind))
    answer["items"] = {
        scope: {field: found} if found else _nothing(scope) for scope, found in by_scope.items()
    }
    if token:
        answer["nextPageToken"] = token
    return answer


def _head(call: Call, kind: str) -> JSON:
    key = call.path.split("/v1/", 1)[-1].split("/beta/", 1)[-1].lstrip("/")
    return {"kind": f"compute#{kind}", "id": key, "selfLink": stored(key)}


@cache
def _nothing(scope: str) -> dict[str, Any]:
    return {
        "warning": {
            "code": "NO_RESULTS_ON_PAGE",
            "message": f"There are no results for scope '{scope}' on this page.",
            "data": [{"key": "scope", "value": scope}],
        }
    }
