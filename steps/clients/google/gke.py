"""GKE clusters and node pools."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from grpo_wizard.steps.clients.context import CloudContext, call, get_or_none
from grpo_wizard.steps.clients.driver import Driver, Progress, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError, operation_error
from grpo_wizard.steps.clients.serialization import JSON, diff, owner_of, to_json, to_proto, with_owner
from grpo_wizard.steps.core.model import ObservedState, ResourceState

if TYPE_CHECKING:
    from google.cloud.container_v1 import ClusterManagerClient

_MODULE = "google.cloud.container_v1"
_STATES: dict[str, ResourceState] = {
    "PROVISIONING": "creating",
    "RUNNING": "ready",
    "RECONCILING": "ready",
    "STOPPING": "deleting",
    "ERROR": "failed",
    "DEGRADED": "failed",
    "RUNNING_WITH_ERROR": "failed",
}


MAINTENANCE_EXCLUSION_DAYS = (
    "maintenanceExclusionDays"  # in a cluster's spec: counted from the cluster's creation
)


def _maintenance_exclusion(days: int) -> JSON:
    """A maintenance exclusion that starts now: no minor or node upgrades; control plane patches continue."""
    now = datetime.now(UTC).replace(microsecond=0)
    exclusion = {
        "startTime": now.isoformat().replace("+00:00", "Z"),
        "endTime": (now + timedelta(days=days)).isoformat().replace("+00:00", "Z"),
        "maintenanceExclusionOptions": {"scope": "NO_MINOR_OR_NODE_UPGRADES"},
    }
    return {"window": {"maintenanceExclusions": {"grpo-run": exclusion}}}


def container_client(cloud: CloudContext) -> ClusterManagerClient:
    return cloud.rest_client("container", _MODULE, "ClusterManagerClient")


def fetch_cluster(cloud: CloudContext, project: str, location: str, name: str) -> JSON | None:
    request = {"name": f"projects/{project}/locations/{location}/clusters/{name}"}
    return get_or_none(container_client(cloud).get_cluster, "container", request)


def _operation_name(function: Callable[..., object], request: object) -> str:
    """Call a method; return the name of the operation that it starts."""
    return str(call("container", function, request=request).name)


class _GkeDriver(Driver):
    labels_path = ""

    def _parent(self, context: ResourceContext) -> str:
        return f"projects/{context.location('project')}/locations/{context.location('location')}"

    def fetch(self, cloud: CloudContext, context: ResourceContext) -> JSON | None:
        raise NotImplementedError

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        live = self.fetch(cloud, context)
        if live is None:
            return ObservedState()
        state = _STATES.get(live.get("status", ""), "creating")
        error = "; ".join(c.get("message", "") for c in live.get("conditions", [])) or live.get(
            "statusMessage", ""
        )
        facts: dict[str, str] = {
            key: str(live[key])
            for key in ("endpoint", "currentMasterVersion", "currentNodeCount")
            if key in live
        }
        return ObservedState(
            state,
            owner_of(live, self.labels_path),
            str(live.get("id") or live.get("etag") or live.get("selfLink", "")),
            tuple(diff({k: v for k, v in context.spec.items() if k != MAINTENANCE_EXCLUSION_DAYS}, live)),
            error if state == "failed" else live.get("status", ""),
            facts,
        )

    def progress(self, cloud: CloudContext, context: ResourceContext, operation: str) -> Progress:
        status = to_json(
            call(
                "container",
                container_client(cloud).get_operation,
                request={"name": f"{self._parent(context)}/operations/{operation}"},
            )
        )
        # The longer text: only the deprecated statusMessage may name the zone that is out of capacity.
        error = max(status.get("error", {}).get("message", ""), status.get("statusMessage", ""), key=len)
        if status.get("status") == "DONE" and error:
            raise operation_error("container.googleapis.com", 0, error)
        metrics = {
            m.get("name", ""): m.get("intValue") or m.get("doubleValue") or m.get("stringValue") or 0
            for m in status.get("progress", {}).get("metrics", [])
        }
        return Progress(status.get("status") == "DONE", _progress_counter(metrics))


def _progress_counter(metrics: dict[str, object]) -> str:
    """`CLUSTER_CONFIGURING 5 of 12` from GKE's pairs NAME and NAME_TOTAL."""
    pairs = [
        (name, metrics[name], metrics[f"{name}_TOTAL"]) for name in metrics if f"{name}_TOTAL" in metrics
    ]
    return "; ".join(f"{name} {value} of {total}" for name, value, total in pairs)


