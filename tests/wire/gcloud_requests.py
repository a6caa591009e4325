"""Create requests, gcloud's and ours, in one form so that they can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
GCLOUD = Path(__file__).parent / "fixtures" / "gcloud"
_HOST = re.compile(r"^https?://[^/]+/(compute/[a-z0-9]+/)?(?=projects/)")
# What only one side says: the clients' own parameters, and the retry mark.
_QUERY = {"alt", "$alt", "requestId", "prettyPrint"}


def recorded_requests() -> dict[str, JSON]:
    """gcloud's create requests by command (recorded with gcloud 528.0.0, 2026-11)."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(GCLOUD.glob("*.json"))}


def _message(service: str, path: str) -> Any:
    """The message of a create request's body; None where the API has no class for it."""
    from google.cloud import compute_v1, container_v1, lustre_v1

    last = path.rpartition("/")[2]
    return {
        ("compute.googleapis.com", "networks"): compute_v1.Network,
        ("compute.googleapis.com", "subnetworks"): compute_v1.Subnetwork,
        ("compute.googleapis.com", "firewalls"): compute_v1.Firewall,
        ("compute.googleapis.com", "addresses"): compute_v1.Address,
        ("container.googleapis.com", "clusters"): container_v1.CreateClusterRequest,
        ("container.googleapis.com", "nodePools"): container_v1.CreateNodePoolRequest,
        ("lustre.googleapis.com", "instances"): lustre_v1.Instance,
    }.get((service, last))


def normalized_request(request: Mapping[str, Any]) -> JSON:
    """Service, path, query and body; enums by name, unset zero fields left out, links without host.

    The way through the API's own message turns enum numbers into names and drops zeros only where they mean
    "unset" (compute keeps an explicit false); a field that the API does not know raises.
    """
    from google.protobuf.json_format import MessageToDict

    body = request["body"] or {}
    kind = _message(request["service"], request["path"])
    if kind is not None:
        body = MessageToDict(kind.pb(kind.from_json(json.dumps(body))))
    body.pop("parent", None)
    query = {key: value for key, value in (request.get("query") or {}).items() if key not in _QUERY}
    return {"service": request["service"], "path": request["path"], "query": query, "body": _normalize(body)}


def _normalize(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _normalize(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [_normalize(item) for item in value]
    return _HOST.sub("", value) if isinstance(value, str) else value


def request_key(request: Mapping[str, Any]) -> tuple[str, str, str]:
    """What tells one create request from another: service, path, and the name that is given."""
    body = request["body"] or {}
    inner = next(
        (body[part] for part in ("cluster", "nodePool") if isinstance(body.get(part), Mapping)), body
    )
    name = inner.get("name") or (request.get("query") or {}).get("instanceId") or ""
    return request["service"], request["path"], str(name)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every leaf; an item of a list goes by its `name`, else by its place."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from leaves(item, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            named = item.get("name") if isinstance(item, Mapping) else None
            yield from leaves(item, f"{path}.{named or index}")
    else:
        yield path, value


def differing_paths(left: Any, right: Any) -> set[str]:
    """Paths at which two values differ, whichever side has them."""
    one, other = dict(leaves(left)), dict(leaves(right))
    return {path for path in one.keys() | other.keys() if one.get(path, ...) != other.get(path, ...)}
