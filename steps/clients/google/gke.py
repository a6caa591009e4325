"""GKE clusters and node pools."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from grpo_wizard.steps.clients.context import Cloud, absent_is_none, call
from grpo_wizard.steps.clients.driver import Driver, Progress, Task
from grpo_wizard.steps.clients.errors import CloudError, outcome
from grpo_wizard.steps.clients.serialization import JSON, differences, document, mark_in, marked, message
from grpo_wizard.steps.core.model import Sight, State

_MODULE = "google.cloud.container_v1"
_STATES: dict[str, State] = {
    "PROVISIONING": "creating",
    "RUNNING": "ready",
    "RECONCILING": "ready",
    "STOPPING": "deleting",
    "ERROR": "failed",
    "DEGRADED": "failed",
    "RUNNING_WITH_ERROR": "failed",
}


EXCLUDED = "maintenanceExclusionDays"  # of a cluster's spec: counted from the moment in which it is made


def _no_upgrades(days: int) -> JSON:
    """A maintenance exclusion from now on: no minor version and no node is changed; patches of the control plane go on."""
    now = datetime.now(UTC).replace(microsecond=0)
    exclusion = {
        "startTime": now.isoformat().replace("+00:00", "Z"),
        "endTime": (now + timedelta(days=days)).isoformat().replace("+00:00", "Z"),
        "maintenanceExclusionOptions": {"scope": "NO_MINOR_OR_NODE_UPGRADES"},
    }
    return {"window": {"maintenanceExclusions": {"grpo-run": exclusion}}}


def container(cloud: Cloud) -> Any:
    return cloud.rest("container", _MODULE, "ClusterManagerClient")


def fetch_cluster(cloud: Cloud, project: str, location: str, name: str) -> JSON | None:
    request = {"name": f"projects/{project}/locations/{location}/clusters/{name}"}
    return absent_is_none(container(cloud).get_cluster, "container", request)


def _begun(function: Callable[..., Any], request: Any) -> str:
    """Name of the operation that a call starts."""
    return str(call("container", function, request=request).name)


class _GkeDriver(Driver):
    mark_place = ""

    def _parent(self, task: Task) -> str:
        return f"projects/{task.at('project')}/locations/{task.at('location')}"

    def fetch(self, cloud: Cloud, task: Task) -> JSON | None:
        raise NotImplementedError

    def look(self, cloud: Cloud, task: Task) -> Sight:
        live = self.fetch(cloud, task)
        if live is None:
            return Sight()
        state = _STATES.get(live.get("status", ""), "creating")
        trouble = "; ".join(c.get("message", "") for c in live.get("conditions", [])) or live.get(
            "statusMessage", ""
        )
        facts: dict[str, str] = {
            key: str(live[key])
            for key in ("endpoint", "currentMasterVersion", "currentNodeCount")
            if key in live
        }
        return Sight(
            state,
            mark_in(live, self.mark_place),
            str(live.get("id") or live.get("etag") or live.get("selfLink", "")),
            tuple(differences({k: v for k, v in task.spec.items() if k != EXCLUDED}, live)),
            trouble if state == "failed" else live.get("status", ""),
            facts,
        )

    def progress(self, cloud: Cloud, task: Task, operation: str) -> Progress:
        seen = document(
            call(
                "container",
                container(cloud).get_operation,
                request={"name": f"{self._parent(task)}/operations/{operation}"},
            )
        )
        # The one that says more: which zone is short may stand in the older field alone (cases a03).
        error = max(seen.get("error", {}).get("message", ""), seen.get("statusMessage", ""), key=len)
        if seen.get("status") == "DONE" and error:
            raise outcome("container.googleapis.com", 0, error)
        metrics = {
            m.get("name", ""): m.get("intValue") or m.get("doubleValue") or m.get("stringValue") or 0
            for m in seen.get("progress", {}).get("metrics", [])
        }
        return Progress(seen.get("status") == "DONE", _counter(metrics))


def _counter(metrics: dict[str, Any]) -> str:
    """`CLUSTER_CONFIGURING 5 of 12` from GKE's pairs NAME and NAME_TOTAL."""
    pairs = [
        (name, metrics[name], metrics[f"{name}_TOTAL"]) for name in metrics if f"{name}_TOTAL" in metrics
    ]
    return "; ".join(f"{name} {value} of {total}" for name, value, total in pairs)


