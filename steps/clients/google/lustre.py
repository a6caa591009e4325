"""Managed Lustre instances. The API reports no percentage: an operation is done or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.steps.clients.context import CloudContext, call, get_or_none
from grpo_wizard.steps.clients.driver import Driver, Progress, ResourceContext
from grpo_wizard.steps.clients.errors import operation_error
from grpo_wizard.steps.clients.serialization import diff, owner_of, to_proto, with_owner
from grpo_wizard.steps.core.model import ObservedState, ResourceState

if TYPE_CHECKING:
    from google.api_core.operation import Operation
    from google.cloud.lustre_v1 import LustreClient

_MODULE = "google.cloud.lustre_v1"
_STATES: dict[str, ResourceState] = {
    "CREATING": "creating",
    "ACTIVE": "ready",
    "UPDATING": "ready",
    "UPGRADING": "ready",
    "REPAIRING": "ready",
    "DELETING": "deleting",
    "STOPPED": "failed",
    "SUSPENDED": "failed",
}


def lustre_client(cloud: CloudContext) -> LustreClient:
    return cloud.rest_client("lustre", _MODULE, "LustreClient")


class LustreDriver(Driver):
    updatable = frozenset({"capacityGib"})  # can only grow

    def _instance_path(self, context: ResourceContext) -> str:
        return f"projects/{context.location('project')}/locations/{context.location('location')}/instances/{context.name}"

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        live = get_or_none(
            lustre_client(cloud).get_instance, "lustre", {"name": self._instance_path(context)}
        )
        if live is None:
            return ObservedState()
        address = live.get("mountPoint", "").partition("@")[0]
        facts = {"mount_point": live.get("mountPoint", ""), "state": live.get("state", "")} | (
            {"ip": address} if address else {}
        )
        return ObservedState(
            _STATES.get(live.get("state", ""), "creating"),
            owner_of(live, "labels"),
            live.get("createTime", ""),
            tuple(diff(context.spec, live)),
            live.get("state", ""),
            facts,
        )

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        from google.cloud import lustre_v1

        request = {
            "parent": f"projects/{context.location('project')}/locations/{context.location('location')}",
            "instance_id": context.name,
            "instance": to_proto(lustre_v1.Instance, with_owner(context.spec, context.owner_label, "labels")),
            "request_id": context.request_id,
        }
        return _operation_name(call("lustre", lustre_client(cloud).create_instance, request=request))

    def update(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        from google.cloud import lustre_v1
        from google.protobuf.field_mask_pb2 import FieldMask

        instance = to_proto(
            lustre_v1.Instance,
            {"name": self._instance_path(context), "capacityGib": context.spec["capacityGib"]},
        )
        return _operation_name(
            call(
                "lustre",
                lustre_client(cloud).update_instance,
                request={"instance": instance, "update_mask": FieldMask(paths=["capacity_gib"])},
            )
        )

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        return _operation_name(
            call(
                "lustre", lustre_client(cloud).delete_instance, request={"name": self._instance_path(context)}
            )
        )

    def progress(self, cloud: CloudContext, context: ResourceContext, operation: str) -> Progress:
        client = lustre_client(cloud).transport.operations_client
        status = call("lustre", client.get_operation, name=operation)
        if status.done and status.HasField("error"):
            raise operation_error(
                "lustre.googleapis.com", _RPC_CODE_TO_HTTP.get(status.error.code, 0), status.error.message
            )
        return Progress(bool(status.done))


_RPC_CODE_TO_HTTP = {
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


def _operation_name(future: Operation) -> str:
    return str(future.operation.name)
