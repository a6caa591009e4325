"""Private services access: a deployment's address range inside the connection between a VPC and Google's producers.

A connection is shared with other ranges. Ours is added to them, and only ours is removed. The connection is deleted with its last
range if grpo-wizard created it, for this deployment or for another on the same network; one that existed before stays, empty.
"""

from __future__ import annotations

from grpo_wizard.steps.clients.context import CloudContext, call
from grpo_wizard.steps.clients.driver import Driver, Progress, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError, operation_error
from grpo_wizard.steps.clients.google.compute import (
    compute_client,
    global_operation_progress,
    remove_peering,
)
from grpo_wizard.steps.clients.google.service_networking import (
    PARENT,
    SERVICE,
    execute,
    fetch_connection,
    network_path,
    start_operation,
)
from grpo_wizard.steps.clients.serialization import JSON, owner_of, to_json
from grpo_wizard.steps.core.model import ObservedState

_PREEXISTING = (
    "connection"  # output: who owned the connection before our range was added; absent when there was none
)
_MANAGED, _FOREIGN = "wizard", "theirs"  # every range in it had a deployment's label, or not every one
_COMPUTE_PREFIX = "compute:"  # prefix of an operation of Compute Engine


class PeeringDriver(Driver):
    updatable = frozenset({"reservedPeeringRanges"})

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        live = self._fetch_connection(cloud, context)
        range_name = context.spec["reservedPeeringRanges"][0]
        if live is None or range_name not in live.get("reservedPeeringRanges", []):
            return ObservedState(
                outputs={_PREEXISTING: self._connection_owner(cloud, context, live)} if live else {}
            )
        return ObservedState(
            "ready",
            self._range_owner(cloud, context, range_name),
            f"{live.get('peering', '')}/{range_name}",
            outputs={"peering": live.get("peering", "")},
        )

    def _connection_owner(self, cloud: CloudContext, context: ResourceContext, live: JSON) -> str:
        """MANAGED if every range in it belongs to a deployment: then the last deployment deletes the connection."""
        ranges = live.get("reservedPeeringRanges", [])
        managed = bool(ranges) and all(self._range_owner(cloud, context, name) for name in ranges)
        return _MANAGED if managed else _FOREIGN

    def _range_owner(self, cloud: CloudContext, context: ResourceContext, name: str) -> str:
        """The deployment on the range's label, since a connection has no labels. Raises CloudError."""
        try:
            found = call(
                "compute",
                compute_client(cloud, "GlobalAddressesClient").get,
                request={"project": context.location("project"), "address": name},
            )
        except CloudError as error:
            if error.kind == "not_found":
                return ""
            raise  # a failed read must not change the owner of the connection
        return owner_of(to_json(found), "description", "labels")

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        live = self._fetch_connection(cloud, context)
        network = self._network_path(cloud, context)
        wanted = list(context.spec["reservedPeeringRanges"])
        if live is None:
            return start_operation(
                cloud, "create", parent=PARENT, body={"network": network, "reservedPeeringRanges": wanted}
            )
        others = [name for name in live.get("reservedPeeringRanges", []) if name not in wanted]
        context.emit(
            f"{context.location('network')} already has a services connection: adding this range to {len(others)} others"
        )
        return self._set_ranges(cloud, network, others + wanted)

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        live = self._fetch_connection(cloud, context) or {}
        network = self._network_path(cloud, context)
        others = [
            name
            for name in live.get("reservedPeeringRanges", [])
            if name not in context.spec["reservedPeeringRanges"]
        ]
        if others or context.recorded.get(_PREEXISTING, _MANAGED) != _MANAGED:
            return self._set_ranges(cloud, network, others)
        return start_operation(
            cloud, "deleteConnection", name=f"{PARENT}/connections/-", body={"consumerNetwork": network}
        )

    def force_delete(self, cloud: CloudContext, context: ResourceContext) -> str | None:
        """Remove the peering from our side, as the console does: a producer keeps it for hours after its last instance is deleted.

        Only on a network that this deployment created. On another network it may be in use, so only our range is removed.
        """
        request = {"project": context.location("project"), "network": context.location("network")}
        network = to_json(call("compute", compute_client(cloud, "NetworksClient").get, request=request))
        live = self._fetch_connection(cloud, context) or {}
        name = live.get("peering")
        if not name:
            return None
        if owner_of(network, "description") != context.deployment_id:
            context.emit(
                f"service producers still use the peering of {context.location('network')}: removing only this range from it"
            )
            ours = context.spec["reservedPeeringRanges"]
            others = [name for name in live.get("reservedPeeringRanges", []) if name not in ours]
            return self._set_ranges(cloud, self._network_path(cloud, context), others)
        context.emit(
            f"service producers still use the peering of {context.location('network')}: removing it from the consumer side"
        )
        return _COMPUTE_PREFIX + remove_peering(
            cloud, context.location("project"), context.location("network"), str(name)
        )

    def progress(self, cloud: CloudContext, context: ResourceContext, operation: str) -> Progress:
        if operation.startswith(_COMPUTE_PREFIX):
            return global_operation_progress(
                cloud, context.location("project"), operation.removeprefix(_COMPUTE_PREFIX)
            )
        status = execute(cloud, lambda api: api.operations().get(name=operation))
        if status.get("error"):
            raise operation_error(SERVICE, 400, str(status["error"].get("message", "")))
        return Progress(bool(status.get("done")))

    def _network_path(self, cloud: CloudContext, context: ResourceContext) -> str:
        return network_path(cloud, context.location("project"), context.location("network"))

    def _fetch_connection(self, cloud: CloudContext, context: ResourceContext) -> JSON | None:
        return fetch_connection(cloud, context.location("project"), context.location("network"))

    def _set_ranges(self, cloud: CloudContext, network: str, ranges: list[str]) -> str:
        return start_operation(
            cloud,
            "patch",
            name=f"{PARENT}/connections/-",
            updateMask="reservedPeeringRanges",
            force=True,
            body={"network": network, "reservedPeeringRanges": ranges},
        )
