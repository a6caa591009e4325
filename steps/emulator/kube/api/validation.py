"""Validation of an object before it is stored: the schema first, then rules that a schema cannot express."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds, quantities, schemas, status
from grpo_wizard.steps.emulator.kube.api.kinds import Kind

Cause = tuple[str, str, str]
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
_NAME_HELP = {
    True: (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and "
        "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ),
    False: (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        "or '.', and must "
        "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    ),
}
_DNS_LABELS = (kinds.NAMESPACE, kinds.SERVICE)


def check_schema(kind: Kind, obj: JSON, strictness: str) -> tuple[JSON, list[str]]:
    """Return the object without unknown fields, and the warnings to send. Raises a 400 or 422 Status."""
    found = schemas.SchemaErrors()
    clean: JSON = schemas.validate(schemas.schema_of(kind), obj, "", found)
    notes = [f'unknown field "{path}"' for path in found.unknown_fields]
    if notes and strictness == "Strict":
        raise status.cannot_decode(kind, f"strict decoding error: {', '.join(notes)}")
    name = str((obj.get("metadata") or {}).get("name", ""))
    if found.wrong_types and not kind.is_custom:
        path, got, wanted = found.wrong_types[0]
        raise status.cannot_decode(
            kind, f"json: cannot unmarshal {got} into Go struct field {kind.kind}.{path} of type {wanted}"
        )
    causes = [
        (p, "FieldValueTypeInvalid", f'Invalid value: "{got}": {p} in body must be of type {wanted}: "{got}"')
        for p, got, wanted in found.wrong_types
    ]
    causes += [(p, "FieldValueRequired", "Required value") for p in found.missing_fields]
    causes += found.violated_rules
    if causes:
        raise status.invalid(kind, name, causes)
    if kind.is_custom:
        schemas.with_defaults(schemas.schema_of(kind), clean)
    return clean, notes if strictness == "Warn" else []


def check_rules(kind: Kind, obj: JSON, old: JSON | None) -> None:
    """Check names, labels, references inside the object and immutable fields. Raises 422."""
    causes = [*_meta(kind, obj["metadata"])]
    causes += [*_RULES[kind](obj)] if kind in _RULES else []
    causes += [*_immutable(kind, old, obj)] if old else []
    if causes:
        raise status.invalid(kind, str(obj["metadata"].get("name", "")), causes)


def _meta(kind: Kind, meta: JSON) -> Iterator[Cause]:
    name = meta.get("name") or ""
    if not name:
        yield "metadata.name", "FieldValueRequired", "Required value: name or generateName is required"
    elif kind.group != "rbac.authorization.k8s.io":
        short = kind in _DNS_LABELS
        if not (_LABEL if short else _SUBDOMAIN).match(name) or len(name) > (63 if short else 253):
            yield "metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {_NAME_HELP[short]}'
    for key, value in (meta.get("labels") or {}).items():
        if not _KEY.match(key) or not _VALUE.match(value) or len(value) > 63:
            yield (
                "metadata.labels",
                "FieldValueInvalid",
                (
                    f'Invalid value: "{value}": a valid label must be an empty string or consist '
                    "of alphanumeric "
                    "characters, '-', '_' or '.', and must start and end with an alphanumeric character"
                ),
            )


def _pod(obj: JSON) -> Iterator[Cause]:
    yield from pod_spec(obj["spec"], "spec")


def pod_spec(spec: JSON, path: str) -> Iterator[Cause]:
    """Check the rules of a PodSpec, in a pod or a template."""
    volumes = {v["name"] for v in spec.get("volumes", ())}
    seen: set[str] = set()
    if not spec.get("containers"):
        yield f"{path}.containers", "FieldValueRequired", "Required value"
    for group in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(group, ())):
            yield from _container(container, f"{path}.{group}[{i}]", volumes)
            if container["name"] in seen:
                yield (
                    f"{path}.{group}[{i}].name",
                    "FieldValueDuplicate",
                    f'Duplicate value: "{container["name"]}"',
                )
            seen.add(container["name"])


def _container(container: JSON, path: str, volumes: set[str]) -> Iterator[Cause]:
    if not container.get("image"):
        yield f"{path}.image", "FieldValueRequired", "Required value"
    if not _LABEL.match(container["name"]):
        yield f"{path}.name", "FieldValueInvalid", f'Invalid value: "{container["name"]}": {_NAME_HELP[True]}'
    paths: set[str] = set()
    for i, mount in enumerate(container.get("volumeMounts", ())):
        if mount["name"] not in volumes:
            yield f"{path}.volumeMounts[{i}].name", "FieldValueNotFound", f'Not found: "{mount["name"]}"'
        if mount["mountPath"] in paths:
            yield (
                f"{path}.volumeMounts[{i}].mountPath",
                "FieldValueInvalid",
                f'Invalid value: "{mount["mountPath"]}": must be unique',
            )
        paths.add(mount["mountPath"])
    yield from _resources(container.get("resources", {}), f"{path}.resources")


def _resources(wanted: JSON, path: str) -> Iterator[Cause]:
    amounts: dict[tuple[str, str], Any] = {}
    for section in ("limits", "requests"):
        for name, value in wanted.get(section, {}).items():
            try:
                amounts[section, name] = quantities.parse_quantity(value)
            except ValueError as error:
                yield f"{path}.{section}[{name}]", "FieldValueInvalid", f'Invalid value: "{value}": {error}'
    for (section, name), value in amounts.items():
        limit = amounts.get(("limits", name))
        if section == "requests" and limit is not None and value > limit:
            yield (
                f"{path}.requests",
                "FieldValueInvalid",
                (
                    f'Invalid value: "{wanted["requests"][name]}": must be less than or equal to '
                    f"{name} limit of "
                    f"{wanted['limits'][name]}"
                ),
            )


def _workload(obj: JSON) -> Iterator[Cause]:
    spec = obj["spec"]
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    wanted = spec.get("selector", {}).get("matchLabels") or {}
    if any(labels.get(k) != v for k, v in wanted.items()):
        yield (
            "spec.template.metadata.labels",
            "FieldValueInvalid",
            "Invalid value: `selector` does not match template `labels`",
        )
    yield from pod_spec(spec["template"]["spec"], "spec.template.spec")


def _data(obj: JSON) -> Iterator[Cause]:
    for key, value in (obj.get("data") or {}).items():
        if not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
            yield (
                f"data[{key}]",
                "FieldValueInvalid",
                f'Invalid value: "{key}": a valid config key must consist of '
                "alphanumeric characters, '-', '_' or '.'",
            )
        if obj.get("kind") == "Secret":
            try:
                base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                raise status.cannot_decode(kinds.SECRET, "illegal base64 data at input byte 0") from None


def _pv(obj: JSON) -> Iterator[Cause]:
    for key in ("capacity", "accessModes"):
        if not obj["spec"].get(key):
            yield f"spec.{key}", "FieldValueRequired", "Required value"


def _pvc(obj: JSON) -> Iterator[Cause]:
    if not obj["spec"].get("accessModes"):
        yield "spec.accessModes", "FieldValueRequired", "Required value: at least 1 access mode is required"
    if "storage" not in obj["spec"].get("resources", {}).get("requests", {}):
        yield "spec.resources[storage]", "FieldValueRequired", "Required value"


def _immutable(kind: Kind, old: JSON, new: JSON) -> Iterator[Cause]:
    for path in _IMMUTABLE_FIELDS.get(kind, ()):
        was, now = _at(old, path), _at(new, path)
        if was is not None and was != now:
            yield path, "FieldValueInvalid", f"Invalid value: {now!r}: field is immutable"
    if kind is kinds.POD and _pod_core(old["spec"]) != _pod_core(new["spec"]):
        yield (
            "spec",
            "FieldValueForbidden",
            (
                "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
                "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
                "(only additions to "
                "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
                "to 1 if it was "
                "previously negative)"
            ),
        )
    if kind is kinds.PVC and {**old["spec"], "resources": 0, "volumeName": 0} != {
        **new["spec"],
        "resources": 0,
        "volumeName": 0,
    }:
        yield (
            "spec",
            "FieldValueForbidden",
            (
                "Forbidden: spec is immutable after creation except resources.requests "
                "and volumeAttributesClassName for bound claims"
            ),
        )


def _pod_core(spec: JSON) -> JSON:
    loose = {k: v for k, v in spec.items() if k not in ("tolerations", "nodeName", "activeDeadlineSeconds")}
    for group in ("containers", "initContainers"):
        loose[group] = [{**c, "image": ""} for c in spec.get(group, ())]
    return loose


def _at(obj: JSON, path: str) -> Any:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


_IMMUTABLE_FIELDS = {
    kinds.DAEMON_SET: ("spec.selector",),
    kinds.DEPLOYMENT: ("spec.selector",),
    kinds.PV: ("spec.csi", "spec.volumeMode"),
    kinds.ROLE_BINDING: ("roleRef",),
    kinds.CLUSTER_ROLE_BINDING: ("roleRef",),
    kinds.STORAGE_CLASS: ("provisioner", "parameters"),
    kinds.SECRET: ("type",),
    kinds.SERVICE: ("spec.clusterIP",),
    kinds.GKE_NETWORK_PARAM_SET: ("spec.vpc", "spec.vpcSubnet"),
}
_RULES = {
    kinds.POD: _pod,
    kinds.DAEMON_SET: _workload,
    kinds.DEPLOYMENT: _workload,
    kinds.REPLICA_SET: _workload,
    kinds.SECRET: _data,
    kinds.CONFIG_MAP: _data,
    kinds.PV: _pv,
    kinds.PVC: _pvc,
}
