"""Decode Protobuf bodies to JSON: kubectl ≥ 1.33 sends built-in kinds in this format.

The table of field numbers is data, with its source in the file. Go writes every non-pointer field, empty ones
included, so empty values are dropped again, except where zero is meaningful.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api.schemas import read_asset

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_INLINE = {
    "volumeSource",
    "persistentVolumeSource",
    "localObjectReference",
    "handler",
    "ephemeralContainerCommon",
}
_EMPTY = {"status", "resources", "strategy", "updateStrategy", "creationTimestamp", "metadata", "spec"}
# Pointers in Kubernetes' Go types, where zero is a value.
_ZERO = {
    "replicas",
    "automountServiceAccountToken",
    "optional",
    "gracePeriodSeconds",
    "terminationGracePeriodSeconds",
    "defaultMode",
    "runAsUser",
    "runAsGroup",
    "fsGroup",
    "allowPrivilegeEscalation",
    "minReadySeconds",
    "enableServiceLinks",
    "allowVolumeExpansion",
    "immutable",
    "privileged",
    "readOnlyRootFilesystem",
    "controller",
    "blockOwnerDeletion",
    "tolerationSeconds",
    "orphanDependents",
    "priority",
    "mode",
    "intVal",
}
_PACKAGES = {
    "v1": "core.v1",
    "rbac.authorization.k8s.io/v1": "rbac.v1",
    "networking.k8s.io/v1": "networking.v1",
    "storage.k8s.io/v1": "storage.v1",
    "authorization.k8s.io/v1": "authorization.v1",
    "authentication.k8s.io/v1": "authentication.v1",
    "coordination.k8s.io/v1": "coordination.v1",
    "scheduling.k8s.io/v1": "scheduling.v1",
}


@cache
def _messages() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = read_asset("k8s_proto_fields.json.gz")["messages"]
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and raw value of each field: an int, or bytes for length-delimited ones."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire_type = tag & 7
        if wire_type == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif wire_type == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("protobuf field reaches beyond its message")
            yield tag >> 3, data[at : at + size]
            at += size
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
            yield tag >> 3, struct.unpack_from("<d" if wire_type == 1 else "<f", data, at)[0]
            at += size
        else:
            raise ValueError(f"unknown wire type {wire_type}")


def decode(body: bytes) -> JSON:
    """Decode a whole request body with its `k8s` envelope.

    Raises ValueError if it has none or is of an unknown kind.
    """
    if not body.startswith(_MAGIC):
        raise ValueError("no k8s protobuf envelope")
    try:
        parts = dict(_fields(body[4:]))
        meta = {number: value.decode() for number, value in _fields(parts[1])}
        version, kind = meta.get(1, ""), meta.get(2, "")
        return {
            "apiVersion": version,
            "kind": kind,
            **_message(message_name(version, kind), parts.get(2, b"")),
        }
    except (IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"broken protobuf: {error!r}") from error


def message_name(version: str, kind: str) -> str:
    """Return the message of an apiVersion and kind."""
    if kind == "DeleteOptions":
        return "meta.v1.DeleteOptions"
    name = f"{_PACKAGES.get(version, version.replace('/', '.'))}.{kind}"
    if name not in _messages():
        raise ValueError(f"unknown kind {version} {kind}")
    return name


def _message(name: str, data: bytes) -> Any:
    special = _SPECIAL_DECODERS.get(name)
    if special:
        return special(data)
    table, found = _messages().get(name, {}), dict[str, Any]()
    for number, raw in _fields(data):
        if str(number) not in table:
            continue
        field, field_type, label = table[str(number)]
        if label == "m":
            entry = dict(_fields(raw))
            found.setdefault(field, {})[entry.get(1, b"").decode()] = _value(field_type, entry.get(2, b""))
        elif label == "r":
            found.setdefault(field, []).append(_value(field_type, raw))
        elif field in _INLINE:
            found.update(_value(field_type, raw))
        else:
            value = _value(field_type, raw)
            if _is_set(field, value):
                found[field] = value
    return found


def _is_set(field: str, value: Any) -> bool:
    if value in ("", None) or (value == {} and field in _EMPTY):
        return False
    return bool(value != 0 or isinstance(value, (dict, list)) or field in _ZERO)


def _value(field_type: str, raw: Any) -> Any:
    if field_type == "string":
        return raw.decode()
    if field_type == "bytes":
        return base64.b64encode(raw).decode()
    if field_type == "bool":
        return bool(raw)
    if "." not in field_type:
        return raw - (1 << 64) if isinstance(raw, int) and raw >= 1 << 63 else raw
    return _message(field_type, raw)


def _time(data: bytes) -> str | None:
    seconds = dict(_fields(data)).get(1)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _int_or_string(data: bytes) -> Any:
    parts = dict(_fields(data))
    return parts.get(3, b"").decode() if parts.get(1) else parts.get(2, 0)


def _quantity(data: bytes) -> str:
    return str(dict(_fields(data)).get(1, b"").decode())


_SPECIAL_DECODERS = {
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _time,
    "intstr.IntOrString": _int_or_string,
    "resource.Quantity": _quantity,
}
