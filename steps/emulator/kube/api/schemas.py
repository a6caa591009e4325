"""Kubernetes' and KubeRay's schemas as data, and the validation of objects against them.

Nodes are JSON Schema without descriptions; `any` accepts every scalar (quantities, int-or-string), `open`
accepts unknown fields; `mk`, `lk` and `set` are the patch merge key, the list map keys and the set flag.
Source and version are in the files.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api.kinds import Kind

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
    "number": (int, float),
}
_GO_TYPE_NAMES = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
_OPEN_SCHEMA: JSON = {"type": "object", "open": 1}


@dataclass
class SchemaErrors:
    """Errors of a validation: unknown paths, (path, message) of wrong types and broken rules, missing paths."""

    unknown_fields: list[str] = field(default_factory=list)
    wrong_types: list[tuple[str, str, str]] = field(default_factory=list)  # path, got, wanted
    violated_rules: list[tuple[str, str, str]] = field(default_factory=list)  # path, reason, message
    missing_fields: list[str] = field(default_factory=list)


def read_asset(name: str) -> Any:
    """Read a data file of assets/kube, plain or gzipped JSON."""
    raw = resources.files("grpo_wizard.assets").joinpath("kube", name).read_bytes()
    return msgspec.json.decode(gzip.decompress(raw) if name.endswith(".gz") else raw)


@cache
def schema_types() -> dict[str, JSON]:
    """Return all named types: Kubernetes' core types, the RayCluster and GKE's two network kinds."""
    core: dict[str, JSON] = read_asset("core-v1.33.json.gz")["types"]
    meta = {"$ref": "ObjectMeta"}
    for name, node in (
        ("RayCluster", read_asset("raycluster-v1.4.2.json.gz")["schema"]),
        *read_asset("gke-networks.json")["types"].items(),
    ):
        core[name] = {**node, "properties": {**node["properties"], "metadata": meta}}
    return core


def resolve_ref(node: JSON) -> JSON:
    """Resolve a $ref; keeps the merge key next to it."""
    ref = node.get("$ref")
    if ref is None:
        return node
    found = schema_types().get(ref, _OPEN_SCHEMA)
    return {**found, "mk": node["mk"]} if "mk" in node else found


def schema_of(kind: Kind) -> JSON:
    return schema_types().get(kind.schema, _OPEN_SCHEMA)


def child_schema(node: JSON, key: str) -> JSON:
    """Return the schema of a field or map value; an open one where the schema ends."""
    node = resolve_ref(node)
    found = node.get("properties", {}).get(key)
    if found is None:
        found = node.get("additionalProperties", _OPEN_SCHEMA)
    return resolve_ref(found)


def item_schema(node: JSON) -> JSON:
    return resolve_ref(resolve_ref(node).get("items", _OPEN_SCHEMA))


def validate(node: JSON, value: Any, path: str, found: SchemaErrors) -> Any:
    """Validate a value; return it without unknown fields and nulls. Errors are collected, not raised."""
    node = resolve_ref(node)
    if node.get("any"):
        if isinstance(value, (dict, list, bool)):
            found.wrong_types.append((path, _GO_TYPE_NAMES[type(value)], "string"))
        return value
    wanted = node.get("type")
    if wanted and not _has_type(wanted, value):
        found.wrong_types.append((path, _GO_TYPE_NAMES.get(type(value), "null"), wanted))
        return value
    if isinstance(value, dict):
        return _check_object(node, value, path, found)
    if isinstance(value, list):
        return [
            validate(item_schema(node), v, f"{path}[{i}]", found)
            for i, v in enumerate(value)
            if v is not None
        ]
    found.violated_rules.extend(_rules(node, value, path))
    return value


def _has_type(wanted: str, value: Any) -> bool:
    if wanted in ("integer", "number") and isinstance(value, bool):
        return False
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[wanted])


def _check_object(node: JSON, value: JSON, path: str, found: SchemaErrors) -> JSON:
    properties, values = node.get("properties", {}), node.get("additionalProperties")
    free = node.get("open") or (not properties and values is None)
    clean: JSON = {}
    for key, entry in value.items():
        below = f"{path}.{key}" if path else key
        sub = properties.get(key, values)
        if sub is None and not free:
            found.unknown_fields.append(below)
        elif entry is not None or (sub is None and free):
            clean[key] = validate(sub or {}, entry, below, found)
    found.missing_fields.extend(
        f"{path}.{key}" if path else key for key in node.get("required", ()) if key not in clean
    )
    return clean


def _rules(node: JSON, value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    if "enum" in node and value not in node["enum"]:
        allowed = ", ".join(f'"{entry}"' for entry in node["enum"])
        yield path, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {allowed}'
    if isinstance(value, str):
        if "pattern" in node and not re.search(node["pattern"], value):
            yield (
                path,
                "FieldValueInvalid",
                (f"Invalid value: \"{value}\": {path} in body should match '{node['pattern']}'"),
            )
        if "maxLength" in node and len(value) > node["maxLength"]:
            yield path, "FieldValueTooLong", f"Too long: may not be more than {node['maxLength']} bytes"
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and "minimum" in node
        and value < node["minimum"]
    ):
        yield (
            path,
            "FieldValueInvalid",
            (f"Invalid value: {value}: {path} in body should be greater than or equal to {node['minimum']}"),
        )


def with_defaults(node: JSON, value: Any) -> Any:
    """Set the schema's own defaults (a CRD's `default`)."""
    node = resolve_ref(node)
    if isinstance(value, dict):
        for key, sub in node.get("properties", {}).items():
            sub = resolve_ref(sub)
            if key not in value and "default" in sub:
                value[key] = sub["default"]
            elif key in value:
                value[key] = with_defaults(sub, value[key])
    elif isinstance(value, list) and "items" in node:
        return [with_defaults(node["items"], entry) for entry in value]
    return value
