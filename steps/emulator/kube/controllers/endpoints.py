"""Endpoints of services, mounted files of running heads, ServiceAccounts of namespaces."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import daemonsets
from grpo_wizard.steps.emulator.kube.node import mounts, sidecars


def reconcile(kube: ClusterContext) -> None:
    for namespace in kube.store.list(kinds.NAMESPACE):
        if namespace["status"].get("phase") == "Active":
            _ensure_service_account(kube, namespace["metadata"]["name"])
    pods = kube.store.list(kinds.POD)
    for service in kube.store.list(kinds.SERVICE):
        if service["spec"].get("selector"):
            _service(kube, service, pods)
    _refresh_mounted_files(kube, pods)


def _ensure_service_account(kube: ClusterContext, namespace: str) -> None:
    """Ensure that every namespace has its default ServiceAccount and the cluster's CA."""
    if kube.store.find(kinds.SERVICE_ACCOUNT, namespace, "default") is None:
        kube.store.create(
            kinds.SERVICE_ACCOUNT,
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": namespace},
            },
        )
    if kube.store.find(kinds.CONFIG_MAP, namespace, "kube-root-ca.crt") is None:
        ca = kube.ca_path.read_text() if kube.ca_path.exists() else ""
        kube.store.create(
            kinds.CONFIG_MAP,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "data": {"ca.crt": ca},
                "metadata": {"name": "kube-root-ca.crt", "namespace": namespace},
            },
        )


def _service(kube: ClusterContext, service: JSON, pods: list[JSON]) -> None:
    meta, wanted = service["metadata"], service["spec"]["selector"].items()
    selected = [
        p
        for p in pods
        if p["metadata"]["namespace"] == meta["namespace"]
        and p["status"].get("podIP")
        and wanted <= (p["metadata"].get("labels") or {}).items()
    ]
    groups = {
        key: [
            {
                "ip": p["status"]["podIP"],
                "nodeName": p["spec"].get("nodeName"),
                "targetRef": {
                    "kind": "Pod",
                    "namespace": meta["namespace"],
                    "name": p["metadata"]["name"],
                    "uid": p["metadata"]["uid"],
                },
            }
            for p in selected
            if daemonsets.is_ready(p) == up
        ]
        for key, up in (("addresses", True), ("notReadyAddresses", False))
    }
    ports = [
        {"name": p.get("name", ""), "port": p["targetPort"], "protocol": p["protocol"]}
        for p in service["spec"].get("ports", ())
        if isinstance(p["targetPort"], int)
    ]
    filled = {k: v for k, v in groups.items() if v}
    subsets = [{**filled, "ports": ports}] if filled else []
    old = kube.store.find(kinds.ENDPOINTS, meta["namespace"], meta["name"])
    if old is None:
        kube.store.create(
            kinds.ENDPOINTS,
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "subsets": subsets,
                "metadata": {
                    "name": meta["name"],
                    "namespace": meta["namespace"],
                    "labels": dict(meta.get("labels") or {}),
                    "ownerReferences": [daemonsets.owner_reference(kinds.SERVICE, service)],
                },
            },
        )
    elif old.get("subsets", []) != subsets:
        kube.edit_object(kinds.ENDPOINTS, old, lambda e: e.update(subsets=subsets))


def _refresh_mounted_files(kube: ClusterContext, pods: list[JSON]) -> None:
    """Rewrite changed Secrets and ConfigMaps where one of our processes reads them."""
    versions = kube.controller_state_for("files")
    for pod in pods:
        if sidecars.is_head(pod) and mounts.pod_folder(kube, pod).exists():
            seen = mounts.data_versions(kube, pod)
            if versions.get(pod["metadata"]["uid"]) != seen:
                versions[pod["metadata"]["uid"]] = seen
                for container in pod["spec"]["containers"]:
                    mounts.mounts(kube, pod, container)
