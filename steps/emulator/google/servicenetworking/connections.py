"""Service Networking: private connections from a VPC network to Google's service producers.

One per network, shared by all its users. "Cannot modify allocated ranges" (terraform-provider-google issues
3294 and 3819) and "Producer services" (issue 16275) are quoted by users; the other error texts are inferred.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)
from grpo_wizard.steps.emulator.google.shared import long_running
from grpo_wizard.steps.emulator.google.shared.ids import pacific_timestamp
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    LUSTRE,
    NETWORKING,
    basename,
    relative_name,
)

PEERING = "servicenetworking-googleapis-com"
_SERVICE = "services/servicenetworking.googleapis.com"
_CONNECT_S = 60.0  # takes minutes; not measured
_DELETE_S = 30.0
_DISCONNECT_DELAY_S = (
    600.0  # how long producers keep using it after their last instance: some minutes; not measured
)
_TYPE = "type.googleapis.com/google.cloud.servicenetworking.v1"
_FAILED = "FAILED_PRECONDITION"


def _network(store: ResourceStore, link: str, field: str) -> tuple[str, str]:
    """Return project id and network name of `projects/NUMBER/global/networks/NAME`.

    Raises 400 for another format, or an unknown network.
    """
    parts = link.split("/")
    if len(parts) != 5 or parts[0] != "projects" or parts[2:4] != ["global", "networks"]:
        raise ApiError(
            400,
            f"Request contains an invalid argument: {field} must be "
            f"projects/{{project}}/global/networks/{{network}}.",
            "INVALID_ARGUMENT",
        )
    if not parts[1].isdigit():
        raise ApiError(400, f"Project number must be used in {field}, not '{parts[1]}'.", "INVALID_ARGUMENT")
    return store.project_id(parts[1]), parts[4]


def connection_key(project: str, network: str) -> str:
    """Return the connection's key."""
    return f"projects/{project}/global/networks/{network}/connections/{PEERING}"


@handles("servicenetworking.services.connections.list")
def list_all(call: ApiCall) -> JSON:
    """List the connections of one network."""
    project, network = _network(call.store, call.params.get("network", ""), "network")
    _check_network(call.store, project, network)
    record = call.store.get(NETWORKING, connection_key(project, network))
    return {"connections": [record.body]} if record is not None and record.state != "creating" else {}


def _check_network(store: ResourceStore, project: str, network: str) -> None:
    if store.get(COMPUTE, f"projects/{project}/global/networks/{network}") is None:
        raise ApiError(
            403,
            "Permission denied to get the network "
            f"'projects/{store.project_number(project)}/global/networks/{network}', or it may not exist.",
            "PERMISSION_DENIED",
            "forbidden",
        )


@handles("servicenetworking.services.connections.create")
def create(call: ApiCall) -> JSON:
    """Connect a network through its allocated ranges.

    A second connect with other ranges fails: patch is for that. An empty list changes nothing (the document:
    it restores the previous ranges).
    """
    project, network = _network(call.store, call.body.get("network", ""), "network")
    _check_network(call.store, project, network)
    ranges = call.body.get("reservedPeeringRanges", [])
    args = {"project": project, "network": network, "ranges": ranges}
    if (
        call.store.get(NETWORKING, connection_key(project, network)) is None
        and call.operation_error is None
        and not _missing_ranges(call.store, project, network, ranges)
    ):
        _put_connection(call.store, project, network, ranges, "creating")
    return _start(call, _CONNECT_S, _response(call.store, **args), "connection.made", args)


def _start(call: ApiCall, seconds: float, response: JSON, effect: str, args: JSON) -> JSON:
    """Start an operation on the connection of `args` (project and network), which are its effect's arguments."""
    return long_running.start_operation(call, "pssn", seconds, response, {}, args["project"], effect, args)


def _put_connection(
    store: ResourceStore, project: str, network: str, ranges: list[str], state: str
) -> Record:
    body, key = _body(store, project, network, ranges), connection_key(project, network)
    return store.put(Record(NETWORKING, "peering", PEERING, project, "global", key, body, state))


def _body(store: ResourceStore, project: str, network: str, ranges: list[str]) -> JSON:
    number = store.project_number(project)
    return {
        "network": f"projects/{number}/global/networks/{network}",
        "peering": PEERING,
        "reservedPeeringRanges": list(ranges),
        "service": _SERVICE,
    }


def _response(store: ResourceStore, project: str, network: str, ranges: list[str]) -> JSON:
    return {"@type": f"{_TYPE}.Connection", **_body(store, project, network, ranges)}