class ClusterDriver(_GkeDriver):
    mark_place = "resourceLabels"
    changeable = frozenset({"nodePools.default-pool.autoscaling"})

    def fetch(self, cloud: Cloud, task: Task) -> JSON | None:
        return fetch_cluster(cloud, task.at("project"), task.at("location"), task.name)

    def create(self, cloud: Cloud, task: Task) -> str:
        from google.cloud import container_v1

        # gcloud's --labels marks the pools of the request too, so that their nodes bear the mark.
        pools = [marked(pool, task.mark, NodePoolDriver.mark_place) for pool in task.spec["nodePools"]]
        cluster = marked(task.spec, task.mark, self.mark_place) | {"nodePools": pools}
        days = cluster.pop(EXCLUDED, 0)
        cluster |= {"maintenancePolicy": _no_upgrades(int(days))} if days else {}
        body = {"cluster": cluster, "parent": self._parent(task)}
        request = message(container_v1.CreateClusterRequest, body)
        return _begun(container(cloud).create_cluster, request)

    def change(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        scaling = next(
            pool["autoscaling"] for pool in task.spec["nodePools"] if pool["name"] == "default-pool"
        )
        return _set_autoscaling(
            cloud, f"{self._parent(task)}/clusters/{task.name}/nodePools/default-pool", scaling
        )

    def delete(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        if theirs := self._pools_of_others(cloud, task):
            raise CloudError(
                "conflict",
                f"cluster {task.name} holds node pools that this deployment did not make",
                f"{', '.join(theirs)}: they would go with it",
                "delete them, or let their owner do so, then run destroy again",
            )
        return _begun(container(cloud).delete_cluster, {"name": f"{self._parent(task)}/clusters/{task.name}"})

    def _pools_of_others(self, cloud: Cloud, task: Task) -> list[str]:
        """Ours have gone before it, but for those that were made with it and what a missing mark still proves by name."""
        ours = {"default-pool", *(pool["name"] for pool in task.spec.get("nodePools", ()))}
        live = self.fetch(cloud, task) or {}
        return [
            pool["name"]
            for pool in live.get("nodePools", ())
            if pool["name"] not in ours and mark_in(pool, NodePoolDriver.mark_place) != task.lineage
        ]


class NodePoolDriver(_GkeDriver):
    mark_place = "config.resourceLabels"
    changeable = frozenset({"autoscaling"})

    def _cluster(self, task: Task) -> str:
        return f"{self._parent(task)}/clusters/{task.at('cluster')}"

    def _pool(self, task: Task) -> str:
        return f"{self._cluster(task)}/nodePools/{task.name}"

    def fetch(self, cloud: Cloud, task: Task) -> JSON | None:
        return absent_is_none(container(cloud).get_node_pool, "container", {"name": self._pool(task)})

    def create(self, cloud: Cloud, task: Task) -> str:
        from google.cloud import container_v1

        body = {"nodePool": marked(task.spec, task.mark, self.mark_place), "parent": self._cluster(task)}
        return _begun(container(cloud).create_node_pool, message(container_v1.CreateNodePoolRequest, body))

    def change(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        return _set_autoscaling(cloud, self._pool(task), dict(task.spec["autoscaling"]))

    def delete(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        return _begun(container(cloud).delete_node_pool, {"name": self._pool(task)})


def _set_autoscaling(cloud: Cloud, name: str, scaling: JSON) -> str:
    from google.cloud import container_v1

    request = message(container_v1.SetNodePoolAutoscalingRequest, {"name": name, "autoscaling": scaling})
    return _begun(container(cloud).set_node_pool_autoscaling, request)
