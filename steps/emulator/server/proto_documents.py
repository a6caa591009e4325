"""Discovery documents derived from google-cloud packages: paths from REST transports, schemas from descriptors."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

JSON = dict[str, Any]

# (service, version) -> package, module of the service's transports, class prefix
_PACKAGES = {
    ("lustre.googleapis.com", "v1"): ("google.cloud.lustre_v1", "lustre", "Lustre"),
    ("cloudquotas.googleapis.com", "v1"): ("google.cloud.cloudquotas_v1", "cloud_quotas", "CloudQuotas"),
    ("cloudquotas.googleapis.com", "v1beta"): (
        "google.cloud.cloudquotas_v1beta",
        "cloud_quotas",
        "CloudQuotas",
    ),
}
# Packages whose clients send enums as integers to services that have a discovery document, which has no
# enum numbers.
_ENUM_PACKAGES = {
    ("container.googleapis.com", "v1"): "google.cloud.container_v1",
    ("container.googleapis.com", "v1beta1"): "google.cloud.container_v1beta1",
    ("serviceusage.googleapis.com", "v1"): "google.cloud.service_usage_v1",
    ("cloudresourcemanager.googleapis.com", "v3"): "google.cloud.resourcemanager_v3",
    ("cloudbilling.googleapis.com", "v1"): "google.cloud.billing_v1",
}
_STRING_FORMATS = {
    "google.protobuf.Timestamp": "google-datetime",
    "google.protobuf.Duration": "google-duration",
    "google.protobuf.FieldMask": "google-fieldmask",
}
_FREE_FORM_TYPES = (
    "google.protobuf.Struct",
    "google.protobuf.Any",
    "google.protobuf.Value",
    "google.rpc.Status",
)
_SCALAR_SCHEMAS: dict[int, JSON] = {  # google.protobuf.FieldDescriptor.TYPE_*
    1: {"type": "number", "format": "double"},
    2: {"type": "number", "format": "float"},
    3: {"type": "string", "format": "int64"},
    4: {"type": "string", "format": "uint64"},
    5: {"type": "integer", "format": "int32"},
    8: {"type": "boolean"},
    9: {"type": "string"},
    12: {"type": "string", "format": "byte"},
    13: {"type": "integer", "format": "uint32"},
}
_MIXINS: dict[str, tuple[str, JSON]] = {  # requests defined by google.api_core, not by the package
    "ListOperations": (
        "ListOperationsResponse",
        {
            "filter": {"type": "string"},
            "pageSize": {"type": "integer"},
            "pageToken": {"type": "string"},
            "returnPartialSuccess": {"type": "boolean"},
        },
    ),
    "ListLocations": (
        "ListLocationsResponse",
        {
            "filter": {"type": "string"},
            "pageSize": {"type": "integer"},
            "pageToken": {"type": "string"},
            "extraLocationTypes": {"type": "string", "repeated": True},
        },
    ),
    "GetOperation": ("Operation", {}),
    "CancelOperation": ("Empty", {}),
    "DeleteOperation": ("Empty", {}),
    "GetLocation": ("Location", {}),
    "GetIamPolicy": ("Policy", {"options.requestedPolicyVersion": {"type": "integer"}}),
    "SetIamPolicy": ("Policy", {}),
    "TestIamPermissions": ("TestIamPermissionsResponse", {}),
}
_COMMON_PARAMETERS: JSON = {
    name: {"type": "string"}
    for name in (
        "$.xgafv",
        "access_token",
        "alt",
        "callback",
        "fields",
        "key",
        "oauth_token",
        "prettyPrint",
        "quotaUser",
        "uploadType",
        "upload_protocol",
    )
}


def derive_document(service: str, version: str) -> JSON:
    """Derive the discovery document of a service in _PACKAGES."""
    package, module, name = _PACKAGES[service, version]
    types = importlib.import_module(package)
    base = getattr(
        importlib.import_module(f"{package}.services.{module}.transports.rest_base"),
        f"_Base{name}RestTransport",
    )
    schemas: dict[str, JSON] = {}
    methods: JSON = {}
    for attribute in sorted(vars(base)):
        if attribute.startswith("_Base"):
            for number, option in enumerate(getattr(base, attribute)._get_http_options()):
                spec = _method_spec(
                    service, types, attribute.removeprefix("_Base"), option, getattr(base, attribute), schemas
                )
                methods[f"{attribute}{number}"] = spec
    for known, properties in _WELL_KNOWN_SCHEMAS.items():
        schemas[known] = {"id": known, "type": "object", "properties": properties}
    return {"schemas": schemas, "methods": methods, "parameters": _COMMON_PARAMETERS}


def _method_spec(
    service: str, types: Any, rpc: str, option: JSON, base: Any, schemas: dict[str, JSON]
) -> JSON:
    path, patterns = _discovery_path(option["uri"])
    request = getattr(types, f"{rpc}Request", None)
    fields = {f.json_name: f for f in request.pb().DESCRIPTOR.fields} if request else {}
    body = option.get("body")
    required = getattr(base, f"_{base.__name__.lstrip('_')}__REQUIRED_FIELDS_DEFAULT_VALUES", {})
    parameters: JSON = {
        n: {"type": "string", "location": "path", "required": True, "pattern": p} for n, p in patterns.items()
    }
    for name, descriptor in fields.items():
        if body != "*" and descriptor.name != body and name not in parameters:
            parameters[name] = _field_schema(descriptor, schemas) | {
                "location": "query",
                "required": name in required,
            }
    for name, mixin in _MIXINS.get(rpc, ("", {}))[1].items():
        parameters[name] = mixin | {"location": "query"}
    spec: JSON = {
        "id": _method_id(service, option["uri"], rpc),
        "path": path,
        "httpMethod": option["method"].upper(),
        "parameters": parameters,
    }
    spec["flatPath"] = re.sub(r"\{\+[^}]*\}", lambda m: patterns[m.group()[2:-1]].strip("^$"), path).replace(
        "[^/]+", "X"
    )
    spec["response"] = {"$ref": _response_schema(types, rpc, schemas)}
    if body and request:
        message = (
            request.pb().DESCRIPTOR
            if body == "*"
            else next(f.message_type for f in fields.values() if f.name == body)
        )
        spec["request"] = {"$ref": _add_message(message, schemas)}
        spec["bodyAt"] = "" if body == "*" else body
    return spec


def _discovery_path(uri: str) -> tuple[str, dict[str, str]]:
    """Return the discovery path of a google.api.http template, and the pattern of each variable."""
    patterns: dict[str, str] = {}

    def variable(match: re.Match[str]) -> str:
        name, _, pattern = match.group(1).partition("=")
        name = name.rpartition(".")[2]  # discovery calls `instance.name` just `name`
        patterns[name] = "^" + (pattern or "*").replace("*", "[^/]+") + "$"
        return "{+" + name + "}"

    return re.sub(r"\{([^}]*)\}", variable, uri).removeprefix("/"), patterns


def _method_id(service: str, uri: str, rpc: str) -> str:
    """Return the discovery id of a method.

    The path's collections, then the verb (`lustre.projects.locations.instances.create`).
    """
    plain = re.sub(r"\{[^=}]*=?|\}", "", uri)
    path, _, verb = plain.partition(":")
    collections = [segment for segment in path.split("/")[2:] if segment != "*"]
    standard = {"Create": "create", "Get": "get", "List": "list", "Delete": "delete", "Update": "patch"}
    verb = verb or next((v for word, v in standard.items() if rpc.startswith(word)), rpc)
    return ".".join([service.split(".")[0], *collections, verb])


def _response_schema(types: Any, rpc: str, schemas: dict[str, JSON]) -> str:
    if rpc in _MIXINS:
        return _MIXINS[rpc][0]
    for name in (f"{rpc}Response", re.sub(r"^(Get|Create|Update)", "", rpc)):
        message = getattr(types, name, None)
        # The quota services respond with the resource; Lustre's writes respond with an operation.
        if message is not None and (rpc.startswith(("Get", "List")) or "quotas" in types.__name__):
            return _add_message(message.pb().DESCRIPTOR, schemas)
    return "Operation"


def _add_message(descriptor: Any, schemas: dict[str, JSON]) -> str:
    """Add a message and its nested types to `schemas`; return its name there."""
    name: str = descriptor.full_name.split(".", 4)[-1].replace(".", "")
    if name not in schemas:
        schemas[name] = {"id": name, "type": "object", "properties": {}}
        schemas[name]["properties"] |= {f.json_name: _field_schema(f, schemas) for f in descriptor.fields}
    return name


def _field_schema(field: Any, schemas: dict[str, JSON]) -> JSON:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {
            "type": "object",
            "additionalProperties": _element_schema(field.message_type.fields_by_name["value"], schemas),
        }
    single = _element_schema(field, schemas)
    return {"type": "array", "items": single} if _is_repeated(field) else single


def _is_repeated(field: Any) -> bool:
    known = getattr(field, "is_repeated", None)
    return bool(known) if known is not None else field.label == field.LABEL_REPEATED


def _element_schema(field: Any, schemas: dict[str, JSON]) -> JSON:
    if field.enum_type is not None:
        return {
            "type": "string",
            "enum": [v.name for v in field.enum_type.values],
            "enumNumbers": {v.number: v.name for v in field.enum_type.values},
        }
    if field.message_type is None:
        return dict(_SCALAR_SCHEMAS[field.type])
    full = field.message_type.full_name
    if full in _STRING_FORMATS:
        return {"type": "string", "format": _STRING_FORMATS[full]}
    if full in _FREE_FORM_TYPES:
        return {"type": "object", "additionalProperties": {"type": "any"}}
    wrapped = re.fullmatch(r"google\.protobuf\.(\w+)Value", full)
    if wrapped:
        return dict(_SCALAR_SCHEMAS[field.message_type.fields_by_name["value"].type])
    return {"$ref": _add_message(field.message_type, schemas)}


_STRING_SCHEMA: JSON = {"type": "string"}
_OBJECT_SCHEMA: JSON = {"type": "object", "additionalProperties": {"type": "any"}}
# The schemas of long-running operations, locations and policies in discovery's format.
_WELL_KNOWN_SCHEMAS: dict[str, JSON] = {
    "Empty": {},
    "Status": {
        "code": {"type": "integer"},
        "message": _STRING_SCHEMA,
        "details": {"type": "array", "items": _OBJECT_SCHEMA},
    },
    "Operation": {
        "name": _STRING_SCHEMA,
        "done": {"type": "boolean"},
        "metadata": _OBJECT_SCHEMA,
        "response": _OBJECT_SCHEMA,
        "error": {"$ref": "Status"},
    },
    "ListOperationsResponse": {
        "operations": {"type": "array", "items": {"$ref": "Operation"}},
        "nextPageToken": _STRING_SCHEMA,
        "unreachable": {"type": "array", "items": _STRING_SCHEMA},
    },
    "Location": {
        "name": _STRING_SCHEMA,
        "locationId": _STRING_SCHEMA,
        "displayName": _STRING_SCHEMA,
        "labels": _OBJECT_SCHEMA,
        "metadata": _OBJECT_SCHEMA,
    },
    "ListLocationsResponse": {
        "locations": {"type": "array", "items": {"$ref": "Location"}},
        "nextPageToken": _STRING_SCHEMA,
    },
    "Policy": {
        "version": {"type": "integer"},
        "etag": _STRING_SCHEMA,
        "bindings": {"type": "array", "items": _OBJECT_SCHEMA},
    },
    "TestIamPermissionsResponse": {"permissions": {"type": "array", "items": _STRING_SCHEMA}},
}


@cache
def enum_numbers(service: str, version: str) -> dict[tuple[str, ...], dict[int, str]]:
    """Return, for a package in _NUMBERED, the names of each enum (sorted) -> number -> name.

    Empty if the service has none.
    """
    package = _ENUM_PACKAGES.get((service, version))
    if package is None:
        return {}
    types = importlib.import_module(package)
    messages = [
        getattr(types, name).pb().DESCRIPTOR for name in types.__all__ if hasattr(getattr(types, name), "pb")
    ]
    enums = [f.enum_type for message in messages for f in _all_fields(message) if f.enum_type is not None]
    return {tuple(sorted(v.name for v in e.values)): {v.number: v.name for v in e.values} for e in enums}


def _all_fields(message: Any) -> Iterator[Any]:
    yield from message.fields
    for nested in message.nested_types:
        yield from _all_fields(nested)
