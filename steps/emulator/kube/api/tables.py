"""Tables: the columns of `kubectl get`, computed on the server as by the API server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds, selectors
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.api.schemas import read_asset

TABLE_MEDIA_TYPE = "as=Table"
Cell = Callable[[JSON], Any]
Column = tuple[str, str, int, Cell]  # name, type, priority (1 only with -o wide), value


def _path(path: str, empty: str = "<none>") -> Cell:
    return lambda obj: selectors.field_value(obj, path) or empty


def _count(path: str) -> Cell:
    def cell(obj: JSON) -> int:
        value: Any = obj
        for part in path.split("."):
            value = (value or {}).get(part)
        return len(value or ())

    return cell


def parse_seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def format_age(text: str, now: float) -> str:
    """Return `5s`, `3m12s`, `4h2m`, `3d`, as duration.HumanDuration does."""
    span = max(0, int(now - parse_seconds(text)))
    if span < 120:
        return f"{span}s"
    minutes, hours, days = span // 60, span // 3600, span // 86400
    if minutes < 10:
        return f"{minutes}m{span % 60}s" if span % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d{hours % 24}h" if days < 8 and hours % 24 else f"{days}d"


def pod_reason(pod: JSON) -> str:
    """Return the STATUS column: init progress, the waiting or terminated reason, Terminating, otherwise the phase."""
    state = pod.get("status", {})
    reason: str = state.get("reason") or state.get("phase", "")
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    inits = state.get("initContainerStatuses", ())
    for i, row in enumerate(inits):
        ended = row["state"].get("terminated")
        if ended and ended.get("exitCode") == 0:
            continue
        why = (ended or row["state"].get("waiting") or {}).get("reason")
        if why and why != "PodInitializing":
            return f"Init:{why}"
        return f"Init:{i}/{len(inits)}"
    for row in state.get("containerStatuses", ()):
        why = (row["state"].get("waiting") or row["state"].get("terminated") or {}).get("reason")
        if why:
            reason = why
    return reason


def _ready(pod: JSON) -> str:
    rows = pod.get("status", {}).get("containerStatuses", ())
    return f"{sum(1 for r in rows if r['ready'])}/{len(pod['spec']['containers'])}"


def _restarts(pod: JSON) -> str:
    state = pod.get("status", {})
    rows = (*state.get("initContainerStatuses", ()), *state.get("containerStatuses", ()))
    return str(sum(r["restartCount"] for r in rows))


def _node_status(node: JSON) -> str:
    ready = any(
        c["type"] == "Ready" and c["status"] == "True" for c in node.get("status", {}).get("conditions", ())
    )
    return ("Ready" if ready else "NotReady") + (
        ",SchedulingDisabled" if node["spec"].get("unschedulable") else ""
    )


def _address(kind: str) -> Cell:
    def cell(node: JSON) -> str:
        rows = node.get("status", {}).get("addresses", ())
        return next((row["address"] for row in rows if row["type"] == kind), "<none>")

    return cell


def _ports(service: JSON) -> str:
    return ",".join(f"{p['port']}/{p['protocol']}" for p in service["spec"].get("ports", ())) or "<none>"


def _selector(path: str) -> Cell:
    def cell(obj: JSON) -> str:
        value: Any = obj
        for part in path.split("."):
            value = (value or {}).get(part)
        return ",".join(f"{k}={v}" for k, v in (value or {}).items()) or "<none>"

    return cell


def _bound_claim(pv: JSON) -> str:
    ref = pv["spec"].get("claimRef")
    return f"{ref.get('namespace', '')}/{ref['name']}" if ref else ""


def _modes(path: str) -> Cell:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }

    def cell(obj: JSON) -> str:
        return ",".join(short.get(m, m) for m in obj[path.split(".")[0]].get("accessModes", ()))

    return cell


def _image_names(obj: JSON) -> str:
    return ",".join(c["image"] for c in obj["spec"]["template"]["spec"]["containers"])


def _container_names(obj: JSON) -> str:
    return ",".join(c["name"] for c in obj["spec"]["template"]["spec"]["containers"])


def _involved_object(event: JSON) -> str:
    about = event["involvedObject"]
    return f"{about['kind'].lower()}/{about.get('name', '')}"


def _integers(*pairs: tuple[str, str]) -> list[Column]:
    def cell(path: str) -> Cell:
        return lambda obj: int(selectors.field_value(obj, path) or 0)

    return [(name, "integer", 0, cell(path)) for name, path in pairs]


def _role(binding: JSON) -> str:
    return f"{binding['roleRef']['kind']}/{binding['roleRef']['name']}"


_CREATED: Column = ("Created At", "string", 0, _path("metadata.creationTimestamp"))  # instead of an age
_COLUMNS: dict[Kind, list[Column]] = {
    kinds.POD: [
        ("Ready", "string", 0, _ready),
        ("Status", "string", 0, pod_reason),
        ("Restarts", "string", 0, _restarts),
        ("Age", "date", 0, str),
        ("IP", "string", 1, _path("status.podIP")),
        ("Node", "string", 1, _path("spec.nodeName")),
        ("Nominated Node", "string", 1, _path("status.nominatedNodeName")),
        ("Readiness Gates", "string", 1, lambda o: "<none>"),
    ],
    kinds.NODE: [
        ("Status", "string", 0, _node_status),
        ("Roles", "string", 0, lambda o: "<none>"),
        ("Age", "date", 0, str),
        ("Version", "string", 0, _path("status.nodeInfo.kubeletVersion")),
        ("Internal-IP", "string", 1, _address("InternalIP")),
        ("External-IP", "string", 1, _address("ExternalIP")),
        ("OS-Image", "string", 1, _path("status.nodeInfo.osImage", "<unknown>")),
        ("Kernel-Version", "string", 1, _path("status.nodeInfo.kernelVersion", "<unknown>")),
        ("Container-Runtime", "string", 1, _path("status.nodeInfo.containerRuntimeVersion", "<unknown>")),
    ],
    kinds.NAMESPACE: [("Status", "string", 0, _path("status.phase"))],
    kinds.SERVICE: [
        ("Type", "string", 0, _path("spec.type")),
        ("Cluster-IP", "string", 0, _path("spec.clusterIP")),
        ("External-IP", "string", 0, lambda o: "<none>"),
        ("Port(s)", "string", 0, _ports),
        ("Age", "date", 0, str),
        ("Selector", "string", 1, _selector("spec.selector")),
    ],
    kinds.SECRET: [("Type", "string", 0, _path("type")), ("Data", "integer", 0, _count("data"))],
    kinds.CONFIG_MAP: [("Data", "integer", 0, _count("data"))],
    kinds.SERVICE_ACCOUNT: [("Secrets", "integer", 0, _count("secrets"))],
    kinds.PV: [
        ("Capacity", "string", 0, _path("spec.capacity.storage")),
        ("Access Modes", "string", 0, _modes("spec")),
        ("Reclaim Policy", "string", 0, _path("spec.persistentVolumeReclaimPolicy")),
        ("Status", "string", 0, _path("status.phase")),
        ("Claim", "string", 0, _bound_claim),
        ("StorageClass", "string", 0, _path("spec.storageClassName", "")),
        ("VolumeAttributesClass", "string", 0, _path("spec.volumeAttributesClassName", "<unset>")),
        ("Reason", "string", 0, _path("status.reason", "")),
        ("Age", "date", 0, str),
        ("VolumeMode", "string", 1, _path("spec.volumeMode")),
    ],
    kinds.PVC: [
        ("Status", "string", 0, _path("status.phase")),
        ("Volume", "string", 0, _path("spec.volumeName", "")),
        ("Capacity", "string", 0, _path("status.capacity.storage", "")),
        ("Access Modes", "string", 0, _modes("status")),
        ("StorageClass", "string", 0, _path("spec.storageClassName", "")),
        ("VolumeAttributesClass", "string", 0, _path("spec.volumeAttributesClassName", "<unset>")),
        ("Age", "date", 0, str),
        ("VolumeMode", "string", 1, _path("spec.volumeMode")),
    ],
    kinds.EVENT: [
        ("Last Seen", "string", 0, str),
        ("Type", "string", 0, _path("type")),
        ("Reason", "string", 0, _path("reason")),
        ("Object", "string", 0, _involved_object),
        ("Message", "string", 0, lambda o: o.get("message", "").strip()),
    ],
    kinds.DAEMON_SET: [
        *_integers(
            ("Desired", "status.desiredNumberScheduled"),
            ("Current", "status.currentNumberScheduled"),
            ("Ready", "status.numberReady"),
            ("Up-to-date", "status.updatedNumberScheduled"),
            ("Available", "status.numberAvailable"),
        ),
        ("Node Selector", "string", 0, _selector("spec.template.spec.nodeSelector")),
        ("Age", "date", 0, str),
        ("Containers", "string", 1, _container_names),
        ("Images", "string", 1, _image_names),
        ("Selector", "string", 1, _selector("spec.selector.matchLabels")),
    ],
    kinds.DEPLOYMENT: [
        ("Ready", "string", 0, lambda o: f"{o['status'].get('readyReplicas', 0)}/{o['spec']['replicas']}"),
        *_integers(("Up-to-date", "status.updatedReplicas"), ("Available", "status.availableReplicas")),
    ],
    kinds.REPLICA_SET: _integers(
        ("Desired", "spec.replicas"), ("Current", "status.replicas"), ("Ready", "status.readyReplicas")
    ),
    kinds.ROLE: [_CREATED],
    kinds.CLUSTER_ROLE: [_CREATED],
    kinds.CLUSTER_ROLE_BINDING: [("Role", "string", 0, _role)],
    kinds.ROLE_BINDING: [("Role", "string", 0, _role)],
    kinds.NETWORK_POLICY: [("Pod-Selector", "string", 0, _selector("spec.podSelector.matchLabels"))],
    kinds.STORAGE_CLASS: [
        ("Provisioner", "string", 0, _path("provisioner")),
        ("ReclaimPolicy", "string", 0, _path("reclaimPolicy")),
        ("VolumeBindingMode", "string", 0, _path("volumeBindingMode")),
        ("AllowVolumeExpansion", "boolean", 0, lambda o: bool(o.get("allowVolumeExpansion"))),
    ],
    kinds.NETWORK: [("Type", "string", 0, _path("spec.type"))],
    kinds.GKE_NETWORK_PARAM_SET: [
        ("VPC", "string", 0, _path("spec.vpc")),
        ("Mode", "string", 0, _path("spec.deviceMode")),
    ],
}


def _ray_columns() -> list[Column]:
    rows = read_asset("raycluster-v1.4.2.json.gz")["columns"]
    return [
        (
            c["name"],
            c["type"],
            c.get("priority", 0),
            str if c["type"] == "date" else _path(c["jsonPath"].lstrip("."), ""),
        )
        for c in rows
    ]


def columns(kind: Kind) -> list[Column]:
    """Return a kind's columns after NAME; AGE is added if the kind has none of its own."""
    found = _ray_columns() if kind is kinds.RAY_CLUSTER else list(_COLUMNS.get(kind, []))
    if kind is not kinds.EVENT and not any(c is _CREATED or c[1] == "date" for c in found):
        found.append(("Age", "date", 0, str))
    return found


