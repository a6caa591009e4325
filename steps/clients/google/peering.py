"""Private services access: our address range inside the connection between a VPC and Google's producers.

A connection is shared: ranges of others may be in it. Ours is added, and only ours is taken out again. The connection itself goes
with the last range where this tool made it, for this deployment or for one that shares the network; a stranger's stays, empty.
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

_PREEXISTING = "connection"  # memo: whose connection stood there before we came; nothing when none did
_MANAGED, _FOREIGN = "wizard", "theirs"  # every range in it bore a deployment's mark, or not so
_COMPUTE_PREFIX = "compute:"  # in front of an operation that is Compute's


class PeeringDriver(Driver):
    updatable = frozenset({"reservedPeeringRanges"})

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        live = self._fetch_connection(cloud, context)
        mine = context.spec["reservedPeeringRanges"][0]
        if live is None or mine not in live.get("reservedPeeringRanges", []):
            return ObservedState(
                outputs={_PREEXISTING: self._connection_owner(cloud, context, live)} if live else {}
            )
        return ObservedState(
            "ready",
            self._range_owner(cloud, context, mine),
            f"{live.get('peering', '')}/{mine}",
            outputs={"peering": live.get("peering", "")},
        )

    def _connection_owner(self, cloud: CloudContext, context: ResourceContext, live: JSON) -> str:
        """Made for deployments alone, as far as its ranges tell: then the last of them takes it away."""
        ranges = live.get("reservedPeeringRanges", [])
        marked = bool(ranges) and all(self._range_owner(cloud, context, name) for name in ranges)
        return _MANAGED if marked else _FOREIGN

    def _range_owner(self, cloud: CloudContext, context: ResourceContext, name: str) -> str:
        """A connection has no place for a mark; the range inside it has one."""
        try:
            found = call(
                "compute",
                compute_client(cloud, "GlobalAddressesClient").get,
                request={"project": context.location("project"), "address": name},
            )
        except CloudError as error:
            if error.kind == "not_found":
                return ""
            raise  # an answer that says nothing about the label must not change whose the connection is
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
            f"{context.location('network')} is peered already: adding our range to {len(others)} others"
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
        """Cuts the peering from our side, as the console does: a producer holds it for hours after its last instance is gone.

        Only on a network of ours: on another's it may carry what others still use, so there our range alone is taken out.
        """
        about = {"project": context.location("project"), "network": context.location("network")}
        network = to_json(call("compute", compute_client(cloud, "NetworksClient").get, request=about))
        live = self._fetch_connection(cloud, context) or {}
        name = live.get("peering")
        if not name:
            return None
        if owner_of(network, "description") != context.deployment_id:
            context.emit(
                f"producers still hold the peering of {context.location('network')}: only our range is taken out of it"
            )
            mine = context.spec["reservedPeeringRanges"]
            rest = [one for one in live.get("reservedPeeringRanges", []) if one not in mine]
            return self._set_ranges(cloud, self._network_path(cloud, context), rest)
        context.emit(
            f"producers still hold the peering of {context.location('network')}: removing it from this side"
        )
        return _COMPUTE_PREFIX + remove_peering(
            cloud, context.location("project"), context.location("network"), str(name)
        )

    def progress(self, cloud: CloudContext, context: ResourceContext, operation: str) -> Progress:
        if operation.startswith(_COMPUTE_PREFIX):
            return global_operation_progress(
                cloud, context.location("project"), operation.removeprefix(_COMPUTE_PREFIX)
            )
        seen = execute(cloud, lambda api: api.operations().get(name=operation))
        if seen.get("error"):
            raise operation_error(SERVICE, 400, str(seen["error"].get("message", "")))
        return Progress(bool(seen.get("done")))

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
