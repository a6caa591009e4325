"""Google's resource links.

Read by their `projects/…` tail whatever the host; stored with one host; sent with the caller's.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar, cast

from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call

COMPUTE = "compute.googleapis.com"
CONTAINER = "container.googleapis.com"
LUSTRE = "lustre.googleapis.com"
NETWORKING = "servicenetworking.googleapis.com"

_STORED = "https://www.googleapis.com/compute/v1/"  # what Google itself puts into answers
_TAIL = re.compile(r"^(?:https?://[^/]+/(?:[^/]+/)*?)?((?:projects|global|regions|zones)/.+)$")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

T = TypeVar("T")


def stored(key: str) -> str:
    """The link under which a thing's key stands in the world."""
    return _STORED + key


def tail(link: str, project: str = "") -> str | None:
    """`projects/P/…` of a full, partial or short link; None where it is no link (a bare name)."""
    found = _TAIL.match(link)
    if not found:
        return None
    rest = found.group(1)
    return rest if rest.startswith("projects/") else f"projects/{project}/{rest}"


def place(parent: str) -> tuple[str, str | None]:
    """(project, location) of `projects/P/locations/L`; None for every location (`-`)."""
    parts = parent.split("/")
    return parts[1], None if parts[3] == "-" else parts[3]


def last(link: str) -> str:
    """The bare name at a link's end."""
    return link.rsplit("/", 1)[-1]


def sent(call: Call, value: T) -> T:
    """A copy of an answer whose stored links carry the host that this caller used."""
    return cast(T, _rehost(value, f"{call.host.rstrip('/')}/compute/v1/"))


def _rehost(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):
        return {key: _rehost(item, prefix) for key, item in value.items()}
    if isinstance(value, list):
        return [_rehost(item, prefix) for item in value]
    if isinstance(value, str) and value.startswith(_STORED):
        return prefix + value[len(_STORED) :]
    return value


def check_name(name: Any) -> str:
    """Refuses what RFC 1035 refuses, in Compute's words."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    text = "" if name is None else name
    raise invalid("resource.name", text, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")


def invalid(field: str, value: object, why: str) -> ApiError:
    """Compute's 400 about one field."""
    return ApiError(
        400, f"Invalid value for field '{field}': '{value}'. {why}", "INVALID_ARGUMENT", "invalid"
    )


def missing(key: str) -> ApiError:
    """Compute's 404."""
    return ApiError(404, f"The resource '{key}' was not found", "NOT_FOUND", "notFound")


def exists(key: str) -> ApiError:
    """Compute's 409."""
    return ApiError(409, f"The resource '{key}' already exists", "ALREADY_EXISTS", "alreadyExists")


def unready(key: str) -> ApiError:
    """What Compute says of a thing whose own operation still runs."""
    return ApiError(400, f"The resource '{key}' is not ready", "FAILED_PRECONDITION", "resourceNotReady")


def in_use(what: str, key: str, by: str) -> ApiError:
    """Compute's refusal to delete; `by` is the key of what uses it."""
    return ApiError(
        400,
        f"The {what} resource '{key}' is already being used by '{by}'",
        "FAILED_PRECONDITION",
        "resourceInUseByAnotherResource",
    )


def body_link(body: JSON, field: str, project: str, collection: str) -> str:
    """Key of the thing that a body's field links to; a bare name is refused as Compute refuses it."""
    value = str(body.get(field, ""))
    key = tail(value, project)
    if key is None or f"/{collection}/" not in key:
        raise invalid(f"resource.{field}", value, "The URL is malformed.")
    return key
