"""The RayCluster: a head on the CPU pool, one group of GPU workers, and the sidecar that releases the GPUs after the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.gcp import provisioning
from grpo_wizard.steps.manifests.access import (
    RELEASE_PATH,
    SECRETS_PATH,
    service_account_name,
    token_secret_name,
)
from grpo_wizard.steps.manifests.fluentbit import fluentbit_container, fluentbit_volumes
from grpo_wizard.steps.manifests.multinetwork import interfaces_annotation
from grpo_wizard.steps.manifests.storage import PVC_NAME

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

WORKER_GROUP = "worker-grp-0"
_HEAD_RESOURCES = {"cpu": "64", "memory": "500G"}
_WORKER_RESOURCES = {"cpu": "206", "memory": "2400Gi", "nvidia.com/gpu": 8}
_GIB, _NVIDIA = "/usr/local/gib", "/usr/local/nvidia"
_HEAD_ENV: dict[str, Any] = {"name": "RAY_GROUP", "value": "head"}
_GROUP_LABEL = {"fieldRef": {"fieldPath": "metadata.labels['ray.io/group']"}}
_WORKER_ENV: dict[str, Any] = {"name": "RAY_GROUP", "valueFrom": _GROUP_LABEL}

# The image contains uv and its environment; installing at pod start, as the tutorial does, would fail under `set -e`.
_HEAD_START = "set -e\nulimit -n 65536\nexec ${KUBERAY_GEN_RAY_START_CMD}\n"
_WORKER_START = f"""set -e
ulimit -n 65536
ldconfig {_NVIDIA}/lib64/
export LD_LIBRARY_PATH="{_GIB}/lib64:$LD_LIBRARY_PATH"
source {_GIB}/scripts/set_nccl_env.sh
exec ${{KUBERAY_GEN_RAY_START_CMD}}
"""
# The installer DaemonSet and the driver arrive on a new node at the same time as the worker: wait for both, for 15 minutes at most.
_WAIT_FOR_GIB = f"""for second in $(seq 1 900); do
  if [ -f {_GIB}/scripts/set_nccl_env.sh ] && ls {_NVIDIA}/lib64/libcuda.so* >/dev/null 2>&1; then exit 0; fi
  [ $((second % 30)) -eq 1 ] && echo "waiting for gIB's set_nccl_env.sh and the NVIDIA driver on this node"
  sleep 1
