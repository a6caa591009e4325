"""Every kind of resource, registered once: its driver, and what engine, state, export and interface must know of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Literal

from grpo_wizard.steps.clients.driver import Driver

_CLIENTS = "grpo_wizard.steps.clients"

ExportAs = Literal["gcloud", "manifest", "secret", "raycluster", "job"]
Section = Literal["", "cluster", "nodes", "volume", "raycluster", "job"]
OwnerFlag = Literal["", "--description", "--labels"]


@dataclass(frozen=True, kw_only=True)
class KindInfo:
    """One kind of resource.

    `driver` is `module:Class` below steps/clients; it is imported on first use, and gets the kind where
    `driver_takes_kind`. `recorded_keys` are the keys of a spec that the state keeps, because deleting needs
    them once the answers have changed; of Kubernetes objects it keeps which object it is.
    """

    driver: str
    driver_takes_kind: bool = False
    free: bool = False  # never billed, and needed by checks: created before preflight
    protected: bool = False  # holds data, or everything depends on it: replaced only when --replace names it
    recorded_keys: tuple[str, ...] = ()
    export_as: ExportAs = "gcloud"
    owner_flag: OwnerFlag = (
        ""  # where gcloud takes the owner label; a peering and an IAM binding have no place
    )
    section: Section = ""  # of the exported script; empty: that of its step
    lane: str = ""  # on the Run screen; empty: that of its step
    object_kind: str = ""  # of a Kubernetes object: `kind` in its manifest
    plural: str = ""  # of a Kubernetes object: its name in the API's paths


def _object(
    kind: str,
    plural: str,
    *,
    driver: str = "objects:KubeDriver",
    export_as: ExportAs = "manifest",
    protected: bool = False,
    section: Section = "",
    lane: str = "",
) -> KindInfo:
    return KindInfo(
        driver=f"kubernetes.{driver}",
        export_as=export_as,
        protected=protected,
        section=section,
        lane=lane,
        object_kind=kind,
        plural=plural,
    )


def _compute(*, protected: bool, driver: str = "ComputeDriver") -> KindInfo:
    return KindInfo(
        driver=f"google.compute:{driver}",
        driver_takes_kind=driver == "ComputeDriver",
        protected=protected,
        owner_flag="--description",
    )


KINDS: dict[str, KindInfo] = {
    "project": KindInfo(
        driver="google.resource_manager:ProjectDriver",
        free=True,
        protected=True,
        recorded_keys=("billingAccount",),
        owner_flag="--labels",
    ),
    "api": KindInfo(driver="google.resource_manager:ApiDriver", free=True),
    "iam_binding": KindInfo(
        driver="google.iam:IamBindingDriver", free=True, recorded_keys=("role", "member")
    ),
    "network": _compute(protected=True, driver="NetworkDriver"),
    "subnet": _compute(protected=True),
    "firewall": _compute(protected=False),
    "address": _compute(protected=True),
    "peering": KindInfo(
        driver="google.peering:PeeringDriver",
        protected=True,
        recorded_keys=("network", "reservedPeeringRanges"),
    ),
    "lustre": KindInfo(
        driver="google.lustre:LustreDriver",
        protected=True,
        owner_flag="--labels",
        lane="lustre",
    ),
    "cluster": KindInfo(
        driver="google.gke:ClusterDriver",
        protected=True,
        owner_flag="--labels",
        section="cluster",
        lane="cluster",
    ),
    "node_pool": KindInfo(
        driver="google.gke:NodePoolDriver", owner_flag="--labels", section="cluster", lane="pool"
    ),
    "namespace": _object("Namespace", "namespaces", section="volume"),
    "network_params": _object("GKENetworkParamSet", "gkenetworkparamsets", section="nodes"),
    "device_network": _object("Network", "networks", section="nodes"),
    "daemonset": _object("DaemonSet", "daemonsets", driver="objects:DaemonSetDriver", section="nodes"),
    "pv": _object(
        "PersistentVolume",
        "persistentvolumes",
        driver="objects:PersistentVolumeDriver",
        protected=True,
        section="volume",
        lane="volume",
    ),
    "pvc": _object(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        driver="objects:PersistentVolumeClaimDriver",
        protected=True,
        section="volume",
        lane="volume",
    ),
    "secret": _object("Secret", "secrets", driver="objects:SecretDriver", export_as="secret"),
    "configmap": _object("ConfigMap", "configmaps"),
    "service_account": _object("ServiceAccount", "serviceaccounts"),
    "role": _object("Role", "roles"),
    "role_binding": _object("RoleBinding", "rolebindings"),
    "network_policy": _object("NetworkPolicy", "networkpolicies"),
    "raycluster": _object(
        "RayCluster",
        "rayclusters",
        driver="rayclusters:RayClusterDriver",
        export_as="raycluster",
        section="raycluster",
        lane="raycluster",
    ),
    "job": KindInfo(driver="ray.job_driver:JobDriver", export_as="job", section="job"),
}

FREE_KINDS = frozenset(kind for kind, info in KINDS.items() if info.free)
PROTECTED_KINDS = frozenset(kind for kind, info in KINDS.items() if info.protected)
PLURALS = {info.object_kind: info.plural for info in KINDS.values() if info.object_kind}


@cache
def driver_for(kind: str) -> Driver:
    """The one driver of a kind; raises KeyError for a kind that is not registered."""
    info = KINDS[kind]
    module, _, name = info.driver.partition(":")
    driver_class: type[Driver] = getattr(import_module(f"{_CLIENTS}.{module}"), name)
    return driver_class(kind) if info.driver_takes_kind else driver_class()  # type: ignore[call-arg]
