"""The tutorial's Kubernetes objects, for tests: its own manifests and the volume pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from kube_test_server import ZONE, KubeTestServer, wait_until

from grpo_wizard.steps.emulator.context import JSON

MANIFESTS = Path(__file__).with_name("fixtures") / "manifests"
RAY = ("ray.io", "v1", "default", "rayclusters", "ray-cluster-kuberay")
_CLASS = "lustre-rwx-500mbps-per-tib"


def manifest(name: str) -> list[JSON]:
    return [d for d in yaml.safe_load_all((MANIFESTS / name).read_text()) if d]


def volume(ip: str = "10.20.0.2", filesystem: str = "lustrefs") -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "lustre-pv"},
        "spec": {
            "storageClassName": _CLASS,
            "capacity": {"storage": "18000Gi"},
            "accessModes": ["ReadWriteMany"],
            "claimRef": {"namespace": "default", "name": "lustre-pvc"},
            "csi": {
                "driver": "lustre.csi.storage.gke.io",
                "volumeHandle": f"my-project/{ZONE}/nemo-lustre",
                "volumeAttributes": {"ip": ip, "filesystem": filesystem},
            },
        },
    }


def claim() -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "lustre-pvc"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": _CLASS,
            "volumeName": "lustre-pv",
            "resources": {"requests": {"storage": "18000Gi"}},
        },
    }


def ray_objects(replicas: int = 2) -> list[JSON]:
    """ConfigMap and RayCluster of the tutorial, with this many workers."""
    found = manifest("tutorial-raycluster.yaml")
    found[-1]["spec"]["workerGroupSpecs"][0]["replicas"] = replicas
    return found


def as_yaml(objects: list[JSON]) -> str:
    return yaml.safe_dump_all(objects)


def apply_raycluster(server: KubeTestServer, replicas: int = 2, **lustre: str) -> None:
    """Everything that the RayCluster needs, and the RayCluster."""
    server.kubectl("apply", "-f", "-", stdin=as_yaml([volume(**lustre), claim(), *ray_objects(replicas)]))


def get_raycluster(server: KubeTestServer) -> Any:
    from kubernetes import client

    return client.CustomObjectsApi(server.client()).get_namespaced_custom_object(*RAY)


def condition_status(obj: Any, name: str) -> str:
    found: Any = next((c for c in obj.get("status", {}).get("conditions", ()) if c["type"] == name), {})
    return f"{found.get('status')} {found.get('reason')}"


def wait_for_raycluster(server: KubeTestServer, workers: int = 2) -> Any:
    """Waits for a live head and this many ready workers."""

    def look() -> Any:
        cluster = get_raycluster(server)
        head = condition_status(cluster, "HeadPodReady").startswith("True")
        return cluster if head and cluster["status"]["readyWorkerReplicas"] == workers else None

    return wait_until(look)


def ray_pods(server: KubeTestServer, role: str) -> list[JSON]:
    """Pods of the RayCluster as plain JSON: role is head or worker."""
    done = server.kubectl("get", "pods", "-l", f"ray.io/node-type={role}", "-o", "json")
    return list(json.loads(done.stdout)["items"])


def event_messages(server: KubeTestServer, reason: str) -> list[str]:
    """Messages of the events with this reason."""
    done = server.kubectl("get", "events", "-o", "json", "--field-selector", f"reason={reason}")
    return [e["message"] for e in json.loads(done.stdout)["items"]]