@on_event("connection.made")
def on_connection_created(store: ResourceStore, project: str, network: str, ranges: list[str]) -> None:
    """Store the connection if its ranges exist and none exists with other ranges."""
    record = store.get(NETWORKING, connection_key(project, network))
    absent = [] if record is not None and not ranges else _missing_ranges(store, project, network, ranges)
    if absent:
        if record is not None and record.state == "creating":
            store.remove(record)
        raise ApiError(
            400,
            f"Allocated IP range '{absent[0]}' not found in network."
            if ranges
            else "No allocated IP range was given.",
            "INVALID_ARGUMENT",
        )
    if record is None:
        record = _put_connection(store, project, network, ranges, "ready")
    elif record.state != "creating" and not set(ranges) <= set(record.body["reservedPeeringRanges"]):
        raise ApiError(
            400, "Cannot modify allocated ranges in CreateConnection. Please use UpdateConnection.", _FAILED
        )
    record.state = "ready"
    record.extra.setdefault("since", pacific_timestamp(store))


def _missing_ranges(store: ResourceStore, project: str, network: str, ranges: list[str]) -> list[str]:
    """Return the ranges that are not VPC_PEERING ranges of the network; one empty name if there are none at all."""

    def stands(name: str) -> bool:
        address = store.get(COMPUTE, f"projects/{project}/global/addresses/{name}")
        return (
            address is not None
            and address.body.get("purpose") == "VPC_PEERING"
            and basename(str(address.body.get("network", ""))) == network
        )

    return [name for name in ranges if not stands(name)] if ranges else [""]


@handles("servicenetworking.services.connections.patch")
def patch(call: ApiCall) -> JSON:
    """Replace the ranges; removing one needs `force`. Removing all is accepted (inferred)."""
    project, network = _network(call.store, call.body.get("network", ""), "network")
    record = call.store.get(NETWORKING, connection_key(project, network))
    ranges = call.body.get("reservedPeeringRanges", [])
    if record is None:
        raise ApiError(404, f"Connection of network '{network}' was not found.", "NOT_FOUND")
    out = set(record.body["reservedPeeringRanges"]) - set(ranges)
    if out and not call.params.get("force"):
        raise ApiError(
            400,
            f"Cannot remove allocated ranges ({', '.join(sorted(out))}) from the connection without the "
            "force flag.",
            _FAILED,
        )
    args = {"project": project, "network": network, "ranges": ranges}
    return _start(call, _CONNECT_S, _response(call.store, **args), "connection.patched", args)


@on_event("connection.patched")
def on_connection_patched(store: ResourceStore, project: str, network: str, ranges: list[str]) -> None:
    """Store the new ranges."""
    record = store.get(NETWORKING, connection_key(project, network))
    absent = _missing_ranges(store, project, network, ranges) if ranges else []
    if absent:
        raise ApiError(400, f"Allocated IP range '{absent[0]}' not found in network.", "INVALID_ARGUMENT")
    if record is not None:
        record.body["reservedPeeringRanges"] = list(ranges)
        store.put(record)


@handles("servicenetworking.services.connections.deleteConnection")
def delete(call: ApiCall) -> JSON:
    """Delete a connection that no producer uses."""
    project, network = _network(call.store, call.body.get("consumerNetwork", ""), "consumer_network")
    if call.store.get(NETWORKING, connection_key(project, network)) is None:
        raise ApiError(404, f"Connection of network '{network}' was not found.", "NOT_FOUND")
    response = {"@type": "type.googleapis.com/google.protobuf.Empty"}
    return _start(call, _DELETE_S, response, "connection.deleted", {"project": project, "network": network})


@on_event("connection.deleted")
def on_connection_deleted(store: ResourceStore, project: str, network: str) -> None:
    """Remove the connection; fails, in Google's text, while it is used and for some time afterwards."""
    record = store.get(NETWORKING, connection_key(project, network))
    if record is None:
        return
    if _users(store, project, network) or store.clock.now() < record.extra.get("held_until", 0):
        raise ApiError(
            400,
            "Failed to delete connection; Producer services (e.g. CloudSQL, Cloud Memstore, etc.) are "
            "still using this connection.",
            _FAILED,
        )
    store.remove(record)


def _users(store: ResourceStore, project: str, network: str) -> list[Record]:
    wanted = f"projects/{project}/global/networks/{network}"

    def uses(record: Record) -> bool:
        link = relative_name(str(record.body.get("network", "")), project) or ""
        parts = link.split("/")
        return len(parts) == 5 and "/".join(["projects", store.project_id(parts[1]), *parts[2:]]) == wanted

    return [record for record in store.all(LUSTRE, "lustre") if uses(record)]


def delay_disconnect(store: ResourceStore, project: str, network: str) -> None:
    """Record that an instance on this network (by name) was deleted.

    Its producer releases the connection only some time later.
    """
    record = store.get(NETWORKING, connection_key(project, network))
    if record is not None:
        record.extra["held_until"] = store.clock.now() + store.clock.scale(_DISCONNECT_DELAY_S)
        store.mark_dirty()
