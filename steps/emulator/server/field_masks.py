"""Partial responses: the `fields` parameter and the header X-Goog-FieldMask.

`items(name,network),nextPageToken`, `items/name` and `items.name` name fields of the response's schema; `*`
means all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grpo_wizard.steps.emulator.context import JSON, ApiError
from grpo_wizard.steps.emulator.server.discovery_documents import Document, Method
from grpo_wizard.steps.emulator.server.schema_checks import to_camel_case

FieldMask = dict[str, Any]  # field -> Tree, or None for all of it
_TOKEN = re.compile(r"\s*([(),]|[^\s(),/.]+|[/.])")
FIELD_MASK_HEADER = "X-Goog-FieldMask"


def requested_mask(query: Mapping[str, list[str]], headers: Mapping[str, str]) -> str:
    """Return a request's field mask; empty for the whole response."""
    return next(
        (query[name][-1] for name in ("fields", "$fields") if name in query),
        headers.get(FIELD_MASK_HEADER, ""),
    )


def parse_mask(document: Document, method: Method, text: str) -> FieldMask | None:
    """Parse a mask into a tree; None means everything.

    Raises ApiError 400, naming a field that the response lacks.
    """
    if not text.strip():
        return None
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s+", "", text):
        raise _unknown_path(text)
    tree = _parse_list(tokens, text)
    if tokens:
        raise _unknown_path(text)
    if method.response is None:
        return tree
    return _resolve_names(document, {"$ref": method.response}, tree, "")


def _parse_list(tokens: list[str], text: str) -> FieldMask:
    tree: FieldMask = {}
    while True:
        _merge(tree, _parse_item(tokens, text))
        if not tokens or tokens[0] != ",":
            return tree
        tokens.pop(0)


def _parse_item(tokens: list[str], text: str) -> FieldMask:
    if not tokens or tokens[0] in "(),/.":
        raise _unknown_path(text)
    name, below = tokens.pop(0), None
    if tokens and tokens[0] in "/.":
        tokens.pop(0)
        below = _parse_item(tokens, text)
    elif tokens and tokens[0] == "(":
        tokens.pop(0)
        below = _parse_list(tokens, text)
        if not tokens or tokens.pop(0) != ")":
            raise _unknown_path(text)
    return {name: below}


def _merge(tree: FieldMask, more: FieldMask) -> None:
    for name, below in more.items():
        if name in tree and tree[name] is not None and below is not None:
            _merge(tree[name], below)
        else:
            tree[name] = None if name in tree else below


def _resolve_names(document: Document, schema: JSON, tree: FieldMask, at: str) -> FieldMask:
    """Return the tree with the schema's spelling of the fields (a mask may use `next_page_token`)."""
    found: FieldMask = {}
    for name, below in tree.items():
        path = f"{at}.{name}".lstrip(".")
        known, inner = _find_field(document, schema, name)
        if inner is None:
            raise _unknown_path(path)
        found[known] = below if below is None else _resolve_names(document, inner, below, path)
    return found


def _find_field(document: Document, schema: JSON, name: str) -> tuple[str, JSON | None]:
    """Return a field's spelling and schema; no schema if the field does not exist."""
    while "$ref" in schema or schema.get("type") == "array":
        schema = document.schemas.get(schema["$ref"], {}) if "$ref" in schema else schema.get("items", {})
    if schema.get("type") == "any" or "additionalProperties" in schema:
        return name, schema.get("additionalProperties", schema)
    properties = schema.get("properties", {})
    if name == "*" and properties:
        return name, {"type": "any"}
    known = name if name in properties else to_camel_case(name)
    return known, properties.get(known)


def apply_mask(mask: FieldMask | None, value: Any) -> Any:
    """Return the part of a response that a mask selects."""
    if mask is None:
        return value
    if isinstance(value, list):
        return [apply_mask(mask, one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: apply_mask(mask.get(name, mask.get("*")), item)
        for name, item in value.items()
        if name in mask or "*" in mask
    }


def list_item_field(document: Document, method: Method, path: str) -> JSON | None:
    """Return the schema of a list item's field (`network`, `labels.owner`); None if it does not exist."""
    schema: JSON | None = _item_schema(document, method)
    for name in path.split("."):
        schema = _find_field(document, schema, name)[1] if schema is not None else None
    return schema


def _item_schema(document: Document, method: Method) -> JSON | None:
    items = document.schemas.get(method.response or "", {}).get("properties", {}).get("items")
    if items is None or items.get("type") == "array":
        return items
    scoped = document.schemas.get(items.get("additionalProperties", {}).get("$ref", ""), {})
    lists = [one for one in scoped.get("properties", {}).values() if one.get("type") == "array"]
    return lists[0] if lists else None


def _unknown_path(path: str) -> ApiError:
    why = f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path}'."
    detail = {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": path, "description": why}],
    }
    return ApiError(400, "Request contains an invalid argument.", "INVALID_ARGUMENT", "badRequest", [detail])