class ClusterDriver(_GkeDriver):
    labels_path = "resourceLabels"
    updatable = frozenset({"nodePools.default-pool.autoscaling"})

    def fetch(self, cloud: CloudContext, context: ResourceContext) -> JSON | None:
        return fetch_cluster(cloud, context.location("project"), context.location("location"), context.name)

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        from google.cloud import container_v1

        # Like gcloud's --labels, label the pools of the request too, so that their nodes have the label.
        pools = [
            with_owner(pool, context.owner_label, NodePoolDriver.labels_path)
            for pool in context.spec["nodePools"]
        ]
        cluster = with_owner(context.spec, context.owner_label, self.labels_path) | {"nodePools": pools}
        days = cluster.pop(MAINTENANCE_EXCLUSION_DAYS, 0)
        cluster |= {"maintenancePolicy": _maintenance_exclusion(int(days))} if days else {}
        body = {"cluster": cluster, "parent": self._parent(context)}
        request = to_proto(container_v1.CreateClusterRequest, body)
        return _operation_name(container_client(cloud).create_cluster, request)

    def update(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        scaling = next(
            pool["autoscaling"] for pool in context.spec["nodePools"] if pool["name"] == "default-pool"
        )
        return _set_autoscaling(
            cloud, f"{self._parent(context)}/clusters/{context.name}/nodePools/default-pool", scaling
        )

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        if foreign := self._foreign_node_pools(cloud, context):
            raise CloudError(
                "conflict",
                f"Cluster {context.name} has node pools that this deployment did not create",
                f"They would be deleted with it: {', '.join(foreign)}.",
                "Delete them or ask their owner to, then run destroy again.",
            )
        return _operation_name(
            container_client(cloud).delete_cluster,
            {"name": f"{self._parent(context)}/clusters/{context.name}"},
        )

    def _foreign_node_pools(self, cloud: CloudContext, context: ResourceContext) -> list[str]:
        """Node pools without our label. Pools that are created with the cluster are known by name."""
        ours = {"default-pool", *(pool["name"] for pool in context.spec.get("nodePools", ()))}
        live = self.fetch(cloud, context) or {}
        return [
            pool["name"]
            for pool in live.get("nodePools", ())
            if pool["name"] not in ours
            and owner_of(pool, NodePoolDriver.labels_path) != context.deployment_id
        ]


class NodePoolDriver(_GkeDriver):
    labels_path = "config.resourceLabels"
    updatable = frozenset({"autoscaling"})

    def _cluster_path(self, context: ResourceContext) -> str:
        return f"{self._parent(context)}/clusters/{context.location('cluster')}"

    def _pool_path(self, context: ResourceContext) -> str:
        return f"{self._cluster_path(context)}/nodePools/{context.name}"

    def fetch(self, cloud: CloudContext, context: ResourceContext) -> JSON | None:
        return get_or_none(
            container_client(cloud).get_node_pool, "container", {"name": self._pool_path(context)}
        )

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        from google.cloud import container_v1

        body = {
            "nodePool": with_owner(context.spec, context.owner_label, self.labels_path),
            "parent": self._cluster_path(context),
        }
        return _operation_name(
            container_client(cloud).create_node_pool, to_proto(container_v1.CreateNodePoolRequest, body)
        )

    def update(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        return _set_autoscaling(cloud, self._pool_path(context), dict(context.spec["autoscaling"]))

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        return _operation_name(container_client(cloud).delete_node_pool, {"name": self._pool_path(context)})


def _set_autoscaling(cloud: CloudContext, name: str, scaling: JSON) -> str:
    from google.cloud import container_v1

    request = to_proto(container_v1.SetNodePoolAutoscalingRequest, {"name": name, "autoscaling": scaling})
    return _operation_name(container_client(cloud).set_node_pool_autoscaling, request)
