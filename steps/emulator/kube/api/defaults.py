"""The defaults that the API server sets, as far as clients read them back."""

from __future__ import annotations

import base64
import random
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.kinds import Kind

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"  # apimachinery's alphabet for generated names


def random_suffix(length: int) -> str:
    return "".join(random.choice(_SUFFIX) for _ in range(length))


def set_defaults(kind: Kind, obj: JSON) -> None:
    """Set an object's defaults in place, before it is stored."""
    meta = obj["metadata"]
    if meta.get("generateName") and not meta.get("name"):
        meta["name"] = meta["generateName"] + random_suffix(5)
    filler = _DEFAULTERS.get(kind)
    if filler:
        filler(obj)


def _namespace(obj: JSON) -> None:
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")


def _secret(obj: JSON) -> None:
    obj.setdefault("type", "Opaque")
    for key, text in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(str(text).encode()).decode()


def set_pod_spec_defaults(spec: JSON) -> None:
    """Set a PodSpec's defaults, in pods and in templates."""
    for key, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
    ):
        spec.setdefault(key, value)
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        _container(container)
    for volume in spec.get("volumes", ()):
        for source in ("secret", "configMap", "projected", "downwardAPI"):
            if source in volume:
                volume[source].setdefault("defaultMode", 420)
        if "hostPath" in volume:
            volume["hostPath"].setdefault("type", "")


def _container(container: JSON) -> None:
    image = str(container.get("image", ""))
    floating = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if floating else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    wanted: JSON = container.setdefault("resources", {})
    for key, value in wanted.get("limits", {}).items():
        wanted.setdefault("requests", {}).setdefault(key, value)
    for section in ("limits", "requests"):
        if section in wanted:
            wanted[section] = {k: str(v) for k, v in wanted[section].items()}
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for env in container.get("env", ()):
        ref = env.get("valueFrom", {}).get("fieldRef")
        if ref:
            ref.setdefault("apiVersion", "v1")


def _pod(obj: JSON) -> None:
    spec = obj["spec"]
    set_pod_spec_defaults(spec)
    spec.setdefault("serviceAccountName", spec.pop("serviceAccount", None) or "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 2000001000 if spec.get("priorityClassName") == "system-node-critical" else 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("tolerations", [])
    for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(t.get("key") in (taint, None) for t in spec["tolerations"]):
            spec["tolerations"].append(
                {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )
    if spec.get("automountServiceAccountToken") is not False:
        _api_access(spec)
    obj["status"] = {"phase": "Pending", "qosClass": _qos(spec)}


def _api_access(spec: JSON) -> None:
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    if any(m.get("mountPath") == path for c in spec["containers"] for m in c.get("volumeMounts", ())):
        return
    name = f"kube-api-access-{random_suffix(5)}"
    sources: list[Any] = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                ]
            }
        },
    ]
    spec.setdefault("volumes", []).append(
        {"name": name, "projected": {"sources": sources, "defaultMode": 420}}
    )
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container.setdefault("volumeMounts", []).append({"name": name, "readOnly": True, "mountPath": path})


def _qos(spec: JSON) -> str:
    wanted = [c.get("resources", {}) for c in spec["containers"]]
    if not any(w.get("requests") or w.get("limits") for w in wanted):
        return "BestEffort"
    full = all(
        {"cpu", "memory"} <= set(w.get("limits", {})) and w.get("limits") == w.get("requests") for w in wanted
    )
    return "Guaranteed" if full else "Burstable"


def _template(obj: JSON) -> None:
    spec = obj["spec"]
    set_pod_spec_defaults(spec["template"]["spec"])
    spec.setdefault("revisionHistoryLimit", 10)
    obj.setdefault("status", {})


def _daemon_set(obj: JSON) -> None:
    _template(obj)
    strategy = obj["spec"].setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    strategy.setdefault("rollingUpdate", {"maxUnavailable": 1, "maxSurge": 0})


def _deployment(obj: JSON) -> None:
    _template(obj)
    obj["spec"].setdefault("replicas", 1)
    obj["spec"].setdefault("progressDeadlineSeconds", 600)
    obj["spec"].setdefault(
        "strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    )


def _replica_set(obj: JSON) -> None:
    set_pod_spec_defaults(obj["spec"]["template"]["spec"])
    obj["spec"].setdefault("replicas", 1)


def _service(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port["port"])
    if spec["type"] != "ExternalName":
        spec.setdefault("clusterIP", f"34.118.{random.randint(224, 239)}.{random.randint(1, 254)}")
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        for key, value in (
            ("ipFamilies", ["IPv4"]),
            ("ipFamilyPolicy", "SingleStack"),
            ("internalTrafficPolicy", "Cluster"),
        ):
            spec.setdefault(key, value)
    obj.setdefault("status", {"loadBalancer": {}})


def _pv(obj: JSON) -> None:
    obj["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    obj["spec"].setdefault("volumeMode", "Filesystem")
    obj["metadata"].setdefault("finalizers", ["kubernetes.io/pv-protection"])
    obj.setdefault("status", {"phase": "Pending"})


def _pvc(obj: JSON) -> None:
    obj["spec"].setdefault("volumeMode", "Filesystem")
    obj["spec"].setdefault("storageClassName", "standard-rwo")
    obj["metadata"].setdefault("finalizers", ["kubernetes.io/pvc-protection"])
    obj.setdefault("status", {"phase": "Pending"})


def _policy(obj: JSON) -> None:
    obj["spec"].setdefault("policyTypes", ["Ingress", *(["Egress"] if "egress" in obj["spec"] else [])])
    for rule in (*obj["spec"].get("ingress", ()), *obj["spec"].get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


def _storage_class(obj: JSON) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _binding(obj: JSON) -> None:
    obj["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in obj.get("subjects", ()):
        if subject["kind"] in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


_DEFAULTERS = {
    kinds.NAMESPACE: _namespace,
    kinds.SECRET: _secret,
    kinds.POD: _pod,
    kinds.DAEMON_SET: _daemon_set,
    kinds.DEPLOYMENT: _deployment,
    kinds.REPLICA_SET: _replica_set,
    kinds.SERVICE: _service,
    kinds.PV: _pv,
    kinds.PVC: _pvc,
    kinds.NETWORK_POLICY: _policy,
    kinds.STORAGE_CLASS: _storage_class,
    kinds.ROLE_BINDING: _binding,
    kinds.CLUSTER_ROLE_BINDING: _binding,
}
