"""Server-side apply and field ownership. Field sets use Kubernetes' FieldsV1 format."""

from __future__ import annotations

import json
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import schemas, status
from grpo_wizard.steps.emulator.kube.api.copies import deep_copy

_UNTRACKED_FIELDS = {"apiVersion", "kind"}
_UNTRACKED_METADATA = {
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
}


def fields_of(node: JSON, obj: JSON) -> JSON:
    """Return all leaf fields that an object sets, as FieldsV1."""
    body = {k: v for k, v in obj.items() if k not in _UNTRACKED_FIELDS and k != "status"}
    body["metadata"] = {k: v for k, v in obj.get("metadata", {}).items() if k not in _UNTRACKED_METADATA}
    fields: JSON = _fields(node, body)
    if not fields.get("f:metadata"):
        fields.pop("f:metadata", None)
    return fields


def _keys(node: JSON, entry: Any) -> str:
    keys = node.get("lk") or [node["mk"]]
    return "k:" + json.dumps({k: _key_value(k, entry) for k in keys}, separators=(",", ":"), sort_keys=True)


def _key_value(key: str, entry: JSON) -> Any:
    return entry.get(key, "TCP" if key == "protocol" else None)


def _is_map_list(node: JSON) -> bool:
    return bool(node.get("lk") or node.get("mk"))


def _fields(node: JSON, value: Any) -> JSON:
    if isinstance(value, dict) and value:
        return {f"f:{k}": _fields(schemas.child_schema(node, k), v) for k, v in value.items()}
    if isinstance(value, list) and _is_map_list(node):
        return {_keys(node, e): {".": {}, **_fields(schemas.item_schema(node), e)} for e in value}
    if isinstance(value, list) and node.get("set"):
        return {"v:" + json.dumps(e): {} for e in value}
    return {}


