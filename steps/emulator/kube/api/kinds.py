"""The kinds that this API server has, one row each. Others are 404, as on a cluster without that CRD."""

from __future__ import annotations

from dataclasses import dataclass

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Kind:
    """A resource type. `schema` names its type in the schema data; if empty, its fields are not validated."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    schema: str = ""
    has_status: bool = True
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Return the name as in error texts: `pods`, `rayclusters.ray.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_custom(self) -> bool:
        return self.group in ("ray.io", "networking.gke.io")


def _core(
    plural: str,
    kind: str,
    *short: str,
    namespaced: bool = True,
    status: bool = False,
    subresources: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
) -> Kind:
    return Kind("", "v1", plural, kind, namespaced, short, f"v1.{kind}", status, subresources, categories)


def _grouped(
    group: str,
    plural: str,
    kind: str,
    *short: str,
    namespaced: bool = True,
    status: bool = False,
    subresources: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    schema: str | None = None,
) -> Kind:
    schema = f"v1.{kind}" if schema is None else schema
    return Kind(group, "v1", plural, kind, namespaced, short, schema, status, subresources, categories)


_RBAC, _GKE, _AUTHORIZATION = "rbac.authorization.k8s.io", "networking.gke.io", ("create",)

NAMESPACE = _core("namespaces", "Namespace", "ns", namespaced=False, status=True)
NODE = _core("nodes", "Node", "no", namespaced=False, status=True)
POD = _core(
    "pods",
    "Pod",
    "po",
    status=True,
    categories=("all",),
    subresources=("log", "exec", "portforward", "eviction", "binding", "attach"),
)
SERVICE = _core("services", "Service", "svc", status=True, categories=("all",))
SECRET = _core("secrets", "Secret")
CONFIG_MAP = _core("configmaps", "ConfigMap", "cm")
SERVICE_ACCOUNT = _core("serviceaccounts", "ServiceAccount", "sa", subresources=("token",))
PV = _core("persistentvolumes", "PersistentVolume", "pv", namespaced=False, status=True)
PVC = _core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", status=True)
EVENT = _core("events", "Event", "ev")
ENDPOINTS = _core("endpoints", "Endpoints", "ep")
DAEMON_SET = _grouped("apps", "daemonsets", "DaemonSet", "ds", status=True, categories=("all",))
DEPLOYMENT = _grouped(
    "apps", "deployments", "Deployment", "deploy", status=True, categories=("all",), subresources=("scale",)
)
REPLICA_SET = _grouped(
    "apps", "replicasets", "ReplicaSet", "rs", status=True, categories=("all",), subresources=("scale",)
)
ROLE = _grouped(_RBAC, "roles", "Role")
ROLE_BINDING = _grouped(_RBAC, "rolebindings", "RoleBinding")
CLUSTER_ROLE = _grouped(_RBAC, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDING = _grouped(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
NETWORK_POLICY = _grouped("networking.k8s.io", "networkpolicies", "NetworkPolicy", "netpol")
STORAGE_CLASS = _grouped("storage.k8s.io", "storageclasses", "StorageClass", "sc", namespaced=False)
LEASE = _grouped("coordination.k8s.io", "leases", "Lease")
PRIORITY_CLASS = _grouped("scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc", namespaced=False)
CRD = _grouped(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    "crd",
    "crds",
    namespaced=False,
    status=True,
    schema="",
)
RAY_CLUSTER = _grouped(
    "ray.io", "rayclusters", "RayCluster", schema="RayCluster", status=True, categories=("all",)
)
NETWORK = _grouped(_GKE, "networks", "Network", namespaced=False, status=True, schema="GKENetwork")
GKE_NETWORK_PARAM_SET = _grouped(
    _GKE,
    "gkenetworkparamsets",
    "GKENetworkParamSet",
    namespaced=False,
    status=True,
    schema="GKENetworkParamSet",
)
SELF_SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    False,
    (),
    "v1.SelfSubjectAccessReview",
    False,
    (),
    (),
    _AUTHORIZATION,
)
SELF_SUBJECT_RULES_REVIEW = Kind(
    "authorization.k8s.io",
    "v1",
    "selfsubjectrulesreviews",
    "SelfSubjectRulesReview",
    False,
    (),
    "v1.SelfSubjectRulesReview",
    False,
    (),
    (),
    _AUTHORIZATION,
)
SELF_SUBJECT_REVIEW = Kind(
    "authentication.k8s.io",
    "v1",
    "selfsubjectreviews",
    "SelfSubjectReview",
    False,
    (),
    "",
    False,
    (),
    (),
    _AUTHORIZATION,
)

STORED = (
    NAMESPACE,
    NODE,
    POD,
    SERVICE,
    SECRET,
    CONFIG_MAP,
    SERVICE_ACCOUNT,
    PV,
    PVC,
    EVENT,
    ENDPOINTS,
    DAEMON_SET,
    DEPLOYMENT,
    REPLICA_SET,
    ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    NETWORK_POLICY,
    STORAGE_CLASS,
    LEASE,
    PRIORITY_CLASS,
    CRD,
    RAY_CLUSTER,
    NETWORK,
    GKE_NETWORK_PARAM_SET,
)
REVIEWS = (SELF_SUBJECT_ACCESS_REVIEW, SELF_SUBJECT_RULES_REVIEW, SELF_SUBJECT_REVIEW)


def kinds_for(addons: set[str]) -> tuple[Kind, ...]:
    """Return the kinds of a cluster with these add-ons: RayClusters need "ray"."""
    return tuple(k for k in (*STORED, *REVIEWS) if k is not RAY_CLUSTER or "ray" in addons)
