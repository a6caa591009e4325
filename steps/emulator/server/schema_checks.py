"""Validate requests and responses against a document's schemas: unknown fields, types, missing parameters, enums.

Error texts follow protobuf's JSON reader (proto_writer.cc), which every Google API uses, and Compute's own.
Stricter than Google in two cases, as the documents are: a single value in place of a list, and "true" in
place of true, are rejected.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from grpo_wizard.steps.emulator.context import ApiError
from grpo_wizard.steps.emulator.server.discovery_documents import Document, Method

JSON = dict[str, Any]
_COMPUTE = "compute.googleapis.com"
_SYSTEM_PARAMETERS = {
    "$alt",
    "$.xgafv",
    "$prettyPrint",
    "$fields",
    "$callback",
    "$userProject",
    "userProject",
    "$httpHeaders",
    "$req",
}
_INTEGER_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


_SCALAR_TYPES = {"string", "integer", "number", "boolean"}
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_DURATION = re.compile(r"-?\d+(\.\d{1,9})?s")


def to_snake_case(name: str) -> str:
    """`initialNodeCount` -> `initial_node_count`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def to_camel_case(name: str) -> str:
    """`initial_node_count` -> `initialNodeCount`."""
    return re.sub(r"_([a-z0-9])", lambda m: m.group(1).upper(), name)


