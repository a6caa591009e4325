"""The pods that KubeRay builds from a RayCluster's templates."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.drills import kubernetes
from grpo_wizard.steps.emulator.kube.api import defaults, kinds
from grpo_wizard.steps.emulator.kube.api.copies import deep_copy
from grpo_wizard.steps.emulator.kube.controllers import daemonsets
from grpo_wizard.steps.emulator.kube.controllers.kuberay_spec import service_name
from grpo_wizard.steps.emulator.kube.node import init_containers

OVERWRITE_CMD_ANNOTATION = "ray.io/overwrite-container-cmd"


def build_pod(cluster: JSON, group: JSON | None) -> JSON:
    """Build a head pod (group None) or a worker pod."""
    spec = group or cluster["spec"]["headGroupSpec"]
    meta, template = cluster["metadata"], deep_copy(spec["template"])
    name, group_name = meta["name"], group["groupName"] if group else "headgroup"
    what = "worker" if group else "head"
    prefix = f"{name}-{group_name}-worker" if group else f"{name}-head"
    given = template.get("metadata") or {}
    labels = {
        **(given.get("labels") or {}),
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster": name,
        "ray.io/group": group_name,
        "ray.io/identifier": f"{name[:56]}-{what}",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": what,
    }
    notes = {**(given.get("annotations") or {}), "ray.io/ft-enabled": "false"}
    if drill := kubernetes.drill_of_group(cluster, what):
        notes[kubernetes.ANNOTATION] = drill
    if OVERWRITE_CMD_ANNOTATION in (meta.get("annotations") or {}):
        notes[OVERWRITE_CMD_ANNOTATION] = meta["annotations"][OVERWRITE_CMD_ANNOTATION]
    pod_spec = template["spec"]
    _command(
        cluster,
        spec,
        pod_spec["containers"][0],
        head=group is None,
        keep=notes.get(OVERWRITE_CMD_ANNOTATION) == "true",
    )
    if group:
        pod_spec.setdefault("initContainers", []).append(
            _wait_init_container(cluster, pod_spec["containers"][0])
        )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": pod_spec,
        "metadata": {
            "name": f"{prefix[:57]}-{defaults.random_suffix(5)}",
            "generateName": f"{prefix}-",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": notes,
            "ownerReferences": [daemonsets.owner_reference(kinds.RAY_CLUSTER, cluster)],
        },
    }


def _head_address(cluster: JSON) -> str:
    return f"{service_name(cluster['metadata']['name'])}.{cluster['metadata']['namespace']}.svc.cluster.local"


def ray_start(cluster: JSON, group: JSON, container: JSON, *, head: bool) -> str:
    """Return the operator's `ray start` command, with the group's rayStartParams and the container's limits."""
    params = dict(group.get("rayStartParams") or {})
    limits = {
        **container.get("resources", {}).get("requests", {}),
        **container.get("resources", {}).get("limits", {}),
    }
    if str(limits.get("cpu", "")).isdigit():
        params.setdefault("num-cpus", str(limits["cpu"]))
    if str(limits.get("nvidia.com/gpu", "0")) not in ("0", ""):
        params.setdefault("num-gpus", str(limits["nvidia.com/gpu"]))
    if head:
        params.setdefault("dashboard-host", "0.0.0.0")
    else:
        params["address"] = f"{_head_address(cluster)}:6379"
    params.setdefault("metrics-export-port", "8080")
    params.setdefault("dashboard-agent-listen-port", "52365")
    flags = " ".join(f"--{k}={v}" for k, v in sorted(params.items()))
    return f"ray start {'--head ' if head else ''}--block {flags} "


def _command(cluster: JSON, group: JSON, container: JSON, *, head: bool, keep: bool) -> None:
    """Set the operator's environment and, without the overwrite annotation, its flattened container command."""
    start, name = ray_start(cluster, group, container, head=head), cluster["metadata"]["name"]
    address = _head_address(cluster)
    env: list[tuple[str, JSON]] = [
        ("RAY_CLUSTER_NAME", {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['ray.io/cluster']"}}}),
        ("RAY_CLOUD_INSTANCE_ID", {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
        ("RAY_NODE_TYPE_NAME", {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['ray.io/group']"}}}),
        ("KUBERAY_GEN_RAY_START_CMD", {"value": start}),
        ("RAY_PORT", {"value": "6379"}),
        ("RAY_ADDRESS", {"value": "127.0.0.1:6379" if head else f"{address}:6379"}),
        ("RAY_USAGE_STATS_KUBERAY_IN_USE", {"value": "1"}),
        (
            "RAY_USAGE_STATS_EXTRA_TAGS",
            {"value": f"kuberay_version=v1.4.2;kuberay_crd=RayCluster;name={name}"},
        ),
        ("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", {"value": "1"}),
    ]
    if not head:
        env += [("FQ_RAY_IP", {"value": address}), ("RAY_IP", {"value": address.split(".")[0]})]
    known = {e["name"] for e in container.get("env", ())}
    container.setdefault("env", []).extend({"name": n, **v} for n, v in env if n not in known)
    if keep:
        return
    user = "  ".join((*container.get("command", ()), *container.get("args", ())))
    flat = f"ulimit -n 65536; {start}"
    container["args"] = [f" {user}  && {flat}" if user else flat]
    container["command"] = ["/bin/bash", "-c", "--"]


def _wait_init_container(cluster: JSON, ray: JSON) -> JSON:
    """Return the operator's init container: the worker waits until the head's GCS responds."""
    script = (
        f"SECONDS=0\nwhile true; do\n  if ray health-check --address {_head_address(cluster)}:6379 > "
        "/dev/null 2>&1; "
        'then\n    echo "GCS is ready."\n    break\n  fi\n  sleep 5\ndone\n'
    )
    limits = {"cpu": "200m", "memory": "256Mi"}
    return {
        "name": init_containers.HEAD_WAIT,
        "image": ray["image"],
        "imagePullPolicy": ray.get("imagePullPolicy", "IfNotPresent"),
        "command": ["/bin/bash", "-c", "--"],
        "args": [script],
        "env": deep_copy(ray.get("env", [])),
        "volumeMounts": deep_copy(ray.get("volumeMounts", [])),
        "resources": {"limits": limits, "requests": limits},
    }
