"""When init containers finish. They are not executed: what they wait for is derived from the pod."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import daemonsets, network_policy

HEAD_WAIT = "wait-gcs-ready"  # KubeRay's init container of workers
_INIT_RUN_S = 3.0
_GCS = 6379
_GIB, _DRIVER = "/home/kubernetes/bin/gib", "/home/kubernetes/bin/nvidia"


def is_finished(kube: ClusterContext, pod: JSON, container: JSON, timer: str) -> bool:
    """Return whether an init container has finished.

    KubeRay's waits for the head; one that mounts the host's gIB or driver folder waits for those; others run
    for 3 s.
    """
    if container["name"] == HEAD_WAIT:
        return _head_ready(kube, pod)
    if not _is_gib_installer(container, pod):
        paths = host_paths(pod, container)
        if _GIB in paths and not is_gib_installed(kube, pod["spec"]["nodeName"]):
            return False
        if _DRIVER in paths and not _is_driver_installed(kube, pod["spec"]["nodeName"]):
            return False
    return kube.timer_expired(timer, 20.0 if _is_gib_installer(container, pod) else _INIT_RUN_S)


def _is_gib_installer(container: JSON, pod: JSON) -> bool:
    """Return whether the pod belongs to the DaemonSet that installs gIB, which does not wait for itself."""
    return is_daemon_set_pod(pod) and _GIB in host_paths(pod, container)


def is_daemon_set_pod(pod: JSON) -> bool:
    return any(r["kind"] == "DaemonSet" for r in pod["metadata"].get("ownerReferences", ()))


def host_paths(pod: JSON, container: JSON) -> set[str]:
    """Return the host folders that a container mounts."""
    volumes = {
        v["name"]: v["hostPath"]["path"].rstrip("/")
        for v in pod["spec"].get("volumes", ())
        if "hostPath" in v
    }
    return {volumes[m["name"]] for m in container.get("volumeMounts", ()) if m["name"] in volumes}


def is_gib_installed(kube: ClusterContext, node: str) -> bool:
    """Return whether a DaemonSet's pod that fills the gIB folder is ready on the node."""
    return any(
        p["spec"].get("nodeName") == node
        and is_daemon_set_pod(p)
        and daemonsets.is_ready(p)
        and any(_GIB in host_paths(p, c) for c in p["spec"].get("initContainers", ()))
        for p in kube.store.list(kinds.POD)
    )


def _is_driver_installed(kube: ClusterContext, name: str) -> bool:
    node = kube.store.find(kinds.NODE, "", name)
    return bool(node and "nvidia.com/gpu" in node["status"]["allocatable"])


def _head_ready(kube: ClusterContext, pod: JSON) -> bool:
    cluster = (pod["metadata"].get("labels") or {}).get("ray.io/cluster")
    return any(
        (p["metadata"].get("labels") or {}).get("ray.io/cluster") == cluster
        and p["metadata"]["labels"].get("ray.io/node-type") == "head"
        and daemonsets.is_ready(p)
        and network_policy.is_reachable(kube, pod, p, _GCS)
        for p in kube.store.list(kinds.POD, pod["metadata"]["namespace"])
    )
