"""Kubernetes objects of every kind that we make: the manifest is the spec."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grpo_wizard.steps.clients.context import Cloud
from grpo_wizard.steps.clients.driver import Driver, Task
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.api import Kube, connect
from grpo_wizard.steps.clients.serialization import JSON, differences, mark_in, marked
from grpo_wizard.steps.core.model import Drift, SecretValue, Sight, State

PLURALS = {
    "Namespace": "namespaces",
    "Secret": "secrets",
    "ConfigMap": "configmaps",
    "ServiceAccount": "serviceaccounts",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "DaemonSet": "daemonsets",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "NetworkPolicy": "networkpolicies",
    "GKENetworkParamSet": "gkenetworkparamsets",
    "Network": "networks",
    "RayCluster": "rayclusters",
}
_LABELS = "metadata.labels"


def collection(manifest: Mapping[str, Any]) -> str:
    """The path of the collection that an object belongs to."""
    version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    return f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{PLURALS[manifest['kind']]}"


class KubeDriver(Driver):
    """Looks, makes, patches and deletes one object. What readiness means is said by the kinds that have one."""

    changeable = frozenset({"spec", "data", "rules", "subjects", "metadata.labels", "metadata.annotations"})

    def path(self, task: Task) -> str:
        return f"{collection(task.spec)}/{task.name}"

    def kube(self, cloud: Cloud, task: Task) -> Kube | None:
        """The cluster's API, None while the cluster is not there or not up."""
        return connect(cloud, task.at("project"), task.at("location"), task.at("cluster"))

    def look(self, cloud: Cloud, task: Task) -> Sight:
        kube = self.kube(cloud, task)
        live = kube.get(self.path(task)) if kube else None
        if live is None:
            return Sight()
        meta = live["metadata"]
        state, detail = self.readiness(live)
        if meta.get("deletionTimestamp"):
            state, detail = "deleting", ""
        return Sight(
            state,
            mark_in(live, _LABELS),
            meta.get("uid", ""),
            tuple(differences(self.compared(task), live)),
            detail,
            self.facts(live),
        )

    def readiness(self, live: JSON) -> tuple[State, str]:
        return "ready", ""

    def facts(self, live: JSON) -> dict[str, str]:
        return {}

    def compared(self, task: Task) -> Mapping[str, Any]:
        return task.spec

    def body(self, cloud: Cloud, task: Task) -> JSON:
        return marked(task.spec, task.mark, _LABELS)

    def create(self, cloud: Cloud, task: Task) -> str:
        kube = self._up(cloud, task)
        kube.send("POST", collection(task.spec), self.body(cloud, task))
        return ""

    def change(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        self._up(cloud, task).send("PATCH", self.path(task), self.body(cloud, task))
        return ""

    def delete(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        kube = self.kube(cloud, task)
        if kube:
            kube.send(
                "DELETE",
                self.path(task),
                {"propagationPolicy": "Foreground", "preconditions": {"uid": sight.identity}},
            )
        return ""

    def _up(self, cloud: Cloud, task: Task) -> Kube:
        place = task.at("project"), task.at("location"), task.at("cluster")
        kube = connect(cloud, *place) or connect(cloud, *place, fresh=True)
        if kube is None:
            raise CloudError("busy", f"cluster {task.at('cluster')} is not up", transient=True)
        return kube


class SecretDriver(KubeDriver):
    """The tokens go from memory into the Secret, and nowhere else. A token that is given now replaces another that is there."""

    changeable = KubeDriver.changeable | {"tokens"}

    def look(self, cloud: Cloud, task: Task) -> Sight:
        seen = super().look(cloud, task)
        kube = self.kube(cloud, task)
        live = kube.get(self.path(task)) if kube and seen.state == "ready" else None
        stale = self._stale(cloud, task, live or {}) if live else []
        drift = tuple(Drift(f"tokens.{key}", "the one given now", "another") for key in stale)
        return replace(seen, drift=seen.drift + drift)

    def compared(self, task: Task) -> Mapping[str, Any]:
        return {key: value for key, value in task.spec.items() if key != "stringData"}

    def body(self, cloud: Cloud, task: Task) -> JSON:
        return marked(self.compared(task), task.mark, _LABELS) | {
            "stringData": self._values(cloud, task, made_up=True)
        }

    def change(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        body = self.body(cloud, task) | {"stringData": self._values(cloud, task, made_up=False)}
        self._up(cloud, task).send("PATCH", self.path(task), body)
        return ""

    def _stale(self, cloud: Cloud, task: Task, live: JSON) -> list[str]:
        """Keys whose value is not that of a token that the user gave. Values never leave this function."""
        held = live.get("data") or {}
        given = self._values(cloud, task, made_up=False)
        return [
            key for key, value in given.items() if held.get(key) != base64.b64encode(value.encode()).decode()
        ]

    def _values(self, cloud: Cloud, task: Task, made_up: bool) -> dict[str, str]:
        values: dict[str, str] = {}
        for key, wanted in task.spec["stringData"].items():
            name = wanted.name if isinstance(wanted, SecretValue) else ""
            if name in cloud.secrets and (made_up or name not in cloud.made_up):
                values[key] = cloud.secrets[name].reveal()
        return values


class DaemonSetDriver(KubeDriver):
    def readiness(self, live: JSON) -> tuple[State, str]:
        """0 of 0 is ready: there is no GPU node yet."""
        status = live.get("status", {})
        wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
        seen = int(status.get("observedGeneration", 0)) >= int(live["metadata"].get("generation", 0))
        return ("ready" if seen and ready >= wanted else "creating"), f"{ready} of {wanted} nodes"


class ClaimDriver(KubeDriver):
    def readiness(self, live: JSON) -> tuple[State, str]:
        phase = live.get("status", {}).get("phase", "Pending")
        return (
            "ready" if phase == "Bound" else "failed" if phase == "Lost" else "creating"
        ), f"claim is {phase}"


class VolumeDriver(KubeDriver):
    def readiness(self, live: JSON) -> tuple[State, str]:
        phase = live.get("status", {}).get("phase", "Available")
        return ("failed" if phase == "Failed" else "ready"), f"volume is {phase}"
