"""KubeRay: creates a RayCluster's head, workers, service and token, and updates its status."""

from __future__ import annotations

import base64
import secrets

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import defaults, kinds
from grpo_wizard.steps.emulator.kube.api.copies import deep_copy
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import daemonsets, ray_pods, ray_status
from grpo_wizard.steps.emulator.kube.controllers.kuberay_spec import desired_workers, service_name

_SOURCE = "raycluster-controller"
PORTS = (("gcs-server", 6379), ("dashboard", 8265), ("client", 10001), ("metrics", 8080), ("serve", 8000))


def reconcile(kube: ClusterContext) -> None:
    """Runs only in clusters with the Ray add-on, for RayClusters that are not being deleted."""
    if "ray" not in kube.addons:
        return
    clusters = kube.store.list(kinds.RAY_CLUSTER)
    if not clusters:
        return
    pods: dict[str, list[JSON]] = {}
    for pod in kube.store.list(kinds.POD):
        for ref in pod["metadata"].get("ownerReferences", ()):
            pods.setdefault(ref["uid"], []).append(pod)
    for cluster in clusters:
        if "deletionTimestamp" not in cluster["metadata"] and not cluster["spec"].get(
            "managedBy", ""
        ).startswith("kueue"):
            _cluster(kube, cluster, pods.get(cluster["metadata"]["uid"], []))


def _cluster(kube: ClusterContext, cluster: JSON, pods: list[JSON]) -> None:
    _service(kube, cluster)
    _token(kube, cluster)
    live = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
    for pod in [p for p in live if p["status"].get("phase") in ("Failed", "Succeeded")]:
        _delete(
            kube, cluster, pod
        )  # restartPolicy Always does not restart a failed pod: the operator creates a new one
        live.remove(pod)
    if cluster["spec"].get("suspend"):
        for pod in live:
            _delete(kube, cluster, pod)
        ray_status.update_status(kube, cluster, [])
        return
    heads = [p for p in live if p["metadata"]["labels"]["ray.io/node-type"] == "head"]
    if not heads and not [
        p for p in pods if p not in live and p["metadata"]["labels"]["ray.io/node-type"] == "head"
    ]:
        _create(kube, cluster, None)
    for group in cluster["spec"].get("workerGroupSpecs", ()):
        _group(
            kube,
            cluster,
            group,
            [p for p in live if p["metadata"]["labels"]["ray.io/group"] == group["groupName"]],
        )
    known = {g["groupName"] for g in cluster["spec"].get("workerGroupSpecs", ())} | {"headgroup"}
    for pod in live:
        if pod["metadata"]["labels"]["ray.io/group"] not in known:
            _delete(kube, cluster, pod)
    ray_status.update_status(kube, cluster, live)


def _group(kube: ClusterContext, cluster: JSON, group: JSON, live: list[JSON]) -> None:
    for name in (group.get("scaleStrategy") or {}).get("workersToDelete", ()):
        for pod in [p for p in live if p["metadata"]["name"] == name]:
            _delete(kube, cluster, pod)
            live.remove(pod)
    wanted = desired_workers(group)
    for _ in range(wanted - len(live)):
        _create(kube, cluster, group)
    for pod in sorted(live, key=daemonsets.is_ready)[: max(0, len(live) - wanted)]:
        _delete(kube, cluster, pod)


def _create(kube: ClusterContext, cluster: JSON, group: JSON | None) -> None:
    pod = ray_pods.build_pod(cluster, group)
    defaults.set_defaults(kinds.POD, pod)
    made = kube.store.create(kinds.POD, pod)
    what = "Worker" if group else "Head"
    kube.record_event(
        kinds.RAY_CLUSTER,
        cluster,
        f"Created{what}Pod",
        f"Created {what.lower()} Pod {made['metadata']['namespace']}/{made['metadata']['name']}",
        _SOURCE,
    )


def _delete(kube: ClusterContext, cluster: JSON, pod: JSON) -> None:
    meta = pod["metadata"]
    what = "Head" if meta["labels"]["ray.io/node-type"] == "head" else "Worker"
    if pod["spec"].get("nodeName"):
        kube.store.mark_deleted(kinds.POD, pod, int(pod["spec"].get("terminationGracePeriodSeconds", 30)), [])
    else:
        kube.store.remove(kinds.POD, pod)
    kube.record_event(
        kinds.RAY_CLUSTER,
        cluster,
        f"Deleted{what}Pod",
        f"Deleted {what.lower()} Pod {meta['namespace']}/{meta['name']}",
        _SOURCE,
    )


def _service(kube: ClusterContext, cluster: JSON) -> None:
    meta = cluster["metadata"]
    name = service_name(meta["name"])
    if kube.store.find(kinds.SERVICE, meta["namespace"], name) is not None:
        return
    head = cluster["spec"]["headGroupSpec"]
    marks = {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster": meta["name"],
        "ray.io/identifier": f"{meta['name'][:58]}-head",
        "ray.io/node-type": "head",
    }
    service: JSON = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": marks,
            "annotations": {},
            "ownerReferences": [daemonsets.owner_reference(kinds.RAY_CLUSTER, cluster)],
        },
        "spec": {
            "type": head.get("serviceType") or "ClusterIP",
            "selector": marks,
            "ports": [
                {"name": n, "port": p, "targetPort": p, "protocol": "TCP", "appProtocol": "tcp"}
                for n, p in PORTS
            ],
        },
    }
    if service["spec"]["type"] == "ClusterIP":
        service["spec"].update(clusterIP="None", publishNotReadyAddresses=True)
    defaults.set_defaults(kinds.SERVICE, service)
    kube.store.create(kinds.SERVICE, service)
    kube.record_event(
        kinds.RAY_CLUSTER, cluster, "CreatedService", f"Created service {meta['namespace']}/{name}", _SOURCE
    )


def _token(kube: ClusterContext, cluster: JSON) -> None:
    """Set up token authentication as KubeRay does: a Secret named as the RayCluster, with key auth_token."""
    meta = cluster["metadata"]
    if kube.store.find(kinds.SECRET, meta["namespace"], meta["name"]) is None:
        kube.store.create(
            kinds.SECRET,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "Opaque",
                "data": {"auth_token": base64.b64encode(secrets.token_urlsafe(32).encode()).decode()},
                "metadata": {
                    "name": meta["name"],
                    "namespace": meta["namespace"],
                    "labels": {
                        "ray.io/cluster": meta["name"],
                        "app.kubernetes.io/created-by": "kuberay-operator",
                    },
                    "ownerReferences": deep_copy([daemonsets.owner_reference(kinds.RAY_CLUSTER, cluster)]),
                },
            },
        )
