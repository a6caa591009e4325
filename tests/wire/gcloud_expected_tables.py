"""The tables that gcloud and kubectl print of the tutorial's deployment when nothing is said of a format.

A cell is a text, a pattern (`re.Pattern`), or `...` for one that must be filled with something. Columns that are not named may
be empty, as they are at Google.
"""

from __future__ import annotations

import re
from typing import Any

TableRow = dict[str, Any]
_VERSION = re.compile(r"1\.35\.\d+-gke\.\d+")
_GROUP = re.compile(r"gke-nemo-cluster-gpu-pool-[0-9a-f]{8}-grp")
_NODE = re.compile(r"gke-nemo-cluster-gpu-pool-[0-9a-f]{8}-[a-z0-9]{4}")
_LOCAL = re.compile(r"127\.0\.0\.1:\d+")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d.*")
_AGE = re.compile(r"\d+[smh].*")
_PLACE = "--location=us-central1"

# Command -> rows that must be among what it prints.
TABLES: dict[str, list[TableRow]] = {
    "gcloud compute networks list": [
        {"NAME": "nemo-net", "SUBNET_MODE": "AUTO", "BGP_ROUTING_MODE": "REGIONAL"},
        {"NAME": "nemo-rdma-net", "SUBNET_MODE": "CUSTOM", "BGP_ROUTING_MODE": "REGIONAL"},
    ],
    "gcloud compute networks subnets list": [
        {
            "NAME": "nemo-rdma-sub-7",
            "REGION": "us-central1",
            "NETWORK": "nemo-rdma-net",
            "RANGE": "192.168.8.0/24",
            "STACK_TYPE": "IPV4_ONLY",
        },
        {"NAME": "nemo-net", "REGION": "us-central1", "NETWORK": "nemo-net", "RANGE": "10.128.0.0/20"},
    ],
    "gcloud compute firewall-rules list": [
        {
            "NAME": "nemo-lustre-lnet",
            "NETWORK": "nemo-net",
            "DIRECTION": "INGRESS",
            "PRIORITY": "1000",
            "ALLOW": "tcp:988",
            "DISABLED": "False",
        },
    ],
    "gcloud compute addresses list": [
        {
            "NAME": "nemo-lustre-range",
            "ADDRESS/RANGE": re.compile(r"10\.\d+\.\d+\.0/20"),
            "TYPE": "INTERNAL",
            "PURPOSE": "VPC_PEERING",
            "NETWORK": "nemo-net",
            "STATUS": "RESERVED",
        },
    ],
    "gcloud compute networks peerings list": [
        {
            "NAME": "servicenetworking-googleapis-com",
            "NETWORK": "nemo-net",
            "PEER_PROJECT": ...,
            "PEER_NETWORK": "servicenetworking",
            "STACK_TYPE": "IPV4_ONLY",
            "IMPORT_CUSTOM_ROUTES": "False",
            "EXPORT_CUSTOM_ROUTES": "False",
            "STATE": "ACTIVE",
            "STATE_DETAILS": re.compile(r"\[20\d\d-.*\]: Connected\."),
        },
    ],
    "gcloud compute network-profiles list": [{"NAME": "us-central1-b-vpc-roce", "DESCRIPTION": ...}],
    "gcloud container clusters list": [
        {
            "NAME": "nemo-cluster",
            "LOCATION": "us-central1",
            "MASTER_VERSION": _VERSION,
            "MASTER_IP": _LOCAL,
            "MACHINE_TYPE": "n2-highmem-80",
            "NODE_VERSION": _VERSION,
            "NUM_NODES": "3",
            "STATUS": "RUNNING",
        },
    ],
    f"gcloud container node-pools list --cluster=nemo-cluster {_PLACE}": [
        {
            "NAME": "gpu-pool",
            "MACHINE_TYPE": "a4-highgpu-8g",
            "DISK_SIZE_GB": "100",
            "NODE_VERSION": _VERSION,
        },
    ],
    "gcloud container operations list": [
        {
            "NAME": ...,
            "TYPE": kind,
            "LOCATION": "us-central1",
            "TARGET": target,
            "STATUS": "DONE",
            "START_TIME": _TIME,
            "END_TIME": _TIME,
        }
        for kind, target in (("CREATE_CLUSTER", "nemo-cluster"), ("CREATE_NODE_POOL", "gpu-pool"))
    ],
    "gcloud compute operations list": [
        {
            "NAME": ...,
            "TYPE": "insert",
            "TARGET": target,
            "HTTP_STATUS": "200",
            "STATUS": "DONE",
            "TIMESTAMP": _TIME,
        }
        for target in ("nemo-net", "us-central1/subnetworks/nemo-rdma-sub-0")
    ],
    "gcloud compute reservations list": [
        {
            "NAME": "nemo-res",
            "IN_USE_COUNT": "2",
            "COUNT": "4",
            "ZONE": "us-central1-b",
            "SHARE_TYPE": "LOCAL",
        },
    ],
    "gcloud compute instances list": [
        {
            "NAME": _NODE,
            "ZONE": "us-central1-b",
            "MACHINE_TYPE": "a4-highgpu-8g",
            "INTERNAL_IP": _ADDRESS,
            "EXTERNAL_IP": _ADDRESS,
            "STATUS": "RUNNING",
        },
    ],
    "gcloud compute instance-groups list": [
        {
            "NAME": _GROUP,
            "LOCATION": "us-central1-b",
            "SCOPE": "zone",
            "NETWORK": "nemo-net",
            "MANAGED": "Yes",
            "INSTANCES": "2",
        },
    ],
    "gcloud compute instance-groups managed list": [
        {
            "NAME": _GROUP,
            "LOCATION": "us-central1-b",
            "SCOPE": "zone",
            "BASE_INSTANCE_NAME": ...,
            "SIZE": "2",
            "TARGET_SIZE": "2",
            "INSTANCE_TEMPLATE": ...,
            "AUTOSCALED": "no",
        },
    ],
    "gcloud compute machine-types list --zones=us-central1-b": [
        {"NAME": "a4-highgpu-8g", "ZONE": "us-central1-b", "CPUS": "224", "MEMORY_GB": "3968.00"},
    ],
    "gcloud compute accelerator-types list --filter=zone:us-central1-b": [
        {"NAME": "nvidia-b200", "ZONE": "us-central1-b", "DESCRIPTION": "NVIDIA B200 180GB"},
    ],
    "gcloud compute regions list --filter=name=us-central1": [
        {"NAME": "us-central1", "CPUS": ..., "DISKS_GB": ..., "ADDRESSES": ..., "STATUS": "UP"},
    ],
    "gcloud compute routes list --filter=network=nemo-gvnic-net": [
        {"NAME": ..., "NETWORK": "nemo-gvnic-net", "DEST_RANGE": "192.168.0.0/24", "PRIORITY": "0"},
        {"NAME": ..., "DEST_RANGE": "0.0.0.0/0", "NEXT_HOP": "default-internet-gateway", "PRIORITY": "1000"},
    ],
    "gcloud services list --enabled": [
        {"NAME": "lustre.googleapis.com", "TITLE": "Google Cloud Managed Lustre API"},
    ],
    "gcloud projects list": [{"PROJECT_ID": "my-project", "NAME": ..., "PROJECT_NUMBER": "123456789012"}],
    "kubectl get nodes -o wide": [
        {
            "NAME": _NODE,
            "STATUS": "Ready",
            "ROLES": "<none>",
            "AGE": _AGE,
            "VERSION": re.compile(f"v{_VERSION.pattern}"),
            "INTERNAL-IP": _ADDRESS,
            "EXTERNAL-IP": _ADDRESS,
            "OS-IMAGE": "Container-Optimized OS from Google",
            "KERNEL-VERSION": ...,
            "CONTAINER-RUNTIME": ...,
        },
    ],
    "kubectl get pods -o wide": [
        {
            "NAME": re.compile("ray-cluster-kuberay-worker-grp-0-worker-.*"),
            "READY": "1/1",
            "STATUS": "Running",
            "RESTARTS": "0",
            "AGE": _AGE,
            "IP": _ADDRESS,
            "NODE": _NODE,
        },
    ],
    "kubectl get rayclusters": [
        {
            "NAME": "ray-cluster-kuberay",
            "DESIRED WORKERS": "2",
            "AVAILABLE WORKERS": "2",
            "CPUS": ...,
            "MEMORY": ...,
            "GPUS": "16",
            "STATUS": "ready",
            "AGE": _AGE,
        },
    ],
    "kubectl get persistentvolumes": [
        {
            "NAME": "lustre-pv",
            "CAPACITY": "18000Gi",
            "ACCESS MODES": "RWX",
            "RECLAIM POLICY": "Retain",
            "STATUS": "Bound",
            "CLAIM": "default/lustre-pvc",
            "STORAGECLASS": "lustre-rwx-500mbps-per-tib",
            "VOLUMEATTRIBUTESCLASS": "<unset>",
            "AGE": _AGE,
        },
    ],
    "kubectl get persistentvolumeclaims": [
        {
            "NAME": "lustre-pvc",
            "STATUS": "Bound",
            "VOLUME": "lustre-pv",
            "CAPACITY": "18000Gi",
            "ACCESS MODES": "RWX",
            "STORAGECLASS": "lustre-rwx-500mbps-per-tib",
            "AGE": _AGE,
        },
    ],
    "kubectl get roles": [{"NAME": "ray-cluster-kuberay-release", "CREATED AT": _TIME}],
    "kubectl get rolebindings": [
        {"NAME": "ray-cluster-kuberay-release", "ROLE": "Role/ray-cluster-kuberay-release", "AGE": _AGE},
    ],
    "kubectl get networkpolicies": [
        {
            "NAME": "ray-cluster-kuberay-own-pods-only",
            "POD-SELECTOR": "ray.io/cluster=ray-cluster-kuberay",
            "AGE": _AGE,
        },
    ],
    "kubectl get secrets": [
        {"NAME": "ray-cluster-kuberay-tokens", "TYPE": "Opaque", "DATA": "1", "AGE": _AGE},
    ],
    "kubectl get configmaps": [{"NAME": "ray-cluster-kuberay-release", "DATA": "2", "AGE": _AGE}],
    "kubectl get daemonsets -n kube-system": [
        {
            "NAME": "nccl-rdma-installer",
            "DESIRED": "2",
            "CURRENT": "2",
            "READY": "2",
            "UP-TO-DATE": "2",
            "AVAILABLE": "2",
            "AGE": _AGE,
        },
    ],
    "kubectl get networks.networking.gke.io": [{"NAME": "rdma-7", "TYPE": "Device", "AGE": _AGE}],
}
# Read in every run.
FEW = (
    "gcloud container clusters list",
    "gcloud compute networks subnets list",
    "gcloud compute instances list",
    "kubectl get nodes -o wide",
)

