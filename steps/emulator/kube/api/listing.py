"""The cluster's objects as rows of /_rehearsal/world, and request bodies without secrets."""

from __future__ import annotations

from typing import Any

import msgspec

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import daemonsets

# The names of the kinds that the wizard creates; others are listed by their kind in lower case.
_KIND_NAMES = {
    kinds.DAEMON_SET: "daemonset",
    kinds.GKE_NETWORK_PARAM_SET: "network_params",
    kinds.NETWORK: "device_network",
    kinds.PV: "pv",
    kinds.PVC: "pvc",
    kinds.SECRET: "secret",
    kinds.CONFIG_MAP: "configmap",
    kinds.SERVICE_ACCOUNT: "service_account",
    kinds.ROLE: "role",
    kinds.ROLE_BINDING: "role_binding",
    kinds.NETWORK_POLICY: "network_policy",
    kinds.RAY_CLUSTER: "raycluster",
}
_SYSTEM_NAMESPACES = (
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "gmp-system",
    "gke-managed-system",
    "default",
)
_UNLISTED_KINDS = (kinds.EVENT, kinds.LEASE, kinds.CRD, kinds.PRIORITY_CLASS)


def _is_derived(kind: Kind, obj: JSON) -> bool:
    meta = obj["metadata"]
    return bool(
        meta.get("ownerReferences")
        or kind in (kinds.NODE, kinds.ENDPOINTS)
        or (meta.get("labels") or {}).get("addonmanager.kubernetes.io/mode")
        or (kind is kinds.SERVICE_ACCOUNT and meta["name"] == "default")
        or (kind is kinds.CONFIG_MAP and meta["name"] == "kube-root-ca.crt")
        or (kind is kinds.NAMESPACE and meta["name"] in _SYSTEM_NAMESPACES)
    )


def state(kind: Kind, obj: JSON) -> str:
    """Return creating, ready, failed or deleting."""
    current = obj.get("status") or {}
    if "deletionTimestamp" in obj["metadata"]:
        return "deleting"
    if kind is kinds.POD:
        if current.get("phase") == "Failed":
            return "failed"
        return "ready" if daemonsets.is_ready(obj) else "creating"
    if kind in (kinds.PV, kinds.PVC):
        phase = current.get("phase")
        return "failed" if phase in ("Lost", "Failed") else "creating" if phase == "Pending" else "ready"
    if kind is kinds.RAY_CLUSTER:
        up = current.get("readyWorkerReplicas", 0) >= current.get("desiredWorkerReplicas", 1)
        head = any(
            c["type"] == "HeadPodReady" and c["status"] == "True" for c in current.get("conditions", ())
        )
        return "ready" if up and head else "creating"
    if kind is kinds.DAEMON_SET:
        return (
            "ready"
            if current.get("numberReady", 0) >= current.get("desiredNumberScheduled", 1)
            else "creating"
        )
    return "ready"


def rows(kube: ClusterContext) -> list[JSON]:
    """Return one row per object, without events; objects that a cluster creates itself are marked derived or left out."""
    found = []
    for kind, obj in kube.store.all_objects():
        if kind in _UNLISTED_KINDS:
            continue
        meta = obj["metadata"]
        spec = {
            k: v
            for k, v in mask_secrets(obj).items()
            if k not in ("apiVersion", "kind", "metadata", "status")
        }
        found.append(
            {
                "service": "kubernetes",
                "kind": _KIND_NAMES.get(kind, kind.kind.lower()),
                "name": meta["name"],
                "project": kube.project,
                "location": kube.location,
                "cluster": kube.name,
                "namespace": meta.get("namespace", ""),
                "labels": meta.get("labels") or {},
                "spec": spec,
                "state": state(kind, obj),
                "kept_by_design": False,
                "derived": _is_derived(kind, obj),
            }
        )
    return found


def count(kube: ClusterContext) -> int:
    """Return the number of rows."""
    return sum(kube.store.count(kind) for kind in kube.store.kinds if kind not in _UNLISTED_KINDS)


def mask_secrets(body: Any) -> Any:
    """Mask the Secret data of a request body or an object."""
    if isinstance(body, bytes):
        try:
            body = msgspec.json.decode(body) if body else None
        except msgspec.DecodeError:
            return "(not JSON)"
    if isinstance(body, dict) and (body.get("kind") == "Secret" or "stringData" in body):
        hidden = {k: dict.fromkeys(body[k] or {}, "***") for k in ("data", "stringData") if k in body}
        return {**body, **hidden}
    return body
