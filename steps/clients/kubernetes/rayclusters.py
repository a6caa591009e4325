"""RayClusters: created without workers, scaled up when the head is ready, ready when every worker is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.kubernetes.api import KubeClient
from grpo_wizard.steps.clients.kubernetes.objects import KubeDriver
from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.pods import (
    diagnose_raycluster,
    is_head,
    is_ready,
    list_pods,
)
from grpo_wizard.steps.clients.serialization import JSON
from grpo_wizard.steps.core.model import Diagnosis, Drift, ObservedState, ResourceState

RELEASED_ANNOTATION = "grpo-wizard/released"


class RayClusterDriver(KubeDriver):
    """`status.state` stays ready after a failure and is not used: the head's condition and the pods' readiness decide."""

    updatable = frozenset({"spec.workerGroupSpecs", "metadata.annotations"})

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        observed = super().read(cloud, context)
        kube = self.kube_client(cloud, context)
        if kube is None or observed.state in ("absent", "deleting"):
            return observed
        live = kube.get(self.path(context)) or {}
        state, detail, diagnosis = self._state(kube, context, live)
        return ObservedState(
            state,
            observed.owner_label,
            observed.identity,
            self._drift(observed, live, state),
            detail,
            self._outputs(live),
            diagnosis,
        )

    def _state(
        self, kube: KubeClient, context: ResourceContext, live: JSON
    ) -> tuple[ResourceState, str, Diagnosis | None]:
        """Ready workers are counted from the pods and from the operator's status; either may be outdated, so the lower counts."""
        pods = list_pods(kube, context.location("namespace"), context.name)
        head_ready = head_is_ready(live) and any(is_head(p) and is_ready(p) for p in pods)
        wanted = _configured_replicas(context)
        ready = min(sum(1 for p in pods if not is_head(p) and is_ready(p)), ready_worker_count(live))
        if head_ready and (is_scaled_down(live) or (ready >= wanted and _desired_replicas(live) >= wanted)):
            return "ready", f"head and {ready} workers ready", None
        progress = f"head ready, workers {ready} of {wanted}" if head_ready else "waiting for the head"
        diagnosis = diagnose_raycluster(kube, context.location("namespace"), context.name, pods)
        return "creating", f"{progress}: {diagnosis}" if diagnosis else progress, diagnosis

    def _drift(self, observed: ObservedState, live: JSON, state: ResourceState) -> tuple[Drift, ...]:
        """Missing replicas are not drift while the cluster scales up, nor after its nodes were released."""
        scaling = state == "creating" or is_scaled_down(live)
        return tuple(
            d for d in observed.drift if not (scaling and d.path.endswith(("replicas", "minReplicas")))
        )

    def _outputs(self, live: JSON) -> dict[str, str]:
        found = live.get("metadata", {}).get("annotations", {}).get(RELEASED_ANNOTATION)
        return {"released": found} if found else {}

    def body(self, cloud: CloudContext, context: ResourceContext) -> JSON:
        body = super().body(cloud, context)
        group: Mapping[str, Any] = body["spec"]["workerGroupSpecs"][0]
        return json.loads(json.dumps(body)) | {
            "spec": body["spec"] | {"workerGroupSpecs": [{**group, "replicas": 0}]}
        }

    def update(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        self._require_client(cloud, context).send("PATCH", self.path(context), super().body(cloud, context))
        return ""

    def advance(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> None:
        kube = self.kube_client(cloud, context)
        live = kube.get(self.path(context)) if kube else None
        wanted = _configured_replicas(context)
        if (
            kube
            and live
            and not is_scaled_down(live)
            and head_is_ready(live)
            and _desired_replicas(live) < wanted
        ):
            context.emit(f"the head is ready: requesting {wanted} workers")
            scale_workers(kube, self.path(context), wanted)


def scale_workers(kube: KubeClient, path: str, replicas: int) -> None:
    """Set the replicas of the first worker group, and remove the annotation of released nodes."""
    live = kube.get(path) or {}
    groups = live["spec"]["workerGroupSpecs"]
    groups[0] = {**groups[0], "replicas": replicas}
    kube.send(
        "PATCH",
        path,
        {"metadata": {"annotations": {RELEASED_ANNOTATION: None}}, "spec": {"workerGroupSpecs": groups}},
    )


def is_scaled_down(live: Mapping[str, Any]) -> bool:
    return bool(live.get("metadata", {}).get("annotations", {}).get(RELEASED_ANNOTATION))


def head_is_ready(live: Mapping[str, object]) -> bool:
    return _condition_status(live, "HeadPodReady") == "True"


def ready_worker_count(live: Mapping[str, Any]) -> int:
    return int(live.get("status", {}).get("readyWorkerReplicas", 0))


def _configured_replicas(context: ResourceContext) -> int:
    """The workers that the answers ask for; 0 for a RayCluster that they no longer name."""
    groups = context.spec.get("spec", {}).get("workerGroupSpecs", [{"replicas": 0}])
    return int(groups[0]["replicas"])


def _desired_replicas(live: Mapping[str, Any]) -> int:
    return int(live["spec"]["workerGroupSpecs"][0].get("replicas", 0))


def _condition_status(live: Mapping[str, Any], kind: str) -> str:
    return next(
        (c.get("status", "") for c in live.get("status", {}).get("conditions", []) if c.get("type") == kind),
        "",
    )