# Command -> the names it prints, in its order: filters, orders, limits, pages, flattened lists and links.
_LINK = "https://compute.googleapis.com/compute/v1/projects/my-project"
_RDMA = [f"nemo-rdma-sub-{n}" for n in range(8)]
QUERIES: dict[str, list[str]] = {
    "gcloud compute networks list --filter=name~^nemo-r --format=value(name)": ["nemo-rdma-net"],
    "gcloud compute networks list --filter='name=nemo-net OR name=nemo-gvnic-net' --format=value(name)": [
        "nemo-gvnic-net",
        "nemo-net",
    ],
    "gcloud compute networks list --filter='NOT name:rdma*' --format=value(name)": [
        "nemo-gvnic-net",
        "nemo-net",
    ],
    "gcloud compute networks list --filter='mtu>1460' --sort-by=~name --format=value(name)": [
        "nemo-rdma-net",
        "nemo-net",
    ],
    "gcloud compute networks list --limit=2 --page-size=1 --format=value(name)": [
        "nemo-gvnic-net",
        "nemo-net",
    ],
    "gcloud compute networks list --uri": [
        f"{_LINK}/global/networks/{name}" for name in ("nemo-gvnic-net", "nemo-net", "nemo-rdma-net")
    ],
    "gcloud compute networks list --filter=name=nemo-rdma-net --flatten='subnetworks[]' --sort-by=subnetworks "
    "--format='value(subnetworks.basename())'": _RDMA,
    "gcloud compute networks subnets list --filter='network:nemo-rdma-net AND region:us-central1' "
    "--sort-by=ipCidrRange --format=value(name)": _RDMA,
    "gcloud compute networks subnets list --filter='ipCidrRange:192.168.*' --limit=3 --page-size=2 "
    "--format=value(name)": ["nemo-gvnic-sub", *_RDMA[:2]],
    "gcloud compute networks subnets list --filter=name=nemo-gvnic-sub --uri": [
        f"{_LINK}/regions/us-central1/subnetworks/nemo-gvnic-sub"
    ],
    "gcloud compute firewall-rules list --filter='network:nemo-gvnic-net AND disabled=false AND priority<=1000' "
    "--format=value(name)": ["nemo-gvnic-internal"],
    "gcloud compute addresses list --filter='purpose=VPC_PEERING AND labels.grpo-wizard:*' --format=value(name)": [
        "nemo-lustre-range"
    ],
    "gcloud compute operations list --filter='operationType=insert AND targetLink:nemo-gvnic-net' "
    "--format='value(targetLink.basename())'": ["nemo-gvnic-net"],
    "gcloud compute reservations list --filter=zone:us-central1-b --sort-by=~name --format=value(name)": [
        "nemo-res-h200",
        "nemo-res",
    ],
    "gcloud compute instances list --filter='machineType:a4-highgpu-8g AND status=RUNNING' "
    "--format='value(machineType.basename())'": ["a4-highgpu-8g"] * 2,
    "gcloud compute instances list --zones=us-central1-b --filter=labels.goog-k8s-node-pool-name=default-pool "
    "--format='value(labels.goog-k8s-cluster-name)'": ["nemo-cluster"],
    "gcloud container clusters list --filter='status=RUNNING AND resourceLabels.grpo-wizard:*' --format=value(name)": [
        "nemo-cluster"
    ],
    f"gcloud container clusters list {_PLACE} --uri": [
        "https://container.googleapis.com/v1/projects/123456789012/locations/us-central1/clusters/nemo-cluster"
    ],
    f"gcloud container node-pools list --cluster=nemo-cluster {_PLACE} --filter=config.machineType:a4* "
    "--format=value(name)": ["gpu-pool"],
    "gcloud container operations list --filter=operationType=CREATE_CLUSTER --format=value(status)": ["DONE"],
    "gcloud lustre instances list --location=us-central1-b --filter='state=ACTIVE AND labels.grpo-wizard:*' "
    "--sort-by=~createTime --limit=1 --page-size=1 --format='value(name.basename())'": ["nemo-lustre"],
    "gcloud lustre operations list --location=us-central1-b --filter=done=true --format=value(metadata.verb)": [
        "create"
    ],
    "gcloud services list --enabled --page-size=5 --filter=config.name:lustre* --format=value(config.name)": [
        "lustre.googleapis.com"
    ],
    "gcloud compute machine-types list --filter='guestCpus>200 AND zone=us-central1-b' --format=value(name)": [
        "a3-ultragpu-8g",
        "a4-highgpu-8g",
    ],
    "gcloud projects get-iam-policy my-project --flatten='bindings[].members' --filter=bindings.role=roles/owner "
    "--format=value(bindings.members)": ["user:rehearsal-user@example.com"],
}
# What is typed before the Tab key -> what gcloud offers.
COMPLETIONS: dict[str, list[str]] = {
    "gcloud compute networks describe nemo-": ["nemo-gvnic-net", "nemo-net", "nemo-rdma-net"],
    "gcloud compute networks subnets describe nemo-rdma": [f"{name} --region=us-central1" for name in _RDMA],
    "gcloud compute firewall-rules describe nemo": ["nemo-gvnic-internal", "nemo-lustre-lnet"],
}