def leaves(fields: JSON, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the paths of a field set's leaves; an item's own marker `.` counts as one."""
    found: set[tuple[str, ...]] = set()
    for key, below in fields.items():
        found |= leaves(below, (*path, key)) if below else {(*path, key)}
    return found


def fields_from_paths(paths: set[tuple[str, ...]]) -> JSON:
    root: JSON = {}
    for path in paths:
        at = root
        for part in path:
            at = at.setdefault(part, {})
    return root


def format_path(path: tuple[str, ...]) -> str:
    """Return `.spec.containers[name="x"].image`, as in conflict messages."""
    text = ""
    for part in path:
        if part.startswith("f:"):
            text += "." + part[2:]
        elif part.startswith("k:"):
            text += "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in json.loads(part[2:]).items()) + "]"
        elif part.startswith("v:"):
            text += f"[={part[2:]}]"
    return text


def value_at(node: JSON, obj: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path; None if absent."""
    for part in path:
        if part.startswith("f:"):
            obj, node = (obj or {}).get(part[2:]), schemas.child_schema(node, part[2:])
        elif part.startswith("k:"):
            obj, node = (
                next((e for e in obj or [] if _keys(node, e) == part), None),
                schemas.item_schema(node),
            )
        elif part.startswith("v:"):
            obj = json.loads(part[2:]) if json.loads(part[2:]) in (obj or []) else None
        if obj is None:
            return None
    return obj


def _remove(node: JSON, obj: Any, path: tuple[str, ...]) -> None:
    part, rest = path[0], path[1:]
    if part.startswith("f:"):
        name = part[2:]
        if isinstance(obj, dict) and name in obj:
            if not rest:
                del obj[name]
            else:
                _remove(schemas.child_schema(node, name), obj[name], rest)
                if obj[name] in ({}, []):
                    del obj[name]
    elif part.startswith("k:") and isinstance(obj, list):
        at = next((i for i, e in enumerate(obj) if _keys(node, e) == part), None)
        if at is not None and rest == (".",):
            del obj[at]
        elif at is not None:
            _remove(schemas.item_schema(node), obj[at], rest)
    elif part.startswith("v:") and isinstance(obj, list) and json.loads(part[2:]) in obj:
        obj.remove(json.loads(part[2:]))


def _remove_unowned(node: JSON, result: JSON, lost: set[tuple[str, ...]], held: set[tuple[str, ...]]) -> None:
    """Remove what a manager no longer applies: whole list items first, unless another manager owns a part of one."""
    for path in sorted(lost, key=lambda p: (p[-1] != ".", -len(p))):
        if path[-1] == "." and any(other[: len(path) - 1] == path[:-1] for other in held):
            continue
        if len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in json.loads(path[-2][2:]):
            continue  # the key of an item is removed with the item only
        _remove(node, result, path)


def merge(node: JSON, live: Any, applied: Any) -> Any:
    """Merge applied values into live ones: maps and keyed lists merge, everything else is replaced."""
    if isinstance(applied, dict) and isinstance(live, dict):
        result = dict(live)
        for key, value in applied.items():
            result[key] = merge(schemas.child_schema(node, key), live.get(key), value)
        return result
    if isinstance(applied, list) and isinstance(live, list) and _is_map_list(node):
        result_list = list(live)
        for entry in applied:
            at = next((i for i, e in enumerate(live) if _keys(node, e) == _keys(node, entry)), None)
            if at is None:
                result_list.append(entry)
            else:
                result_list[at] = merge(schemas.item_schema(node), live[at], entry)
        return result_list
    if isinstance(applied, list) and isinstance(live, list) and node.get("set"):
        return [*live, *(e for e in applied if e not in live)]
    return deep_copy(applied)


def apply(node: JSON, live: JSON, applied: JSON, manager: str, force: bool, now: str) -> JSON:
    """Perform a server-side apply. Raises the 409 that names the other managers' fields."""
    managed: list[JSON] = deep_copy(live["metadata"].get("managedFields", []))
    own = next((m for m in managed if m["manager"] == manager and m["operation"] == "Apply"), None)
    wanted = leaves(fields_of(node, applied))
    before = leaves(own["fieldsV1"]) if own else set()
    others = [m for m in managed if m is not own]
    clashes = [
        (m["manager"], path)
        for m in others
        for path in sorted(leaves(m["fieldsV1"]) & wanted)
        if value_at(node, live, path) != value_at(node, applied, path) and path[-1] != "."
    ]
    if clashes and not force:
        raise status.apply_conflict([(m, format_path(p)) for m, p in clashes])
    result: JSON = merge(node, live, {k: v for k, v in applied.items() if k != "metadata"})
    result["metadata"] = merge(
        schemas.child_schema(node, "metadata"),
        live["metadata"],
        {k: v for k, v in applied["metadata"].items() if k not in _UNTRACKED_METADATA},
    )
    result = deep_copy(result)
    held = set().union(*(leaves(m["fieldsV1"]) for m in others)) if others else set()
    _remove_unowned(node, result, before - wanted - held, held)
    lost = {path for _, path in clashes}
    kept = [{**m, "fieldsV1": fields_from_paths(leaves(m["fieldsV1"]) - lost)} for m in others]
    entry = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": applied.get("apiVersion"),
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields_from_paths(wanted),
    }
    if own and {**own, "time": now} == entry:
        entry = own
    result["metadata"]["managedFields"] = [entry, *(m for m in kept if m["fieldsV1"])]
    return result


def track_update(node: JSON, old: JSON | None, new: JSON, manager: str, now: str) -> JSON:
    """Assign the fields that a plain write changed to its manager (operation Update)."""
    changed = {
        p
        for p in leaves(fields_of(node, new))
        if old is None or value_at(node, old, p) != value_at(node, new, p)
    }
    managed: list[JSON] = (old or new)["metadata"].get("managedFields", [])
    if not changed:
        return {**new, "metadata": {**new["metadata"], "managedFields": managed}} if managed else new
    kept = []
    own: set[tuple[str, ...]] = set()
    for entry in managed:
        if entry["manager"] == manager and entry["operation"] == "Update":
            own = leaves(entry["fieldsV1"])
        else:
            kept.append({**entry, "fieldsV1": fields_from_paths(leaves(entry["fieldsV1"]) - changed)})
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": new.get("apiVersion"),
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields_from_paths(own | changed),
    }
    return {
        **new,
        "metadata": {**new["metadata"], "managedFields": [*(m for m in kept if m["fieldsV1"]), entry]},
    }