def _value(column: Column, obj: JSON, now: float) -> Any:
    if column[1] == "date":
        return format_age(obj["metadata"]["creationTimestamp"], now)
    if column[0] == "Last Seen":
        return format_age(obj.get("lastTimestamp") or obj["metadata"]["creationTimestamp"], now)
    return column[3](obj)


def render(
    kind: Kind, objects: list[JSON], now: float, version: str, include: str, headers: bool = True
) -> JSON:
    """Return a metav1.Table. `include` is includeObject: None, Metadata (default) or Object."""
    found = columns(kind)
    rows = []
    for obj in objects:
        part: JSON = (
            obj
            if include == "Object"
            else {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            }
        )
        name = [] if kind is kinds.EVENT else [obj["metadata"]["name"]]
        rows.append(
            {
                "cells": [*name, *(_value(c, obj, now) for c in found)],
                **({} if include == "None" else {"object": part}),
            }
        )
    named: list[Column] = [] if kind is kinds.EVENT else [("Name", "string", 0, str)]
    definitions = [
        {
            "name": c[0][0].upper() + c[0][1:],
            "type": "string" if c[1] == "date" else c[1],
            "format": "name" if c[0] == "Name" else "",
            "description": "",
            "priority": c[2],
        }
        for c in (*named, *found)
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": definitions if headers else [],
        "rows": rows,
    }
