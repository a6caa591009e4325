"""The objects that a new GKE cluster contains."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import defaults, kinds
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.node import sidecars

_ADDON_LABELS = {"addonmanager.kubernetes.io/mode": "EnsureExists"}
_LUSTRE_TIERS = (125, 250, 500, 1000)
_KUBERAY = "v1.4.2"


def create_default_objects(kube: ClusterContext) -> None:
    """Create those that are missing; a restored cluster already has them."""
    fresh = not kube.store.list(kinds.NAMESPACE)
    for name in (
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "gmp-system",
        "gke-managed-system",
    ):
        _create_missing(kube, kinds.NAMESPACE, name)
    if fresh:
        _roles(kube)
        _classes(kube)
        _crds(kube)
        _daemons(kube)
        _kubernetes_service(kube)
    sidecars.resume(kube, kube.store.list(kinds.POD))


def _create_missing(kube: ClusterContext, kind: Kind, name: str, namespace: str = "", **body: object) -> None:
    if kube.store.find(kind, namespace, name) is not None:
        return
    meta: JSON = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": dict(_ADDON_LABELS),
    }
    obj: JSON = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **body}
    defaults.set_defaults(kind, obj)
    kube.store.create(kind, obj)


def _roles(kube: ClusterContext) -> None:
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    reading = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    for name, rules in (
        ("cluster-admin", everything),
        ("admin", everything),
        ("edit", everything),
        ("view", reading),
    ):
        _create_missing(kube, kinds.CLUSTER_ROLE, name, rules=rules)


def _classes(kube: ClusterContext) -> None:
    late = "WaitForFirstConsumer"
    for name, disk in (("standard-rwo", "pd-balanced"), ("premium-rwo", "pd-ssd")):
        _create_missing(
            kube,
            kinds.STORAGE_CLASS,
            name,
            provisioner="pd.csi.storage.gke.io",
            parameters={"type": disk},
            volumeBindingMode=late,
            allowVolumeExpansion=True,
        )
    kube.edit_object(
        kinds.STORAGE_CLASS,
        kube.store.get(kinds.STORAGE_CLASS, "", "standard-rwo"),
        lambda o: o["metadata"].update(annotations={"storageclass.kubernetes.io/is-default-class": "true"}),
    )
    for tier in _LUSTRE_TIERS if "lustre" in kube.addons else ():
        _create_missing(
            kube,
            kinds.STORAGE_CLASS,
            f"lustre-rwx-{tier}mbps-per-tib",
            provisioner="lustre.csi.storage.gke.io",
            parameters={"perUnitStorageThroughput": str(tier)},
            volumeBindingMode=late,
            allowVolumeExpansion=True,
        )
    for name, value in (("system-node-critical", 2000001000), ("system-cluster-critical", 2000000000)):
        _create_missing(kube, kinds.PRIORITY_CLASS, name, value=value, globalDefault=False)


def _crds(kube: ClusterContext) -> None:
    for kind in (kinds.RAY_CLUSTER, kinds.NETWORK, kinds.GKE_NETWORK_PARAM_SET):
        if kind not in kube.store.kinds:
            continue
        names = {
            "kind": kind.kind,
            "plural": kind.plural,
            "singular": kind.kind.lower(),
            "listKind": f"{kind.kind}List",
        }
        _create_missing(
            kube,
            kinds.CRD,
            kind.qualified,
            spec={
                "group": kind.group,
                "names": names,
                "scope": "Namespaced" if kind.namespaced else "Cluster",
                "versions": [{"name": kind.version, "served": True, "storage": True}],
            },
            status={
                "conditions": [
                    {
                        "type": t,
                        "status": "True",
                        "reason": r,
                        "message": "",
                        "lastTransitionTime": kube.timestamp(),
                    }
                    for t, r in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
                ],
                "acceptedNames": names,
                "storedVersions": [kind.version],
            },
        )
    if "ray" in kube.addons:
        kube.edit_object(
            kinds.CRD,
            kube.store.get(kinds.CRD, "", kinds.RAY_CLUSTER.qualified),
            lambda o: o["metadata"].update(
                annotations={
                    "controller-gen.kubebuilder.io/version": "v0.16.5",
                    "rehearsal/kuberay": _KUBERAY,
                }
            ),
        )


def _daemons(kube: ClusterContext) -> None:
    names = ["anetd", "fluentbit-gke", "gke-metadata-server", "gke-metrics-agent", "pdcsi-node"]
    names += ["lustre-csi-node"] if "lustre" in kube.addons else []
    for name in names:
        _daemon(kube, name, {})
    gpu = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "cloud.google.com/gke-accelerator", "operator": "Exists"}]}
                ]
            }
        }
    }
    _daemon(kube, "nvidia-gpu-device-plugin-large-cos", gpu)


def _daemon(kube: ClusterContext, name: str, affinity: JSON) -> None:
    labels = {"k8s-app": name}
    spec: JSON = {
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "containers": [
            {
                "name": name,
                "image": f"gke.gcr.io/{name}:v1",
                "resources": {"requests": {"cpu": "20m", "memory": "40Mi"}},
            }
        ],
    }
    if affinity:
        spec["affinity"] = affinity
    _create_missing(
        kube,
        kinds.DAEMON_SET,
        name,
        "kube-system",
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    )


def _kubernetes_service(kube: ClusterContext) -> None:
    _create_missing(
        kube,
        kinds.SERVICE,
        "kubernetes",
        "default",
        spec={"clusterIP": "34.118.224.1", "ports": [{"name": "https", "port": 443, "targetPort": 443}]},
    )
