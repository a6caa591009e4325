"""Between the API's JSON and the SDKs' messages, and how what exists is compared with what shall be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from grpo_wizard.steps.core.model import Drift

JSON = dict[str, Any]
MARK_KEY = "grpo-wizard"
_HOST = re.compile(r"^https?://[^/]+/(compute/[a-z0-9]+/)?")


def message(kind: Any, body: Mapping[str, Any]) -> Any:
    """A proto-plus message of type `kind` from the API's JSON. An unknown field raises: a spec is never sent half."""
    return kind.from_json(json.dumps(body))


def document(sent: Any) -> JSON:
    """A proto-plus message as the API's JSON: camelCase, enums by name, unset fields left out."""
    from google.protobuf.json_format import MessageToDict

    found: JSON = MessageToDict(
        type(sent).pb(sent), preserving_proto_field_name=False, use_integers_for_enums=False
    )
    return found


def marked(body: Mapping[str, Any], mark: str, place: str) -> JSON:
    """`body` with our mark at `place`: `description`, or a dotted path to a map of labels. No mark: unchanged."""
    if not mark:
        return dict(body)
    copy: JSON = json.loads(json.dumps(body))
    if place == "description":
        return copy | {"description": f"{MARK_KEY} {mark}"}
    at = copy
    for key in place.split("."):
        at = at.setdefault(key, {})
    at[MARK_KEY] = mark
    return copy


def mark_in(body: Mapping[str, Any], *places: str) -> str:
    """Our lineage as written at the first of `places` that has one; empty when none."""
    for place in places:
        at: Any = body
        for key in place.split("."):
            at = at.get(key) if isinstance(at, Mapping) else None
        if isinstance(at, str) and place == "description" and at.startswith(f"{MARK_KEY} "):
            return at.removeprefix(f"{MARK_KEY} ")
        if isinstance(at, Mapping) and at.get(MARK_KEY):
            return str(at[MARK_KEY])
    return ""


def differences(want: Any, have: Any, path: str = "") -> Iterator[Drift]:
    """Where `have` does not hold what `want` asks. Only what `want` names is looked at.

    Links are compared by their tail, numbers and texts by their digits, lists of named things by name, and what is unset
    equals empty, zero and false, as proto JSON leaves those out.
    """
    if isinstance(want, Mapping):
        have_map = have if isinstance(have, Mapping) else {}
        for key, value in want.items():
            yield from differences(value, have_map.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(want, list):
        yield from _list_differences(want, have if isinstance(have, list) else [], path)
    elif not _same(want, have, path):
        yield Drift(path, want, have)


def _list_differences(want: list[Any], have: list[Any], path: str) -> Iterator[Drift]:
    if want and all(isinstance(item, Mapping) and "name" in item for item in want):
        by_name = {item.get("name"): item for item in have if isinstance(item, Mapping)}
        for item in want:
            yield from differences(item, by_name.get(item["name"]), f"{path}.{item['name']}")
    elif all(not isinstance(item, Mapping | list) for item in want):
        if sorted(map(_plain, want)) != sorted(map(_plain, have)):
            yield Drift(path, want, have)
    elif len(want) != len(have):
        yield Drift(path, f"{len(want)} items", f"{len(have)} items")
    else:
        for index, (left, right) in enumerate(zip(want, have, strict=True)):
            yield from differences(left, right, f"{path}.{index}")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return _HOST.sub("", str(value)) if value is not None else ""


def _same(want: Any, have: Any, path: str) -> bool:
    left, right = _plain(want), _plain(have)
    if left == right or (left in ("", "0", "false") and right in ("", "0", "false")):
        return True
    if path.endswith("initialClusterVersion"):
        return right.startswith(left + ".")  # 1.35 asks for the newest patch of 1.35
    if ("/" in left) != ("/" in right):
        return left.rpartition("/")[2] == right.rpartition("/")[2]
    return False
