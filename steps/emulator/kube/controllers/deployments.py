"""Deployments, simplified: one ReplicaSet each, with the requested number of pods."""

from __future__ import annotations

import hashlib
import json

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import defaults, kinds
from grpo_wizard.steps.emulator.kube.api.copies import deep_copy
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import daemonsets


def _owned_by(objects: list[JSON], uid: str) -> list[JSON]:
    return [o for o in objects if any(r["uid"] == uid for r in o["metadata"].get("ownerReferences", ()))]


def reconcile(kube: ClusterContext) -> None:
    for deployment in kube.store.list(kinds.DEPLOYMENT):
        if "deletionTimestamp" not in deployment["metadata"]:
            _deployment(kube, deployment)
    sets = kube.store.list(kinds.REPLICA_SET)
    pods = kube.store.list(kinds.POD) if sets else []
    for one in sets:
        if "deletionTimestamp" not in one["metadata"]:
            _update_replica_status(kube, one, _owned_by(pods, one["metadata"]["uid"]))


def _deployment(kube: ClusterContext, deployment: JSON) -> None:
    meta, spec = deployment["metadata"], deployment["spec"]
    digest = hashlib.sha256(json.dumps(spec["template"], sort_keys=True).encode()).hexdigest()[:10]
    name, extra = f"{meta['name']}-{digest}", {"pod-template-hash": digest}
    sets = _owned_by(kube.store.list(kinds.REPLICA_SET, meta["namespace"]), meta["uid"])
    current = next((s for s in sets if s["metadata"]["name"] == name), None)
    if current is None:
        template = deep_copy(spec["template"])
        template.setdefault("metadata", {}).setdefault("labels", {}).update(extra)
        selector = {"matchLabels": {**spec["selector"].get("matchLabels", {}), **extra}}
        current = kube.store.create(
            kinds.REPLICA_SET,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "spec": {"replicas": spec["replicas"], "selector": selector, "template": template},
                "metadata": {
                    "name": name,
                    "namespace": meta["namespace"],
                    "labels": template["metadata"]["labels"],
                    "ownerReferences": [daemonsets.owner_reference(kinds.DEPLOYMENT, deployment)],
                },
            },
        )
    for other in sets:
        wanted = spec["replicas"] if other is current else 0
        if other["spec"]["replicas"] != wanted:
            _resize(kube, other, wanted)
    ready = current.get("status", {}).get("readyReplicas", 0)
    current = {
        "observedGeneration": meta["generation"],
        "conditions": [
            {
                "type": "Available",
                "status": "True" if ready >= spec["replicas"] else "False",
                "reason": "MinimumReplicasAvailable"
                if ready >= spec["replicas"]
                else "MinimumReplicasUnavailable",
            }
        ],
    }
    current |= {k: ready for k in ("readyReplicas", "availableReplicas") if ready}
    current |= {k: spec["replicas"] for k in ("replicas", "updatedReplicas") if spec["replicas"]}
    if deployment.get("status") != current:
        kube.edit_object(kinds.DEPLOYMENT, deployment, lambda o: o.update(status=current))


def _resize(kube: ClusterContext, one: JSON, wanted: int) -> None:
    kube.edit_object(kinds.REPLICA_SET, one, lambda o: o["spec"].update(replicas=wanted))


def _update_replica_status(kube: ClusterContext, one: JSON, pods: list[JSON]) -> None:
    live = [
        p
        for p in pods
        if "deletionTimestamp" not in p["metadata"]
        and p["status"].get("phase") not in ("Failed", "Succeeded")
    ]
    wanted = one["spec"]["replicas"]
    for _ in range(wanted - len(live)):
        spec = deep_copy(one["spec"]["template"]["spec"])
        defaults.set_pod_spec_defaults(spec)
        daemonsets.make_pod(kube, kinds.REPLICA_SET, one, spec)
    for pod in live[wanted:]:
        kube.store.mark_deleted(kinds.POD, pod, 30, []) if pod["spec"].get("nodeName") else kube.store.remove(
            kinds.POD, pod
        )
    ready = sum(1 for p in live[:wanted] if daemonsets.is_ready(p))
    kube.set_status(
        kinds.REPLICA_SET,
        one,
        replicas=min(len(live), wanted),
        readyReplicas=ready,
        observedGeneration=one["metadata"]["generation"],
    )
