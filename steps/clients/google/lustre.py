"""Managed Lustre instances. No percentage exists: an operation is done or it is not."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.clients.context import Cloud, absent_is_none, call
from grpo_wizard.steps.clients.driver import Driver, Progress, Task
from grpo_wizard.steps.clients.errors import outcome
from grpo_wizard.steps.clients.serialization import differences, mark_in, marked, message
from grpo_wizard.steps.core.model import Sight, State

_MODULE = "google.cloud.lustre_v1"
_STATES: dict[str, State] = {
    "CREATING": "creating",
    "ACTIVE": "ready",
    "UPDATING": "ready",
    "UPGRADING": "ready",
    "REPAIRING": "ready",
    "DELETING": "deleting",
    "STOPPED": "failed",
    "SUSPENDED": "failed",
}


def lustre(cloud: Cloud) -> Any:
    return cloud.rest("lustre", _MODULE, "LustreClient")


class LustreDriver(Driver):
    changeable = frozenset({"capacityGib"})  # grows only; the API refuses less

    def _name(self, task: Task) -> str:
        return f"projects/{task.at('project')}/locations/{task.at('location')}/instances/{task.name}"

    def look(self, cloud: Cloud, task: Task) -> Sight:
        live = absent_is_none(lustre(cloud).get_instance, "lustre", {"name": self._name(task)})
        if live is None:
            return Sight()
        address = live.get("mountPoint", "").partition("@")[0]
        facts = {"mount_point": live.get("mountPoint", ""), "state": live.get("state", "")} | (
            {"ip": address} if address else {}
        )
        return Sight(
            _STATES.get(live.get("state", ""), "creating"),
            mark_in(live, "labels"),
            live.get("createTime", ""),
            tuple(differences(task.spec, live)),
            live.get("state", ""),
            facts,
        )

    def create(self, cloud: Cloud, task: Task) -> str:
        from google.cloud import lustre_v1

        request = {
            "parent": f"projects/{task.at('project')}/locations/{task.at('location')}",
            "instance_id": task.name,
            "instance": message(lustre_v1.Instance, marked(task.spec, task.mark, "labels")),
            "request_id": task.request_id,
        }
        return _started(call("lustre", lustre(cloud).create_instance, request=request))

    def change(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        from google.cloud import lustre_v1
        from google.protobuf.field_mask_pb2 import FieldMask

        instance = message(
            lustre_v1.Instance, {"name": self._name(task), "capacityGib": task.spec["capacityGib"]}
        )
        return _started(
            call(
                "lustre",
                lustre(cloud).update_instance,
                request={"instance": instance, "update_mask": FieldMask(paths=["capacity_gib"])},
            )
        )

    def delete(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        return _started(call("lustre", lustre(cloud).delete_instance, request={"name": self._name(task)}))

    def progress(self, cloud: Cloud, task: Task, operation: str) -> Progress:
        client = lustre(cloud).transport.operations_client
        seen = call("lustre", client.get_operation, name=operation)
        if seen.done and seen.HasField("error"):
            raise outcome("lustre.googleapis.com", _HTTP.get(seen.error.code, 0), seen.error.message)
        return Progress(bool(seen.done))


_HTTP = {
    3: 400,
    5: 404,
    6: 409,
    7: 403,
    8: 429,
    9: 400,
    10: 409,
    13: 500,
    14: 503,
    16: 401,
}  # google.rpc.Code to HTTP


def _started(future: Any) -> str:
    return str(future.operation.name)
