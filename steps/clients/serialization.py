"""Conversion between the API's JSON and the SDKs' messages, and comparison of the desired with the actual state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from grpo_wizard.steps.core.model import Drift

JSON = dict[str, Any]
OWNER_LABEL_KEY = "grpo-wizard"
_HOST = re.compile(r"^https?://[^/]+/(compute/[a-z0-9]+/)?")


def to_proto(kind: Any, body: Mapping[str, Any]) -> Any:
    """Convert the API's JSON into a proto-plus message. An unknown field raises: a spec is never sent incomplete."""
    return kind.from_json(json.dumps(body))


def to_json(message: Any) -> JSON:
    """Convert a proto-plus message into the API's JSON: camelCase, enums by name, unset fields omitted."""
    from google.protobuf.json_format import MessageToDict

    found: JSON = MessageToDict(
        type(message).pb(message), preserving_proto_field_name=False, use_integers_for_enums=False
    )
    return found


def with_owner(body: Mapping[str, object], owner: str, field_path: str) -> JSON:
    """Add the owner label at `field_path`: `description`, or a dotted path to a map of labels. Unchanged without an owner."""
    if not owner:
        return dict(body)
    copy: JSON = json.loads(json.dumps(body))
    if field_path == "description":
        return copy | {"description": f"{OWNER_LABEL_KEY} {owner}"}
    at = copy
    for key in field_path.split("."):
        at = at.setdefault(key, {})
    at[OWNER_LABEL_KEY] = owner
    return copy


def owner_of(body: Mapping[str, object], *field_paths: str) -> str:
    """The owner in the first of the fields that has one; empty without an owner label."""
    for field_path in field_paths:
        at: Any = body
        for key in field_path.split("."):
            at = at.get(key) if isinstance(at, Mapping) else None
        if isinstance(at, str) and field_path == "description" and at.startswith(f"{OWNER_LABEL_KEY} "):
            return at.removeprefix(f"{OWNER_LABEL_KEY} ")
        if isinstance(at, Mapping) and at.get(OWNER_LABEL_KEY):
            return str(at[OWNER_LABEL_KEY])
    return ""


def diff(desired: object, actual: object, path: str = "") -> Iterator[Drift]:
    """Where `actual` differs from `desired`. Only fields in `desired` are compared.

    Links are compared by their last part if one side is a bare name, numbers and strings by their text, lists of named objects by
    name; an unset field equals empty, zero and false, because proto JSON omits those.
    """
    if isinstance(desired, Mapping):
        actual_map = actual if isinstance(actual, Mapping) else {}
        for key, value in desired.items():
            yield from diff(value, actual_map.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(desired, list):
        yield from _diff_lists(desired, actual if isinstance(actual, list) else [], path)
    elif not _equal(desired, actual, path):
        yield Drift(path, desired, actual)


def _diff_lists(desired: list[object], actual: list[object], path: str) -> Iterator[Drift]:
    if desired and all(isinstance(item, Mapping) and "name" in item for item in desired):
        by_name = {item.get("name"): item for item in actual if isinstance(item, Mapping)}
        for item in desired:
            if isinstance(item, Mapping):
                yield from diff(item, by_name.get(item["name"]), f"{path}.{item['name']}")
    elif all(not isinstance(item, Mapping | list) for item in desired):
        if sorted(map(_normalize, desired)) != sorted(map(_normalize, actual)):
            yield Drift(path, desired, actual)
    elif len(desired) != len(actual):
        yield Drift(path, f"{len(desired)} items", f"{len(actual)} items")
    else:
        for index, (left, right) in enumerate(zip(desired, actual, strict=True)):
            yield from diff(left, right, f"{path}.{index}")


def _normalize(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return _HOST.sub("", str(value)) if value is not None else ""


def _equal(desired: object, actual: object, path: str) -> bool:
    left, right = _normalize(desired), _normalize(actual)
    if left == right or (left in ("", "0", "false") and right in ("", "0", "false")):
        return True
    if path.endswith("initialClusterVersion"):
        return right.startswith(left + ".")  # 1.35 selects the newest patch of 1.35
    if ("/" in left) != ("/" in right):
        return left.rpartition("/")[2] == right.rpartition("/")[2]
    return False