done
echo "after 15 minutes neither gIB nor the driver is complete on this node: check DaemonSet kube-system/nccl-rdma-installer"
exit 1
"""


def raycluster(answers: Answers) -> dict[str, Any]:
    """The RayCluster with a worker for each GPU node. It is created with none and scaled up when its head is ready."""
    ray_answers = answers.raycluster
    meta: dict[str, Any] = {"name": ray_answers.raycluster_name, "namespace": ray_answers.namespace}
    if ray_answers.overwrite_container_cmd:
        meta["annotations"] = {"ray.io/overwrite-container-cmd": "true"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": meta,
        "spec": {
            "headGroupSpec": {
                "serviceType": "ClusterIP",
                "rayStartParams": {"dashboard-host": "0.0.0.0"},
                "template": {"spec": _head_pod_spec(answers)},
            },
            "workerGroupSpecs": [
                {
                    "groupName": WORKER_GROUP,
                    "rayStartParams": {},
                    "replicas": answers.quotas.gpu_nodes,
                    "minReplicas": 0,
                    "maxReplicas": answers.quotas.gpu_nodes,
                    "template": _worker_template(answers),
                }
            ],
        },
    }


def _token_file_env() -> list[dict[str, str]]:
    """Paths, not tokens: huggingface_hub and wandb read the files themselves."""
    return [
        {"name": "HF_TOKEN_PATH", "value": f"{SECRETS_PATH}/hf_token"},
        {"name": "NETRC", "value": f"{SECRETS_PATH}/netrc"},
    ]


def _common_mounts() -> list[dict[str, object]]:
    return [
        {"name": "lustre-data", "mountPath": "/data"},
        {"name": "tokens", "mountPath": SECRETS_PATH, "readOnly": True},
        {"name": "log-volume", "mountPath": "/tmp/ray"},
    ]


def _common_volumes(answers: Answers) -> list[dict[str, object]]:
    return [
        {"name": "lustre-data", "persistentVolumeClaim": {"claimName": PVC_NAME}},
        {"name": "tokens", "secret": {"secretName": token_secret_name(answers), "optional": True}},
        {"name": "log-volume", "emptyDir": {}},
        *fluentbit_volumes(answers),
    ]


def _head_pod_spec(answers: Answers) -> dict[str, object]:
    ray_answers = answers.raycluster
    resources = {
        "limits": {**_HEAD_RESOURCES, "nvidia.com/gpu": 0},
        "requests": {**_HEAD_RESOURCES, "nvidia.com/gpu": 0},
    }
    ray = {
        "name": "ray-head",
        "image": ray_answers.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": resources,
        "env": [_HEAD_ENV, *_token_file_env()],
        "command": ["bash", "-c", _HEAD_START],
        "volumeMounts": _common_mounts(),
    }
    return {
        "serviceAccountName": service_account_name(answers),
        "nodeSelector": {"cloud.google.com/gke-nodepool": "default-pool"},
        "containers": [ray, _release_sidecar(answers), *fluentbit_container(answers, _HEAD_ENV)],
        "volumes": [
            *_common_volumes(answers),
            {"name": "release", "configMap": {"name": service_account_name(answers)}},
        ],
    }


def _release_sidecar(answers: Answers) -> dict[str, object]:
    """The sidecar that asks Ray on 127.0.0.1 whether the job has ended and then releases the GPU nodes. A rehearsal runs the same script."""
    ray_answers = answers.raycluster
    return {
        "name": "release",
        "image": ray_answers.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi"},
        },
        "env": [
            {"name": "RAYCLUSTER", "value": ray_answers.raycluster_name},
            {"name": "NAMESPACE", "value": ray_answers.namespace},
        ],
        "command": ["python3", f"{RELEASE_PATH}/release.py"],
        "volumeMounts": [{"name": "release", "mountPath": RELEASE_PATH, "readOnly": True}],
    }


def _worker_template(answers: Answers) -> dict[str, Any]:
    pod = {"spec": _worker_pod_spec(answers)}
    if not answers.raycluster.rdma_interfaces:
        return pod
    return {
        "metadata": {
            "annotations": {
                "networking.gke.io/default-interface": "eth0",
                "networking.gke.io/interfaces": interfaces_annotation(),
            }
        }
    } | pod


def _worker_env(answers: Answers) -> list[dict[str, object]]:
    nccl = {
        "NCCL_NET": "gIB",
        "NCCL_IB_GID_INDEX": "3",
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_CROSS_NIC": "0",
        "NCCL_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "NCCL_TUNER_CONFIG_PATH": catalog.gpu_spec(answers.quotas.gpu_type)["tuner"],
        "NCCL_NET_GDR_LEVEL": "PIX",
        "LD_LIBRARY_PATH": f"{_NVIDIA}/lib64",
    }
    return [
        _WORKER_ENV,
        *({"name": name, "value": value} for name, value in nccl.items()),
        *_token_file_env(),
    ]


def _worker_pod_spec(answers: Answers) -> dict[str, Any]:
    host = [
        {"name": "nvidia-install-dir-host", "mountPath": _NVIDIA},
        {"name": "gib-nccl-plugin-volume", "mountPath": _GIB},
    ]
    image = answers.raycluster.image
    ray = {
        "name": "ray-worker",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": dict(_WORKER_RESOURCES), "requests": dict(_WORKER_RESOURCES)},
        "securityContext": {"privileged": True},
        "env": _worker_env(answers),
        "command": ["bash", "-c", _WORKER_START],
        "volumeMounts": [*_common_mounts(), {"name": "shared-memory", "mountPath": "/dev/shm"}, *host],
    }
    wait = {
        "name": "wait-for-gib",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["bash", "-c", _WAIT_FOR_GIB],
        "volumeMounts": host,
    }
    return {
        "nodeSelector": {
            "cloud.google.com/gke-accelerator": answers.quotas.gpu_type,
            **provisioning.node_selector(answers),
        },
        "tolerations": [
            {"key": key, "operator": "Exists"}
            for key in ("nvidia.com/gpu", "cloud.google.com/impending-node-termination", "user-workload")
        ]
        + provisioning.tolerations(answers),
        "initContainers": [wait],
        "containers": [ray, *fluentbit_container(answers, _WORKER_ENV)],
        "volumes": [
            *_common_volumes(answers),
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "240Gi"}},
            {"name": "nvidia-install-dir-host", "hostPath": {"path": "/home/kubernetes/bin/nvidia"}},
            {"name": "gib-nccl-plugin-volume", "hostPath": {"path": "/home/kubernetes/bin/gib"}},
        ],
    }
