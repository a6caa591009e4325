"""The patch formats: JSON merge patch, JSON patch, strategic merge patch."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import schemas, status
from grpo_wizard.steps.emulator.kube.api.copies import deep_copy


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patch(target: JSON, operations: list[JSON]) -> Any:
    """Apply a JSON patch (RFC 6902): add, remove, replace, move, copy, test."""
    document: Any = deep_copy(target)
    for operation in operations:
        document = _operate(document, operation)
    return document


def _operate(document: Any, operation: JSON) -> Any:
    what, path = operation.get("op"), str(operation.get("path", ""))
    if what == "test":
        if _read(document, path) != operation.get("value"):
            raise status.StatusError(
                422,
                "Invalid",
                f"the server rejected our request due to an error in our request: "
                f"testing value {path} failed: test failed",
            )
        return document
    if what in ("move", "copy"):
        value = deep_copy(_read(document, operation["from"]))
        document = _write(document, operation["from"], None, "remove") if what == "move" else document
        return _write(document, path, value, "add")
    if what not in ("add", "replace", "remove"):
        raise status.bad_request(f"unexpected JSON patch operation: {what}")
    return _write(document, path, operation.get("value"), what)


def _parts(path: str) -> list[str]:
    return [p.replace("~1", "/").replace("~0", "~") for p in path.split("/")[1:]]


def _read(document: Any, path: str) -> Any:
    for part in _parts(path):
        try:
            document = document[int(part)] if isinstance(document, list) else document[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return document


def _write(document: Any, path: str, value: Any, what: str) -> Any:
    parts = _parts(path)
    if not parts:
        return value
    holder = _read(
        document,
        "/" + "/".join(p.replace("~", "~0").replace("/", "~1") for p in parts[:-1]) if len(parts) > 1 else "",
    )
    last = parts[-1]
    try:
        if isinstance(holder, list):
            index = len(holder) if last == "-" else int(last)
            if what == "add":
                holder.insert(index, value)
            elif what == "replace":
                holder[index] = value
            else:
                del holder[index]
        elif what == "remove":
            del holder[last]
        else:
            if what == "replace" and last not in holder:
                raise KeyError(last)
            holder[last] = value
    except (KeyError, IndexError, ValueError, TypeError):
        raise status.StatusError(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request: "
            f"{what} operation does not apply: doc is missing path: {path}",
        ) from None
    return document


def strategic(node: JSON, target: Any, patch: Any) -> Any:
    """Apply a strategic merge patch: maps merge, lists with a merge key merge by it, `$patch` directives apply."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    for key in patch.get("$retainKeys", ()) and [k for k in result if k not in patch["$retainKeys"]]:
        result.pop(key)
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.split("/", 1)[1]
            result[name] = [v for v in result.get(name, []) if v not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _strategic_value(schemas.child_schema(node, key), result.get(key), value)
    return _ordered(patch, node, result)


def _strategic_value(node: JSON, target: Any, value: Any) -> Any:
    if isinstance(value, list):
        if node.get("mk"):
            return _merge_list(node, target or [], value)
        if node.get("set"):
            return [*(target or []), *(v for v in value if v not in (target or []))]
        return value
    return strategic(node, target, value)


def _merge_list(node: JSON, target: list[Any], patch: list[Any]) -> list[Any]:
    key, inner = node["mk"], schemas.item_schema(node)
    if any(isinstance(p, dict) and p.get("$patch") == "replace" for p in patch):
        return [p for p in patch if "$patch" not in p]
    result = list(target)
    for entry in patch:
        at = next((i for i, old in enumerate(result) if old.get(key) == entry.get(key)), None)
        if entry.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(strategic(inner, {}, entry))
        else:
            result[at] = strategic(inner, result[at], entry)
    return result


def _ordered(patch: JSON, node: JSON, result: JSON) -> JSON:
    for directive, order in patch.items():
        if not directive.startswith("$setElementOrder/"):
            continue
        name = directive.split("/", 1)[1]
        key = schemas.child_schema(node, name).get("mk")
        if key and isinstance(result.get(name), list):
            rank = {entry.get(key): i for i, entry in enumerate(order)}
            result[name] = sorted(result[name], key=lambda e: rank.get(e.get(key), len(rank)))
    return result
