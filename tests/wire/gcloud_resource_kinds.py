"""The kinds of things that apply makes at Google: how gcloud lists and describes each, and how Google's own client reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google_clients import CLUSTER, PROJECT, REGION, ZONE, GoogleClients

JSON = dict[str, Any]
Get = Callable[[GoogleClients, str, str], Any]


@dataclass(frozen=True)
class GcloudKind:
    """One kind. `{name}` and `{place}` are filled into the description; `get` is called with the same two."""

    name: str
    list_command: str
    describe_command: str
    get: Get
    owner_label_paths: tuple[str, ...] = ()  # dotted paths of the mark
    status: tuple[str, str] = ("", "")  # dotted path and the word that gcloud shows when all is well
    computed_paths: tuple[str, ...] = ("-",)  # paths that are computed when it is read


def _compute(client: str, argument: str, place: str = "") -> Get:
    def get(clients: GoogleClients, name: str, where: str) -> Any:
        return clients.compute(client).get(
            project=PROJECT, **{argument: name}, **({place: where} if place else {})
        )

    return get


_IN = f"--cluster=nemo-cluster --location={REGION}"
NETWORK = GcloudKind(
    "network",
    "gcloud compute networks list",
    "gcloud compute networks describe {name}",
    _compute("Networks", "network"),
    ("description",),
    computed_paths=("subnetworks", "peerings"),
)
SUBNET = GcloudKind(
    "subnet",
    "gcloud compute networks subnets list",
    "gcloud compute networks subnets describe {name} --region={place}",
    _compute("Subnetworks", "subnetwork", "region"),
    ("description",),
    computed_paths=("secondaryIpRanges",),
)
FIREWALL = GcloudKind(
    "firewall",
    "gcloud compute firewall-rules list",
    "gcloud compute firewall-rules describe {name}",
    _compute("Firewalls", "firewall"),
    ("description",),
)
ADDRESS = GcloudKind(
    "address",
    "gcloud compute addresses list",
    "gcloud compute addresses describe {name} --global",
    _compute("GlobalAddresses", "address"),
    ("description", "labels"),
    ("status", "RESERVED"),
)
CLUSTERS = GcloudKind(
    "cluster",
    "gcloud container clusters list",
    "gcloud container clusters describe {name} --location={place}",
    lambda clients, name, place: clients.container.get_cluster(name=CLUSTER),
    ("resourceLabels",),
    ("status", "RUNNING"),
    ("nodePools", "instanceGroupUrls", "current", "ipAllocationPolicy.defaultPodIpv4RangeUtilization"),
)
POOL = GcloudKind(
    "node_pool",
    f"gcloud container node-pools list {_IN}",
    f"gcloud container node-pools describe {{name}} {_IN}",
    lambda clients, name, place: clients.container.get_node_pool(name=f"{CLUSTER}/nodePools/{name}"),
    ("config.resourceLabels",),
    ("status", "RUNNING"),
)
LUSTRE = GcloudKind(
    "lustre",
    "gcloud lustre instances list --location=-",
    "gcloud lustre instances describe {name} --location={place}",
    lambda clients, name, place: clients.lustre.get_instance(
        name=f"projects/{PROJECT}/locations/{ZONE}/instances/{name}"
    ),
    ("labels",),
    ("state", "ACTIVE"),
)
KINDS = (NETWORK, SUBNET, FIREWALL, ADDRESS, CLUSTERS, POOL, LUSTRE)

# What is found there: (kind, name) of what the tutorial takes.
_ZONE = f"--zone={ZONE}"
PREEXISTING = (
    (
        GcloudKind(
            "reservation",
            "gcloud compute reservations list",
            f"gcloud compute reservations describe {{name}} {_ZONE}",
            _compute("Reservations", "reservation", "zone"),
        ),
        "nemo-res",
    ),
    (
        GcloudKind(
            "network_profile",
            "gcloud compute network-profiles list",
            "gcloud compute network-profiles describe {name}",
            _compute("NetworkProfiles", "network_profile"),
        ),
        f"{ZONE}-vpc-roce",
    ),
    (
        GcloudKind(
            "machine_type",
            f"gcloud compute machine-types list --zones={ZONE}",
            f"gcloud compute machine-types describe {{name}} {_ZONE}",
            _compute("MachineTypes", "machine_type", "zone"),
        ),
        "a4-highgpu-8g",
    ),
    (
        GcloudKind(
            "accelerator_type",
            f"gcloud compute accelerator-types list --filter=zone:{ZONE}",
            f"gcloud compute accelerator-types describe {{name}} {_ZONE}",
            _compute("AcceleratorTypes", "accelerator_type", "zone"),
        ),
        "nvidia-b200",
    ),
    (
        GcloudKind(
            "region",
            f"gcloud compute regions list --filter=name={REGION}",
            "gcloud compute regions describe {name}",
            _compute("Regions", "region"),
        ),
        REGION,
    ),
    (
        GcloudKind(
            "zone",
            f"gcloud compute zones list --filter=name={ZONE}",
            "gcloud compute zones describe {name}",
            _compute("Zones", "zone"),
        ),
        ZONE,
    ),
)

# Objects that apply makes in the cluster: kind in a plan -> kind of the object.
OBJECTS = {
    "daemonset": "DaemonSet",
    "network_params": "GKENetworkParamSet",
    "device_network": "Network",
    "pv": "PersistentVolume",
    "pvc": "PersistentVolumeClaim",
    "secret": "Secret",
    "configmap": "ConfigMap",
    "service_account": "ServiceAccount",
    "role": "Role",
    "role_binding": "RoleBinding",
    "network_policy": "NetworkPolicy",
    "raycluster": "RayCluster",
}
GET_OBJECTS = (
    "kubectl get --all-namespaces --show-managed-fields daemonsets,gkenetworkparamsets,"
    "networks.networking.gke.io,persistentvolumes,persistentvolumeclaims,secrets,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,rayclusters"
)
