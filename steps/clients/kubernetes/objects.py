"""Drivers of Kubernetes objects: the manifest is the spec."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.driver import Driver, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.api import KubeClient, connect_cluster
from grpo_wizard.steps.clients.registry import PLURALS
from grpo_wizard.steps.clients.serialization import JSON, diff, owner_of, with_owner
from grpo_wizard.steps.core.model import Drift, ObservedState, ResourceState, SecretValue

_LABELS = "metadata.labels"


def collection_path(manifest: Mapping[str, Any]) -> str:
    """The API path of an object's collection."""
    version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    return f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{PLURALS[manifest['kind']]}"


class KubeDriver(Driver):
    """Reads, creates, patches and deletes one object. Kinds with a notion of readiness override `readiness`."""

    updatable = frozenset({"spec", "data", "rules", "subjects", "metadata.labels", "metadata.annotations"})

    def path(self, context: ResourceContext) -> str:
        return f"{collection_path(context.spec)}/{context.name}"

    def kube_client(self, cloud: CloudContext, context: ResourceContext) -> KubeClient | None:
        """The cluster's API, None while the cluster does not exist or is not ready."""
        return connect_cluster(
            cloud, context.location("project"), context.location("location"), context.location("cluster")
        )

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        kube = self.kube_client(cloud, context)
        live = kube.get(self.path(context)) if kube else None
        if live is None:
            return ObservedState()
        meta = live["metadata"]
        state, detail = self.readiness(live)
        if meta.get("deletionTimestamp"):
            state, detail = "deleting", ""
        return ObservedState(
            state,
            owner_of(live, _LABELS),
            meta.get("uid", ""),
            tuple(diff(self.comparable_spec(context), live)),
            detail,
            self.outputs(live),
        )

    def readiness(self, live: JSON) -> tuple[ResourceState, str]:
        return "ready", ""

    def outputs(self, live: JSON) -> dict[str, str]:
        return {}

    def comparable_spec(self, context: ResourceContext) -> Mapping[str, object]:
        return context.spec

    def body(self, cloud: CloudContext, context: ResourceContext) -> JSON:
        return with_owner(context.spec, context.owner_label, _LABELS)

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        kube = self._require_client(cloud, context)
        kube.send("POST", collection_path(context.spec), self.body(cloud, context))
        return ""

    def update(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        self._require_client(cloud, context).send("PATCH", self.path(context), self.body(cloud, context))
        return ""

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        kube = self.kube_client(cloud, context)
        if kube:
            kube.send(
                "DELETE",
                self.path(context),
                {"propagationPolicy": "Foreground", "preconditions": {"uid": observed.identity}},
            )
        return ""

    def _require_client(self, cloud: CloudContext, context: ResourceContext) -> KubeClient:
        parent = context.location("project"), context.location("location"), context.location("cluster")
        kube = connect_cluster(cloud, *parent) or connect_cluster(cloud, *parent, fresh=True)
        if kube is None:
            raise CloudError("busy", f"Cluster {context.location('cluster')} is not ready", transient=True)
        return kube


class SecretDriver(KubeDriver):
    """Writes the tokens from memory into the Secret, and to no other place. A token given now replaces the stored one."""

    updatable = KubeDriver.updatable | {"tokens"}

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        observed = super().read(cloud, context)
        kube = self.kube_client(cloud, context)
        live = kube.get(self.path(context)) if kube and observed.state == "ready" else None
        stale = self._outdated_keys(cloud, context, live or {}) if live else []
        drift = tuple(Drift(f"tokens.{key}", "the token given now", "another token") for key in stale)
        return replace(observed, drift=observed.drift + drift)

    def comparable_spec(self, context: ResourceContext) -> Mapping[str, object]:
        return {key: value for key, value in context.spec.items() if key != "stringData"}

    def body(self, cloud: CloudContext, context: ResourceContext) -> JSON:
        return with_owner(self.comparable_spec(context), context.owner_label, _LABELS) | {
            "stringData": self._token_values(cloud, context, include_placeholders=True)
        }

    def update(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        body = self.body(cloud, context) | {
            "stringData": self._token_values(cloud, context, include_placeholders=False)
        }
        self._require_client(cloud, context).send("PATCH", self.path(context), body)
        return ""

    def _outdated_keys(self, cloud: CloudContext, context: ResourceContext, live: JSON) -> list[str]:
        """Keys whose stored value differs from the token that the user gave. Values never leave this function."""
        held = live.get("data") or {}
        given = self._token_values(cloud, context, include_placeholders=False)
        return [
            key for key, value in given.items() if held.get(key) != base64.b64encode(value.encode()).decode()
        ]

    def _token_values(
        self, cloud: CloudContext, context: ResourceContext, include_placeholders: bool
    ) -> dict[str, str]:
        values: dict[str, str] = {}
        for key, wanted in context.spec.get("stringData", {}).items():
            name = wanted.name if isinstance(wanted, SecretValue) else ""
            if name in cloud.secrets and (include_placeholders or name not in cloud.placeholder_secrets):
                values[key] = cloud.secrets[name].reveal()
        return values


class DaemonSetDriver(KubeDriver):
    def readiness(self, live: JSON) -> tuple[ResourceState, str]:
        """0 of 0 is ready: no GPU node exists yet."""
        status = live.get("status", {})
        wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
        current = int(status.get("observedGeneration", 0)) >= int(live["metadata"].get("generation", 0))
        return ("ready" if current and ready >= wanted else "creating"), f"{ready} of {wanted} nodes"


class PersistentVolumeClaimDriver(KubeDriver):
    def readiness(self, live: JSON) -> tuple[ResourceState, str]:
        phase = live.get("status", {}).get("phase", "Pending")
        return (
            "ready" if phase == "Bound" else "failed" if phase == "Lost" else "creating"
        ), f"claim is {phase}"


class PersistentVolumeDriver(KubeDriver):
    def readiness(self, live: JSON) -> tuple[ResourceState, str]:
        phase = live.get("status", {}).get("phase", "Available")
        return ("failed" if phase == "Failed" else "ready"), f"volume is {phase}"
