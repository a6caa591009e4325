"""GKE's operations: one a cluster at a time, with progress counters where GKE gives them.

One that failed is DONE with an error.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..contract import JSON, ApiError, Call, Record, World, happens, serves
from .durations import seconds
from .links import CONTAINER, last, place
from .operation_records import keep
from .stamps import operation_name, zulu

_DOING = {"CREATE_CLUSTER": "creating", "DELETE_CLUSTER": "deleting"}
Effect = Callable[..., bool]
_EFFECTS: dict[str, Effect] = {}
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


def effect(name: str) -> Callable[[Effect], Effect]:
    """Registers what an operation does when it is due: called as (world, target=, operation=, **args).

    It returns False where it ends the operation later itself.
    """

    def register(function: Effect) -> Effect:
        _EFFECTS[name] = function
        return function

    return register


def link(world: World, key: str) -> str:
    """GKE's own links name the project by number."""
    parts = key.split("/")
    parts[1] = world.project_number(parts[1])
    return _BASE + "/".join(parts)


def start(call: Call, kind: str, span: str, target: Record, does: str, **args: Any) -> JSON:
    """Starts an operation (`kind` as GKE's Operation.Type) on a cluster or pool.

    `does` is the effect that carries it out.
    """
    world, name = call.world, operation_name(call.world)
    where = f"projects/{target.project}/locations/{target.location}"
    key = f"{where}/operations/{name}"
    took = seconds("pool.stockout" if _is_stockout(call.operation_error) else span, target.name)
    body: JSON = {
        "name": name,
        "zone": target.location,
        "location": target.location,
        "operationType": kind,
        "status": "RUNNING",
        "startTime": zulu(world),
        "selfLink": link(world, key),
        "targetLink": link(world, target.key),
    }
    record = keep(
        call,
        CONTAINER,
        key,
        target,
        body,
        cluster=cluster_of(target.key),
        begun=world.clock.now(),
        seconds=took,
    )
    world.later(took, "container.due", operation=key, target=target.key, does=does, args=args)
    return view(world, record)


def _is_stockout(error: JSON | None) -> bool:
    return error is not None and "STOCKOUT" in str(error)


def cluster_of(key: str) -> str:
    """Key of the cluster that a cluster's or pool's key belongs to."""
    return key.split("/nodePools/")[0]


def refuse_busy(world: World, cluster: Record) -> None:
    """GKE takes one operation a cluster at a time. Wording while it is being made: case a11."""
    for record in world.all(CONTAINER, "operation", project=cluster.project):
        if record.extra["cluster"] == cluster.key and record.body["status"] != "DONE":
            doing = _DOING.get(record.body["operationType"])
            text = f"Cluster is running incompatible operation {record.name}."
            if doing:
                text = f"Operation {record.name} is currently {doing} cluster {cluster.name}. "
                text += "Please wait and try again once it is done."
            raise ApiError(400, text, "FAILED_PRECONDITION", "failedPrecondition")


@happens("container.due")
def _due(world: World, operation: str, target: str, does: str, args: JSON) -> None:
    record, thing = world.get(CONTAINER, operation), world.get(CONTAINER, target)
    if record is None or thing is None:
        return
    failure = record.extra.get("fail")
    if failure is not None:
        _EFFECTS["failed"](world, target=thing, kind=record.body["operationType"], failure=failure)
        finish(world, operation, failure)
    elif _EFFECTS[does](world, target=thing, operation=operation, **args):
        finish(world, operation)


def finish(world: World, operation: str, failure: JSON | None = None) -> None:
    """Ends an operation.

    With `failure` ({code, message}) it ends as at GKE: DONE, `error` and `statusMessage`.
    """
    record = world.get(CONTAINER, operation)
    if record is None:
        return
    record.body.update(status="DONE", endTime=zulu(world))
    if failure is not None:
        text = str(failure.get("statusMessage") or failure.get("message", ""))
        record.body["statusMessage"] = text
        record.body["error"] = {
            "code": int(failure.get("code", 13)),
            "message": str(failure.get("message", text)),
        }
    world.put(record)


def view(world: World, record: Record) -> JSON:
    """An operation as GKE shows it now."""
    body = copy.deepcopy(record.body)
    took = world.clock.shrink(record.extra.get("seconds", 0.0))
    share = (
        1.0
        if body["status"] == "DONE" or took <= 0
        else min(1.0, (world.clock.now() - record.extra["begun"]) / took)
    )
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


def _counter(name: str, total: int, share: float) -> list[JSON]:
    return [
        {"name": name, "intValue": str(round(total * max(0.0, min(1.0, share))))},
        {"name": f"{name}_TOTAL", "intValue": str(total)},
    ]


@serves("container.projects.locations.operations.get")
def get(call: Call) -> JSON:
    """One operation."""
    name = str(call.params["name"])
    record = call.world.get(CONTAINER, name)
    if record is None or record.kind != "operation":
        raise ApiError(404, f"Not found: operation {last(name)}.", "NOT_FOUND", "notFound")
    return view(call.world, record)


@serves("container.projects.locations.operations.list")
def list_(call: Call) -> JSON:
    """Operations of one location, or of all (`-`)."""
    project, where = place(str(call.params["parent"]))
    records = call.world.all(CONTAINER, "operation", project=project, location=where)
    return {"operations": [view(call.world, record) for record in records]}


@serves("container.projects.locations.operations.cancel")
def cancel(call: Call) -> JSON:
    """GKE cancels hardly any operation; neither does the rehearsal."""
    get(call)
    raise ApiError(400, "Operation is not cancelable.", "FAILED_PRECONDITION", "failedPrecondition")
