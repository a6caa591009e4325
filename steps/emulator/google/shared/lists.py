"""Lists: filter, order, pages; and Compute's aggregated lists by scope."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from grpo_wizard.steps.emulator.context import JSON, ApiCall
from grpo_wizard.steps.emulator.google.shared.filters import parse_filter
from grpo_wizard.steps.emulator.google.shared.self_links import invalid_field, self_link, with_request_host

_MAX_PAGE_SIZE = 500  # Compute's page size

_ORDERS = {
    "": (("name",), False),
    "name": (("name",), False),
    "creationTimestamp": (("creationTimestamp", "name"), False),
    "creationTimestamp desc": (("creationTimestamp", "name"), True),
}


def paginate(
    call: ApiCall, items: Iterable[JSON], scope: Callable[[JSON], str] = lambda _: ""
) -> tuple[list[JSON], str]:
    """Return the requested page, and the token of the next one ("" at the end).

    Sorted by name by default, as Compute documents. A token encodes the last item returned, so that
    concurrent changes make no other item appear twice or never.
    """
    most = _page_size(call)
    test = parse_filter(str(call.params.get("filter", "")))
    fields, backwards = _sort_order(str(call.params.get("orderBy", "")))

    def key(item: JSON) -> list[str]:
        return [scope(item), *(str(item.get(field, "")) for field in fields)]

    chosen = sorted((item for item in items if test(item)), key=key, reverse=backwards)
    last = _decode_token(str(call.params.get("pageToken", "")))
    if last is not None:
        chosen = [item for item in chosen if (key(item) < last if backwards else key(item) > last)]
    page = chosen[:most]
    return page, _encode_token(key(page[-1])) if len(chosen) > most else ""


def _page_size(call: ApiCall) -> int:
    """Return the page size. 0 means the default, as if absent (inferred)."""
    asked = int(call.params.get("maxResults") or _MAX_PAGE_SIZE)
    if asked > _MAX_PAGE_SIZE:
        raise invalid_field(
            "maxResults", asked, f"Values must be within the following range: [0, {_MAX_PAGE_SIZE}]."
        )
    return asked


def _sort_order(order: str) -> tuple[tuple[str, ...], bool]:
    if order.strip() not in _ORDERS:
        raise invalid_field("orderBy", order, "Only sorting by name or creationTimestamp desc is supported.")
    return _ORDERS[order.strip()]


def _encode_token(last: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(last).encode()).decode()


def _decode_token(token: str) -> list[str] | None:
    """Return the last item that a token encodes; None without a token.

    Raises ApiError 400 for an invalid one.
    """
    if not token:
        return None
    try:
        last = json.loads(base64.urlsafe_b64decode(token))
        if isinstance(last, list) and all(isinstance(one, str) for one in last):
            return last
    except ValueError:
        pass
    raise invalid_field("pageToken", token, "The page token is not valid.")


def simple_page(call: ApiCall, field: str, items: list[JSON], size: int) -> JSON:
    """Return a page of services without filter and order: `field` and `nextPageToken`."""
    last = _decode_token(str(call.params.get("pageToken", "")))
    chosen = [item for item in sorted(items, key=_name) if last is None or [_name(item)] > last]
    page = chosen[: max(size, 1)]
    return {
        field: page,
        **({"nextPageToken": _encode_token([_name(page[-1])])} if len(chosen) > len(page) else {}),
    }


def _name(item: JSON) -> str:
    return str(item["name"])


def compute_list(call: ApiCall, kind: str, items: Iterable[JSON]) -> JSON:
    """Return a Compute list. As at Google, `items` is absent if empty."""
    page, token = paginate(call, items)
    answer = _list_header(call, kind)
    if page:
        answer["items"] = page
    if token:
        answer["nextPageToken"] = token
    return with_request_host(call, answer)


def aggregated_response(
    call: ApiCall, kind: str, field: str, items: Iterable[tuple[str, JSON]], scopes: Iterable[str]
) -> JSON:
    """Return a Compute aggregated list.

    `items` are (scope, body) with scopes like `zones/us-central1-b`; an empty scope has Google's warning.
    """
    by_scope: dict[str, list[JSON]] = {scope: [] for scope in scopes}
    scope_of: dict[int, str] = {}
    bodies: list[JSON] = []
    for scope, body in items:
        scope_of[id(body)] = scope
        bodies.append(body)
    page, token = paginate(call, bodies, lambda body: scope_of[id(body)])
    for body in page:
        by_scope.setdefault(scope_of[id(body)], []).append(with_request_host(call, body))
    answer = with_request_host(call, _list_header(call, kind))
    answer["items"] = {
        scope: {field: found} if found else _empty_scope(scope) for scope, found in by_scope.items()
    }
    if token:
        answer["nextPageToken"] = token
    return answer


def _list_header(call: ApiCall, kind: str) -> JSON:
    key = call.path.split("/v1/", 1)[-1].split("/beta/", 1)[-1].lstrip("/")
    return {"kind": f"compute#{kind}", "id": key, "selfLink": self_link(key)}


@cache
def _empty_scope(scope: str) -> dict[str, Any]:
    return {
        "warning": {
            "code": "NO_RESULTS_ON_PAGE",
            "message": f"There are no results for scope '{scope}' on this page.",
            "data": [{"key": "scope", "value": scope}],
        }
    }
