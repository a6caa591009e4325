"""The NCCL RDMA installer: installs gIB, NCCL's RDMA plug-in, on every GPU node."""

from __future__ import annotations

from typing import Any

# Versions as in Google's installer manifest of 2026-07.
_GIB_IMAGE = "us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib:v1.1.1"
_PAUSE_IMAGE = "gke.gcr.io/pause:3.8@sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830"
_NAME = "nccl-rdma-installer"
_HOST = "/usr/local/home/kubernetes/bin"

_INSTALL = f"""set -ex
/scripts/container_entry.sh install
cp -r /var/lib/gib/lib64/. {_HOST}/nvidia/lib64
cp -r /var/lib/gib/. {_HOST}/gib
echo "installation finishes"
"""


def nccl_installer() -> dict[str, Any]:
    """A DaemonSet for nodes with H200 or B200 GPUs. Without such a node it is ready with 0 of 0 pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _NAME, "namespace": "kube-system", "labels": {"k8s-app": _NAME}},
        "spec": {
            "selector": {"matchLabels": {"k8s-app": _NAME}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": {"name": _NAME, "k8s-app": _NAME}}, "spec": _pod()},
        },
    }


def _pod() -> dict[str, object]:
    wanted = {
        "key": "cloud.google.com/gke-accelerator",
        "operator": "In",
        "values": ["nvidia-h200-141gb", "nvidia-b200"],
    }
    return {
        "priorityClassName": "system-node-critical",
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [wanted]}]
                }
            }
        },
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "hostPID": True,
        "volumes": [
            {
                "name": "library-dir-host",
                "hostPath": {"path": "/home/kubernetes/bin/nvidia/lib64", "type": "DirectoryOrCreate"},
            },
            {"name": "gib", "hostPath": {"path": "/home/kubernetes/bin/gib"}},
        ],
        "initContainers": [
            {
                "name": _NAME,
                "image": _GIB_IMAGE,
                "resources": {"requests": {"cpu": "150m"}},
                "securityContext": {"privileged": True},
                "volumeMounts": [
                    {"name": "library-dir-host", "mountPath": f"{_HOST}/nvidia/lib64"},
                    {"name": "gib", "mountPath": f"{_HOST}/gib"},
                ],
                "command": ["/bin/sh", "-c"],
                "args": [_INSTALL],
            }
        ],
        "containers": [{"name": "pause", "image": _PAUSE_IMAGE}],
    }
