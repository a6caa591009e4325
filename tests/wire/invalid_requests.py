"""Invalid requests generated from Google's own documents: one error in each, and the words that must name it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from grpo_wizard.steps.emulator.context import HANDLERS
from grpo_wizard.steps.emulator.server.discovery_documents import DOCUMENTS, Document, Method, load_document
from grpo_wizard.steps.emulator.server.handlers import load_handlers
from grpo_wizard.steps.emulator.server.proto_documents import enum_numbers
from grpo_wizard.steps.emulator.server.routes import SERVICES_BY_PREFIX
from grpo_wizard.steps.emulator.server.schema_checks import to_snake_case

JSON = dict[str, Any]
_MAX_DEPTH = 4  # messages inside messages
_CHECKED_FORMATS = {"byte", "google-datetime", "google-duration", "google-fieldmask"}
_PREFIX = {service: f"/{prefix}" for prefix, service in SERVICES_BY_PREFIX.items()}


@dataclass(frozen=True)
class RequestCase:
    """One request; `says` are parts that the message or details must contain, with `status`."""

    kind: str
    method: Method
    http_method: str
    path: str
    body: bytes | None
    expected_texts: tuple[str, ...]
    status: int = 400


@cache
def documents() -> list[Document]:
    """Return every Google document that is served, in each version."""
    load_handlers()
    return [
        load_document(service, prefix)
        for service, prefixes in DOCUMENTS.items()
        if service.endswith(".googleapis.com")
        for prefix in prefixes
    ]


def served_methods(document: Document) -> list[Method]:
    return [method for method in document.methods if method.id in HANDLERS]


def prefix(document: Document) -> str:
    """Return the path prefix of a service on the server."""
    return _PREFIX.get(document.service, "")


def valid_path(document: Document, method: Method) -> str:
    """Return a path that the method serves, below the service's prefix."""

    def fill(match: re.Match[str]) -> str:
        name = match.group().strip("{}+")
        pattern = method.parameters.get(name, {}).get("pattern", "x") if "+" in match.group() else "x"
        return (
            re.sub(r"\(\?*:*([^|)]*)[^)]*\)", r"\1", pattern.strip("^$"))
            .replace("[^/]+", "x")
            .replace(".*", "x")
        )

    return prefix(document) + "/" + re.sub(r"\{[^}]*\}", fill, method.template)


def query(method: Method, **more: str) -> str:
    """Return the query that a method requires, and more."""
    needed = {
        n: "x"
        for n, spec in method.parameters.items()
        if spec.get("location") == "query" and spec.get("required")
    }
    return "?" + "&".join(f"{name}={value}" for name, value in {**needed, **more}.items())


def invalid_requests(document: Document, method: Method) -> Iterator[RequestCase]:
    """Return every request to a method with one error."""
    path = valid_path(document, method)

    def one(
        kind: str, body: Any, *says: str, more: str = query(method), verb: str = "", status: int = 400
    ) -> RequestCase:
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        return RequestCase(kind, method, verb or method.http_method, path + more, raw, says, status)

    valid = _valid(document, method)
    unknown = 'Unknown name "spoon": Cannot bind query parameter'
    yield one("unknown parameter", valid, unknown, more=query(method, spoon="1"))
    if method.response:
        yield one(
            "unknown mask",
            valid,
            "Cannot find matching fields for path 'spoon'",
            more=query(method, fields="spoon"),
        )
    yield from _parameters(method, one, valid)
    yield from _path(document, method, valid)
    if method.request:
        yield from _bodies(document, method, one)
    for verb in {"GET", "POST", "PUT", "PATCH", "DELETE"}:
        if document.find(verb, path.removeprefix(prefix(document)).partition("?")[0]) is None:
            yield one("wrong verb", None, "was not found on this server", verb=verb, status=404)


def _valid(document: Document, method: Method) -> JSON | None:
    """Return the smallest body that the documents allow."""
    if not method.request:
        return None
    properties = document.schemas[method.request].get("properties", {})
    required = [
        n for n, spec in properties.items() if method.id in spec.get("annotations", {}).get("required", [])
    ]
    scalar = next((n for n, spec in properties.items() if _is_text(spec)), "")
    return dict.fromkeys(required or ([scalar] if scalar else []), "x") or _first_property(properties)


def _first_property(properties: JSON) -> JSON:
    return {name: _valid_value(spec) for name, spec in list(properties.items())[:1]}


def _valid_value(spec: JSON) -> Any:
    if "$ref" in spec or "additionalProperties" in spec:
        return {}
    formed = {"byte": "AAAA", "google-datetime": "2026-11-30T00:00:00Z", "google-duration": "1s"}
    by_type = {"array": [], "boolean": True, "integer": 1, "number": 1.5}
    if "enum" in spec:
        return spec["enum"][0]
    return by_type.get(spec.get("type", ""), formed.get(spec.get("format", ""), "1"))


def _is_text(spec: JSON) -> bool:
    return spec.get("type") == "string" and "enum" not in spec and not spec.get("format")


def valid_requests(document: Document, method: Method) -> Iterator[RequestCase]:
    """Return requests with one allowed field each, an enum by name and (where Python's clients send it) by
    number.
    """
    path = valid_path(document, method) + query(method)
    schema = document.schemas.get(method.request or "", {})
    for body, _, properties in _messages(document, schema, method.body_path):
        for name, spec in properties.items():
            for value in _values(document, spec):
                yield RequestCase(
                    "allowed", method, method.http_method, path, json.dumps(body({name: value})).encode(), ()
                )


