"""GKE's operations: one on the whole cluster, or one per pool, with GKE's progress metrics where known.

A failed operation is DONE with an error.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)
from grpo_wizard.steps.emulator.google.shared.durations import sample_seconds
from grpo_wizard.steps.emulator.google.shared.ids import operation_name, utc_timestamp
from grpo_wizard.steps.emulator.google.shared.operation_records import record_operation
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER, basename, parse_parent

# How GKE describes a running operation; all others are called incompatible. Sources: public reports (creating),
# terraform-provider-google issues 3650 (upgrading, 2019) and 10366 (deleting a node pool, 2021),
# rancher/gke-operator pull 509 (incompatible, 2024); "deleting" alone is inferred.
_OPERATION_VERBS = {
    "CREATE_CLUSTER": "creating",
    "DELETE_CLUSTER": "deleting",
    "UPGRADE_MASTER": "upgrading",
    "UPGRADE_NODES": "upgrading",
    "DELETE_NODE_POOL": "deleting a node pool for",
}
# Operations that a cluster's pools may run at once: terraform-provider-google issue 15205, 2023-07.
_MAX_CONCURRENT = 5
ContainerEffect = Callable[..., bool]
_EFFECTS: dict[str, ContainerEffect] = {}
_BASE = "https://container.googleapis.com/v1/"
# Counters of a cluster's creation. CLUSTER_CONFIGURING of 12: a real sample in elastic/cloud-on-k8s issue
# 2461; the others are inferred.
_COUNTERS = {
    "CREATE_CLUSTER": [
        ("CLUSTER_CONFIGURING", 12, 0.0, 0.5),
        ("CLUSTER_DEPLOYING", 9, 0.5, 0.95),
        ("CLUSTER_HEALTHCHECKING", 3, 0.95, 1.0),
    ],
    "DELETE_CLUSTER": [("CLUSTER_DEPLOYING", 9, 0.0, 1.0)],
    "UPGRADE_MASTER": [("CLUSTER_CONFIGURING", 12, 0.0, 1.0)],
}


def on_complete(name: str) -> Callable[[ContainerEffect], ContainerEffect]:
    """Register what an operation does when it is due: called as (store, target=, operation=, **args).

    The function returns False if it finishes the operation later.
    """

    def register(function: ContainerEffect) -> ContainerEffect:
        _EFFECTS[name] = function
        return function

    return register


def container_link(store: ResourceStore, key: str) -> str:
    """Return GKE's link, which names the project by number."""
    parts = key.split("/")
    parts[1] = store.project_number(parts[1])
    return _BASE + "/".join(parts)


def start_operation(
    call: ApiCall,
    kind: str,
    span: str,
    target: Record,
    does: str,
    *,
    times: int = 1,
    nodes: int | None = None,
    **args: Any,
) -> JSON:
    """Start an operation (`kind` as GKE's Operation.Type) on a cluster or pool.

    `does` is its effect, `times` multiplies its duration, and `nodes` is the number of nodes it processes.
    """
    store, name = call.store, operation_name(call.store)
    where = f"projects/{target.project}/locations/{target.location}"
    key = f"{where}/operations/{name}"
    took = (
        sample_seconds("pool.stockout" if _is_stockout(call.operation_error) else span, target.name) * times
    )
    body: JSON = {
        "name": name,
        "zone": target.location,
        "location": target.location,
        "operationType": kind,
        "status": "RUNNING",
        "startTime": utc_timestamp(store),
        "selfLink": container_link(store, key),
        "targetLink": container_link(store, target.key),
    }
    record = record_operation(
        call,
        CONTAINER,
        key,
        target,
        body,
        concerns=target.key,
        cluster=cluster_of(target.key),
        begun=store.clock.now(),
        seconds=took,
        nodes=nodes,
    )
    store.schedule(took, "container.due", operation=key, target=target.key, does=does, args=args)
    return view(store, record)


def _is_stockout(error: JSON | None) -> bool:
    return error is not None and "STOCKOUT" in str(error)


def cluster_of(key: str) -> str:
    """Return the cluster's key of a cluster's or pool's key."""
    return key.split("/nodePools/")[0]


def require_idle(store: ResourceStore, cluster: Record, pool: str = "") -> None:
    """Raise an error if a running operation excludes a new one on the pool (a key; "" for the whole cluster).

    GKE runs one operation per cluster, or one per pool (its page "Troubleshoot concurrent operations",
    2026-11).
    """
    running = [
        record
        for record in store.all(CONTAINER, "operation", project=cluster.project)
        if record.extra["cluster"] == cluster.key and record.body["status"] != "DONE"
    ]
    for record in running:
        if not pool or record.extra.get("concerns", cluster.key) in (cluster.key, pool):
            raise ApiError(400, _busy_message(record, cluster), "FAILED_PRECONDITION", "failedPrecondition")
    if len(running) >= _MAX_CONCURRENT:
        raise ApiError(
            429,
            f'Too many operations: cluster "{cluster.name}" hits the concurrent operations quota '
            f"{_MAX_CONCURRENT}, please try again later.",
            "RESOURCE_EXHAUSTED",
            "rateLimitExceeded",
        )