class _SchemaValidator:
    """Validates one value; `found` collects (field, text) of every violation."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.violations: list[tuple[str, str]] = []

    def validate_value(self, schema: JSON, value: Any, at: str, name: str = "") -> Any:
        """Return a value in its normal form; `name` is its field's name as the caller spelled it."""
        if isinstance(value, list | dict) and not self._check_shape(schema, value, at, name):
            return None
        if "$ref" in schema:
            return self.validate_message(self.document.schemas.get(schema["$ref"], {}), value, at)
        if "enum" in schema and schema.get("type") == "string":
            return self._enum(schema, value, at)
        check: Callable[[JSON, Any, str], Any] | None = getattr(self, f"_{schema.get('type', 'any')}", None)
        return check(schema, value, at) if check else value

    def _check_shape(self, schema: JSON, value: Any, at: str, spelt: str) -> bool:
        """Check whether a list or an object is allowed; add a violation if not."""
        parent, _, name = at.rpartition(".")
        name = re.sub(r"\[\d+\]$", "", name)
        if isinstance(value, list) and schema.get("type") not in ("array", "any"):
            if "additionalProperties" in schema:
                why = f"Cannot bind a list to map for field '{spelt}'."
                self._report(parent, f"Invalid value{_location_suffix(parent)} (Map), {why}")
            else:
                self._report(
                    parent, _unknown_field(spelt, parent, "Proto field is not repeating, cannot start list.")
                )
            return False
        if isinstance(value, dict) and schema.get("type") in _SCALAR_TYPES:
            self._report(
                parent,
                f"Invalid value{_location_suffix(parent)} ({name}), Starting an object on a scalar field",
            )
            return False
        return True

    def validate_message(self, schema: JSON, value: Any, at: str) -> Any:
        properties = schema.get("properties")
        if properties is None:
            return self._object(schema, value, at)
        if not isinstance(value, dict):
            return self._report_invalid(at, f"type.googleapis.com/{schema.get('id', 'Message')}", value)
        clean: JSON = {}
        for name, item in value.items():
            known = name if name in properties else to_camel_case(name)
            if known not in properties:
                self._report(at, _unknown_field(name, at, "Cannot find field."))
            elif item is not None:  # proto JSON: null means absent
                clean[known] = self.validate_value(
                    properties[known], item, f"{at}.{to_snake_case(known)}".lstrip("."), name
                )
        return clean

    def _object(self, schema: JSON, value: Any, at: str) -> Any:
        if "properties" in schema:
            return self.validate_message(schema, value, at)
        if not isinstance(value, dict):
            return self._report_invalid(at, "Map", value)
        inner = schema.get("additionalProperties", {})
        return {key: self.validate_value(inner, item, f'{at}["{key}"]') for key, item in value.items()}

    def _array(self, schema: JSON, value: Any, at: str) -> Any:
        if not isinstance(value, list):
            return self._report_invalid(at, "List", value)
        return [
            self.validate_value(schema.get("items", {}), item, f"{at}[{i}]") for i, item in enumerate(value)
        ]

    def _string(self, schema: JSON, value: Any, at: str) -> Any:
        form = schema.get("format", "")
        if form in _INTEGER_RANGES:
            number = self._parse_integer(form, value, at)
            return str(number) if number is not None else None
        if not isinstance(value, str):
            return self._report_invalid(at, {"byte": "TYPE_BYTES"}.get(form, "TYPE_STRING"), value)
        return self._check_format(form, value, at)

    def _check_format(self, form: str, value: str, at: str) -> Any:
        field = f"Field '{at.rpartition('.')[2]}'"
        if form == "byte" and not _is_base64(value):
            self._report(
                at, f'Invalid value{_location_suffix(at)} (TYPE_BYTES), Base64 decoding failed for "{value}"'
            )
        elif form == "google-datetime" and not _TIMESTAMP.fullmatch(value):
            why = "Illegal timestamp format; timestamps must end with 'Z' or have a valid timezone offset."
            self._report(
                at,
                f"Invalid value{_location_suffix(at)} (type.googleapis.com/google.protobuf.Timestamp), {field}, {why}",
            )
        elif form == "google-duration" and not _DURATION.fullmatch(value):
            why = "Illegal duration format; duration must end with 's'"
            self._report(
                at,
                f"Invalid value{_location_suffix(at)} (type.googleapis.com/google.protobuf.Duration), {field}, {why}",
            )
        return value

    def _integer(self, schema: JSON, value: Any, at: str) -> Any:
        return self._parse_integer(schema.get("format", "int32"), value, at)

    def _parse_integer(self, form: str, value: Any, at: str) -> int | None:
        low, high = _INTEGER_RANGES.get(form, _INTEGER_RANGES["int64"])
        try:
            # A float cannot hold Compute's 64-bit ids: only values sent as numbers are compared as numbers.
            whole = isinstance(value, str) or float(value) == int(value)
            number = int(value) if whole and not isinstance(value, bool) else None
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or not low <= number <= high:
            self._report_invalid(at, f"TYPE_{form.upper()}", value)
            return None
        return number

    def _number(self, schema: JSON, value: Any, at: str) -> Any:
        try:
            return (
                float(value)
                if not isinstance(value, bool)
                else self._report_invalid(at, "TYPE_DOUBLE", value)
            )
        except (TypeError, ValueError):
            return self._report_invalid(at, "TYPE_DOUBLE", value)

    def _boolean(self, schema: JSON, value: Any, at: str) -> Any:
        return value if isinstance(value, bool) else self._report_invalid(at, "TYPE_BOOL", value)

    def _enum(self, schema: JSON, value: Any, at: str) -> Any:
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            value = self._enum_numbers(schema).get(value, value)
        if value not in schema["enum"]:
            return self._report_invalid(at, "TYPE_ENUM", value)
        return value

    def _enum_numbers(self, schema: JSON) -> Mapping[int, str]:
        if "enumNumbers" in schema:
            numbered: Mapping[int, str] = schema["enumNumbers"]
            return numbered
        from grpo_wizard.steps.emulator.server.proto_documents import enum_numbers

        known = enum_numbers(self.document.service, self.document.prefix)
        names = set(schema["enum"])
        # The document and the package have different dates: the best match is the enum that shares most
        # names.
        best = max(known, key=lambda other: (len(names & set(other)), -len(other)), default=())
        return known.get(best, {}) if len(names & set(best)) * 2 > len(names) else {}

    def _report(self, at: str, message: str) -> None:
        self.violations.append((at, message))

    def _report_invalid(self, at: str, kind: str, value: Any) -> None:
        shown = (
            f'"{value}"'
            if isinstance(value, str)
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )
        self._report(at, f"Invalid value{_location_suffix(at)} ({kind}), {shown}")


def _location_suffix(parent: str) -> str:
    return f" at '{parent}'" if parent else ""


def _unknown_field(name: object, parent: str, why: str) -> str:
    return f'Invalid JSON payload received. Unknown name "{name}"{_location_suffix(parent)}: {why}'


def _is_base64(text: str) -> bool:
    plain = text.translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        return False
    return True


def bad_request(found: list[tuple[str, str]]) -> ApiError:
    """Return 400 INVALID_ARGUMENT with one field violation per finding."""
    violations = [{"field": at, "description": text} if at else {"description": text} for at, text in found]
    detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}
    return ApiError(400, "\n".join(text for _, text in found), "INVALID_ARGUMENT", "badRequest", [detail])


