"""Google's resource links.

Parsed by their `projects/…` suffix whatever the host; stored with one host; sent with the caller's.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar, cast

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError

COMPUTE = "compute.googleapis.com"
CONTAINER = "container.googleapis.com"
LUSTRE = "lustre.googleapis.com"
NETWORKING = "servicenetworking.googleapis.com"

_CANONICAL_PREFIX = "https://www.googleapis.com/compute/v1/"  # used by Google in responses
_RELATIVE_NAME = re.compile(r"^(?:https?://[^/]+/(?:[^/]+/)*?)?((?:projects|global|regions|zones)/.+)$")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

T = TypeVar("T")


def self_link(key: str) -> str:
    """Return the link stored for a resource's key."""
    return _CANONICAL_PREFIX + key


def relative_name(link: str, project: str = "") -> str | None:
    """Return `projects/P/…` of a full, partial or short link; None if it is not a link (a bare name)."""
    found = _RELATIVE_NAME.match(link)
    if not found:
        return None
    rest = found.group(1)
    return rest if rest.startswith("projects/") else f"projects/{project}/{rest}"


def parse_parent(parent: str) -> tuple[str, str | None]:
    """Return (project, location) of `projects/P/locations/L`; location None for all (`-`)."""
    parts = parent.split("/")
    return parts[1], None if parts[3] == "-" else parts[3]


def basename(link: str) -> str:
    """Return the name at a link's end."""
    return link.rsplit("/", 1)[-1]


def with_request_host(call: ApiCall, value: T) -> T:
    """Return a copy of a response whose links use the caller's host."""
    return cast(T, _rehost(value, f"{call.base_url.rstrip('/')}/compute/v1/"))


def _rehost(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):
        return {key: _rehost(item, prefix) for key, item in value.items()}
    if isinstance(value, list):
        return [_rehost(item, prefix) for item in value]
    if isinstance(value, str) and value.startswith(_CANONICAL_PREFIX):
        return prefix + value[len(_CANONICAL_PREFIX) :]
    return value


def check_name(name: Any) -> str:
    """Reject names that RFC 1035 forbids, with Compute's text."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    text = "" if name is None else name
    raise invalid_field(
        "resource.name", text, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'"
    )


def invalid_field(field: str, value: object, why: str) -> ApiError:
    """Return Compute's 400 about one field."""
    return ApiError(
        400, f"Invalid value for field '{field}': '{value}'. {why}", "INVALID_ARGUMENT", "invalid"
    )


def not_found_error(key: str) -> ApiError:
    """Return Compute's 404."""
    return ApiError(404, f"The resource '{key}' was not found", "NOT_FOUND", "notFound")


def already_exists_error(key: str) -> ApiError:
    """Return Compute's 409."""
    return ApiError(409, f"The resource '{key}' already exists", "ALREADY_EXISTS", "alreadyExists")


def not_ready_error(key: str) -> ApiError:
    """Return Compute's error about a resource whose own operation still runs."""
    return ApiError(400, f"The resource '{key}' is not ready", "FAILED_PRECONDITION", "resourceNotReady")


def in_use_error(what: str, key: str, by: str) -> ApiError:
    """Return Compute's error for deleting a resource in use; `by` is the key of its user."""
    return ApiError(
        400,
        f"The {what} resource '{key}' is already being used by '{by}'",
        "FAILED_PRECONDITION",
        "resourceInUseByAnotherResource",
    )


def key_from_body(body: JSON, field: str, project: str, collection: str) -> str:
    """Return the key that a body's field links to; rejects a bare name, as Compute does."""
    value = str(body.get(field, ""))
    key = relative_name(value, project)
    if key is None or f"/{collection}/" not in key:
        raise invalid_field(f"resource.{field}", value, "The URL is malformed.")
    return key
