"""RayClusters: made with no workers, raised when the head is ready, ready when every worker is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from grpo_wizard.steps.clients.context import Cloud
from grpo_wizard.steps.clients.driver import Task
from grpo_wizard.steps.clients.kubernetes.api import Kube
from grpo_wizard.steps.clients.kubernetes.objects import KubeDriver
from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.pods import is_head, is_ready, pods_of, trouble
from grpo_wizard.steps.clients.serialization import JSON
from grpo_wizard.steps.core.model import Sight, State, Trouble

RELEASED = "grpo-wizard/released"


class RayClusterDriver(KubeDriver):
    """`status.state` latches and is not trusted: the head's live condition and the workers' own readiness count."""

    changeable = frozenset({"spec.workerGroupSpecs", "metadata.annotations"})

    def look(self, cloud: Cloud, task: Task) -> Sight:
        seen = super().look(cloud, task)
        kube = self.kube(cloud, task)
        if kube is None or seen.state in ("absent", "deleting"):
            return seen
        live = kube.get(self.path(task)) or {}
        state, detail, why = self._state(kube, task, live)
        drift = self._drift(seen, live, state)
        return Sight(state, seen.mark, seen.identity, drift, detail, self._facts(live), why)

    def _state(self, kube: Kube, task: Task, live: JSON) -> tuple[State, str, Trouble | None]:
        """Pods are counted themselves, and by the operator too: its status may be older than they are, either way."""
        pods = pods_of(kube, task.at("namespace"), task.name)
        head_ready = head_is_ready(live) and any(is_head(p) and is_ready(p) for p in pods)
        wanted = int(task.spec["spec"]["workerGroupSpecs"][0]["replicas"])
        ready = min(sum(1 for p in pods if not is_head(p) and is_ready(p)), workers_ready(live))
        if head_ready and (released(live) or (ready >= wanted and _replicas(live) >= wanted)):
            return "ready", f"head and {ready} workers ready", None
        what = f"head ready, workers {ready} of {wanted}" if head_ready else "waiting for the head"
        why = trouble(kube, task.at("namespace"), task.name, pods)
        return "creating", f"{what}: {why}" if why else what, why

    def _drift(self, seen: Sight, live: JSON, state: State) -> tuple[Any, ...]:
        """Fewer replicas than wanted are no drift while they are being raised, nor after a release."""
        coming = state == "creating" or released(live)
        return tuple(d for d in seen.drift if not (coming and d.path.endswith(("replicas", "minReplicas"))))

    def _facts(self, live: JSON) -> dict[str, str]:
        found = live.get("metadata", {}).get("annotations", {}).get(RELEASED)
        return {"released": found} if found else {}

    def body(self, cloud: Cloud, task: Task) -> JSON:
        made = super().body(cloud, task)
        group: Mapping[str, Any] = made["spec"]["workerGroupSpecs"][0]
        return json.loads(json.dumps(made)) | {
            "spec": made["spec"] | {"workerGroupSpecs": [{**group, "replicas": 0}]}
        }

    def change(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        self._up(cloud, task).send("PATCH", self.path(task), super().body(cloud, task))
        return ""

    def nudge(self, cloud: Cloud, task: Task, sight: Sight) -> None:
        kube = self.kube(cloud, task)
        live = kube.get(self.path(task)) if kube else None
        wanted = int(task.spec["spec"]["workerGroupSpecs"][0]["replicas"])
        if kube and live and not released(live) and head_is_ready(live) and _replicas(live) < wanted:
            task.tell(f"the head is ready: asking for {wanted} workers")
            raise_workers(kube, self.path(task), wanted)


def raise_workers(kube: Kube, path: str, wanted: int) -> None:
    """Replicas of the first worker group to `wanted`; a release note is taken off."""
    live = kube.get(path) or {}
    groups = live["spec"]["workerGroupSpecs"]
    groups[0] = {**groups[0], "replicas": wanted}
    kube.send(
        "PATCH", path, {"metadata": {"annotations": {RELEASED: None}}, "spec": {"workerGroupSpecs": groups}}
    )


def released(live: Mapping[str, Any]) -> bool:
    return bool(live.get("metadata", {}).get("annotations", {}).get(RELEASED))


def head_is_ready(live: Mapping[str, Any]) -> bool:
    return _condition(live, "HeadPodReady") == "True"


def workers_ready(live: Mapping[str, Any]) -> int:
    return int(live.get("status", {}).get("readyWorkerReplicas", 0))


def _replicas(live: Mapping[str, Any]) -> int:
    return int(live["spec"]["workerGroupSpecs"][0].get("replicas", 0))


def _condition(live: Mapping[str, Any], kind: str) -> str:
    return next(
        (c.get("status", "") for c in live.get("status", {}).get("conditions", []) if c.get("type") == kind),
        "",
    )