def check_body(document: Document, method: Method, body: Any) -> JSON:
    """Return the body in camelCase, with enums by name and int64 as strings.

    Raises ApiError 400, which names every invalid field.
    """
    if body is not None and not isinstance(body, dict):
        raise bad_request([("", _unknown_field("", "", "Root element must be a message."))])
    if method.request is None:
        if body:
            raise bad_request([("", _unknown_field(name, "", "Cannot find field.")) for name in body])
        return {}
    # gcloud lists a group's instances with {}: a message of options may be empty, a resource may not.
    options = body is not None and method.request.endswith("Request")
    if not body and not options and document.service == _COMPUTE:
        raise ApiError(400, "Required field 'resource' not specified", "INVALID_ARGUMENT", "required")
    checker = _SchemaValidator(document)
    schema = document.schemas.get(method.request, {})
    clean: JSON = checker.validate_message(schema, body if body is not None else {}, method.body_path) or {}
    if checker.violations:
        raise bad_request(checker.violations)
    for name, spec in schema.get("properties", {}).items():
        if method.id in spec.get("annotations", {}).get("required", []) and name not in clean:
            raise _missing_field(document, name, spec)
    return clean


def _missing_field(document: Document, name: str, spec: JSON) -> ApiError:
    if document.service != _COMPUTE or "pattern" not in spec:
        return bad_request([(name, f"Required field '{name}' not specified")])
    text = f"Invalid value for field 'resource.{name}': ''. Must be a match of regex '(?:{spec['pattern']})'"
    return ApiError(400, text, "INVALID_ARGUMENT", "invalid")


def check_path(document: Document, method: Method, params: Mapping[str, str]) -> None:
    """Raise Compute's ApiError 400 for a path parameter that does not match its document's pattern."""
    for name, value in params.items():
        pattern = method.parameters.get(name, {}).get("pattern")
        if document.service == _COMPUTE and pattern and not re.fullmatch(pattern, value):
            text = f"Invalid value for field '{name}': '{value}'. Must be a match of regex '{pattern}'"
            raise ApiError(400, text, "INVALID_ARGUMENT", "invalid")


def check_query(document: Document, method: Method, query: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the query parameters with the document's types.

    Raises ApiError 400 for unknown, invalid and missing ones.
    """
    checker = _SchemaValidator(document)
    typed: dict[str, Any] = {}
    for name, values in query.items():
        known = name if name in method.parameters else to_camel_case(name)
        if known in method.parameters:
            typed[known] = _parse_parameter(checker, method.parameters[known], values, to_snake_case(known))
        elif name not in document.common_parameters and name not in _SYSTEM_PARAMETERS:
            checker.violations.append(
                (
                    "",
                    f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
                    f"Field '{name}' could not be found in request message.",
                )
            )
    for name, spec in method.parameters.items():
        if spec.get("location") == "query" and spec.get("required") and not typed.get(name):
            checker.violations.append((name, f"Required field '{name}' not specified"))
    if checker.violations:
        raise bad_request(checker.violations)
    return typed


def _parse_parameter(checker: _SchemaValidator, spec: JSON, values: list[str], at: str) -> Any:
    if spec.get("repeated"):
        return [
            _parse_parameter(checker, {k: v for k, v in spec.items() if k != "repeated"}, [value], at)
            for value in values
        ]
    if spec.get("type") == "array":
        return [_parse_parameter(checker, spec["items"], [value], at) for value in values]
    value: Any = values[-1]
    if spec.get("type") == "boolean":
        value = {"true": True, "false": False}.get(value.lower(), value)
    if "enum" in spec and value.isdigit():
        value = int(value)
    return checker.validate_value(spec, value, at)


def drop_unknown_fields(document: Document, message: str | None, body: JSON) -> JSON:
    """Remove the fields that a version of the API does not have (`imageSpaceGb` of v1 in beta, `folderMap` of beta in v1)."""
    if message not in document.schemas:
        return body
    kept: JSON = _SchemaValidator(document).validate_message(document.schemas[message], body, "")
    return kept


def response_violations(document: Document, method: Method, answer: Any) -> list[str]:
    """Return where a response violates its schema (tests let the server check itself)."""
    if method.response is None:
        return []
    checker = _SchemaValidator(document)
    checker.validate_message(document.schemas.get(method.response, {}), answer, "")
    return [text for _, text in checker.violations]