def _values(document: Document, spec: JSON) -> Iterator[Any]:
    yield _valid_value(spec)
    if "enum" in spec:
        names = set(spec["enum"])
        known = spec.get("enumNumbers") or next(
            (
                found
                for known, found in enum_numbers(document.service, document.prefix).items()
                if names == set(known)
            ),
            {},
        )
        yield from list(known)[:2]


def _parameters(method: Method, one: Any, valid: JSON | None) -> Iterator[RequestCase]:
    bad = {"integer": "spoon", "boolean": "maybe"}
    for name, spec in method.parameters.items():
        if spec.get("location") != "query":
            continue
        value = "SPOON" if "enum" in spec else bad.get(spec.get("type", ""))
        if value:
            yield one(
                "wrong parameter", valid, f"'{to_snake_case(name)}'", more=query(method, **{name: value})
            )
        if spec.get("required"):
            rest = query(method).replace(f"{name}=x", "")
            yield one("missing parameter", valid, f"Required field '{name}' not specified", more=rest)


def _path(document: Document, method: Method, valid: JSON | None) -> Iterator[RequestCase]:
    """A bad name in each place of a Compute path."""
    if document.service != "compute.googleapis.com":
        return
    raw = None if valid is None else json.dumps(valid).encode()
    for name, spec in method.parameters.items():
        if "{" + name + "}" in method.template and "pattern" in spec:
            template = method.template.replace("{" + name + "}", "No_Name")
            path = "/" + re.sub(r"\{[^}]*\}", "x", template) + query(method)
            says = (f"Invalid value for field '{name}': 'No_Name'. Must be a match of regex",)
            yield RequestCase("bad name", method, method.http_method, path, raw, says)


def _bodies(document: Document, method: Method, one: Any) -> Iterator[RequestCase]:
    schema = document.schemas[method.request or ""]
    at = method.body_path
    yield one("malformed", b'{"a": ', "Invalid JSON payload received. Unexpected end of string")
    yield one("malformed", b"{'a': 1}", "Invalid JSON payload received. Expected an object key or }.")
    yield one("no message", [1], 'Unknown name "": Root element must be a message.')
    if document.service == "compute.googleapis.com":
        yield one("empty", None, "Required field 'resource' not specified")
        if not str(method.request).endswith("Request"):  # a message of options may be empty
            yield one("empty", {}, "Required field 'resource' not specified")
    for body, place, properties in _messages(document, schema, at):
        end = f" at '{place}'" if place else ""
        yield one("unknown field", body({"spoon": 1}), f'Unknown name "spoon"{end}: Cannot find field.')
        for name, spec in properties.items():
            yield from _fields(one, body, name, spec, f"{place}.{to_snake_case(name)}".lstrip("."), place)


def _messages(document: Document, schema: JSON, at: str) -> Iterator[tuple[Any, str, JSON]]:
    """Messages inside a message: how to put a value there, where it is, its fields. Each schema once."""
    seen: set[str] = set()
    waiting: list[tuple[Any, str, JSON, int]] = [(lambda value: value, at, schema, 0)]
    while waiting:
        body, place, here, depth = waiting.pop(0)
        if here.get("id", "") in seen or depth > _MAX_DEPTH:
            continue
        seen.add(here.get("id", ""))
        properties = here.get("properties", {})
        if not properties:
            continue
        yield body, place, properties
        for name, spec in properties.items():
            inner = spec.get("items", spec)
            if "$ref" in inner:
                many = spec.get("type") == "array"
                below = f"{place}.{to_snake_case(name)}".lstrip(".") + ("[0]" if many else "")
                put = _wrap_value(body, name, many)
                waiting.append((put, below, document.schemas.get(inner["$ref"], {}), depth + 1))


def _wrap_value(outer: Any, name: str, many: bool) -> Any:
    return lambda value: outer({name: [value] if many else value})


def _fields(one: Any, body: Any, name: str, spec: JSON, at: str, place: str) -> Iterator[RequestCase]:
    """One field with a value of every wrong kind."""
    kind = spec.get("type", "")
    end = f" at '{place}'" if place else ""
    if kind != "array" and kind != "any" and "additionalProperties" not in spec:
        list_ = f'Unknown name "{name}"{end}: Proto field is not repeating, cannot start list.'
        yield one("list for one", body({name: [1]}), list_)
    if kind in ("string", "integer", "number", "boolean"):
        object_ = f"Invalid value{end} ({to_snake_case(name)}), Starting an object on a scalar field"
        yield one("object for scalar", body({name: {}}), object_)
    if "$ref" in spec:
        yield one("scalar for message", body({name: 5}), f"Invalid value at '{at}' (type.googleapis.com/")
    if "additionalProperties" in spec:
        yield one(
            "list for map",
            body({name: [1]}),
            f"Invalid value{end} (Map), Cannot bind a list to map for field '{name}'",
        )
    if kind == "array":
        yield one("scalar for list", body({name: 5}), f"Invalid value at '{at}' (List), 5")
    if "enum" in spec:
        yield one("bad enum", body({name: "SPOON"}), f"Invalid value at '{at}' (TYPE_ENUM), \"SPOON\"")
    elif _is_text(spec):
        yield one("number for text", body({name: 5}), f"Invalid value at '{at}' (TYPE_STRING), 5")
    elif kind in ("boolean", "integer", "number") or spec.get("format") in ("int64", "uint64"):
        yield one("text for number", body({name: "spoon"}), f"Invalid value at '{at}' (TYPE_", '"spoon"')
    elif spec.get("format") in _CHECKED_FORMATS - {"google-fieldmask"}:
        yield one("wrong form", body({name: "spoon"}), f"Invalid value at '{at}' (")