def _busy_message(running: Record, cluster: Record) -> str:
    doing = _OPERATION_VERBS.get(running.body["operationType"])
    if doing is None:
        return f"Cluster is running incompatible operation {running.name}."
    return (
        f"Operation {running.name} is currently {doing} cluster {cluster.name}. Please wait and try again once "
        "it is done."
    )


@on_event("container.due")
def _complete(store: ResourceStore, operation: str, target: str, does: str, args: JSON) -> None:
    record, resource = store.get(CONTAINER, operation), store.get(CONTAINER, target)
    if record is None:
        return
    if resource is None:
        finish_operation(store, operation, {"code": 5, "message": f"Not found: {target}."})
        return
    failure = record.extra.get("fail")
    if failure is not None:
        _EFFECTS["failed"](store, target=resource, kind=record.body["operationType"], failure=failure)
        finish_operation(store, operation, failure)
    elif _EFFECTS[does](store, target=resource, operation=operation, **args):
        finish_operation(store, operation)


def finish_operation(store: ResourceStore, operation: str, failure: JSON | None = None) -> None:
    """Finish an operation.

    With `failure` ({code, message}) it ends as at GKE: DONE, with `error` and `statusMessage`.
    """
    record = store.get(CONTAINER, operation)
    if record is None:
        return
    record.body.update(status="DONE", endTime=utc_timestamp(store))
    if failure is not None:
        text = str(failure.get("statusMessage") or failure.get("message", ""))
        record.body["statusMessage"] = text
        record.body["error"] = {
            "code": int(failure.get("code", 13)),
            "message": str(failure.get("message", text)),
        }
    store.put(record)


def view(store: ResourceStore, record: Record) -> JSON:
    """Return an operation's current state."""
    body = copy.deepcopy(record.body)
    took = store.clock.scale(record.extra.get("seconds", 0.0))
    share = (
        1.0
        if body["status"] == "DONE" or took <= 0
        else min(1.0, (store.clock.now() - record.extra["begun"]) / took)
    )
    if record.extra.get("nodes") is not None:
        _add_node_progress(body, basename(record.extra["concerns"]), record.extra["nodes"], share)
    counters = _COUNTERS.get(body["operationType"])
    if counters and "error" not in body:
        body["progress"] = {
            "metrics": [
                one
                for name, total, begin, end in counters
                for one in _counter(name, total, (share - begin) / (end - begin))
            ]
        }
    return body


def _add_node_progress(body: JSON, pool: str, total: int, share: float) -> None:
    """Add the progress of a node upgrade.

    `detail` is quoted by gcloud's users; the metrics' names are inferred.
    """
    done = total if body["status"] == "DONE" and "error" not in body else int(total * share)
    percent = 100 * done / total if total else 100
    states = ["1 being processed"] * (done < total and body["status"] != "DONE") + [f"{done} succeeded"] * (
        done > 0
    )
    body["detail"] = f"Updating {pool}, done with {done} out of {total} nodes ({percent:.1f}%)"
    body["detail"] += f": {', '.join(states)}" if states else ""
    counts = {"NODES_TOTAL": total, "NODES_FAILED": 0, "NODES_COMPLETE": done, "NODES_DONE": done}
    body["progress"] = {"metrics": [{"name": name, "intValue": str(n)} for name, n in counts.items()]}


def _counter(name: str, total: int, share: float) -> list[JSON]:
    return [
        {"name": name, "intValue": str(round(total * max(0.0, min(1.0, share))))},
        {"name": f"{name}_TOTAL", "intValue": str(total)},
    ]


@handles("container.projects.locations.operations.get")
def get(call: ApiCall) -> JSON:
    """Return one operation."""
    return view(call.store, _get_operation(call))


def _get_operation(call: ApiCall) -> Record:
    name = str(call.params["name"])
    record = call.store.get(CONTAINER, name)
    if record is None or record.kind != "operation":
        raise ApiError(404, f"Not found: operation {basename(name)}.", "NOT_FOUND", "notFound")
    return record


@handles("container.projects.locations.operations.list")
def list_(call: ApiCall) -> JSON:
    """List the operations of one location, or of all (`-`)."""
    project, where = parse_parent(str(call.params["parent"]))
    records = call.store.all(CONTAINER, "operation", project=project, location=where)
    return {"operations": [view(call.store, record) for record in records]}


@handles("container.projects.locations.operations.cancel")
def cancel(call: ApiCall) -> JSON:
    """Reject the cancellation: GKE cancels hardly any operation. The text is quoted by users."""
    kind = _get_operation(call).body["operationType"]
    raise ApiError(
        400, f"Operation type {kind} cannot be cancelled", "FAILED_PRECONDITION", "failedPrecondition"
    )
