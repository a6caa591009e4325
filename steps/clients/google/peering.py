"""Private services access: our address range inside the connection between a VPC and Google's producers.

A connection is shared: ranges of others may be in it. Ours is added, and only ours is taken out again. The connection itself goes
with the last range where this tool made it, for this deployment or for one that shares the network; a stranger's stays, empty.
"""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.clients.context import Cloud, call
from grpo_wizard.steps.clients.driver import Driver, Progress, Task
from grpo_wizard.steps.clients.errors import CloudError, from_message, outcome, translate
from grpo_wizard.steps.clients.google.compute import compute, global_operation
from grpo_wizard.steps.clients.google.resource_manager import project_number
from grpo_wizard.steps.clients.serialization import JSON, document, mark_in
from grpo_wizard.steps.core.model import Sight

SERVICE = "servicenetworking.googleapis.com"
_PARENT = f"services/{SERVICE}"
_STOOD = "connection"  # memo: whose connection stood there before we came; nothing when none did
_WIZARDS, _THEIRS = "wizard", "theirs"  # every range in it bore a deployment's mark, or not so
_COMPUTE = "compute:"  # in front of an operation that is Compute's


class PeeringDriver(Driver):
    changeable = frozenset({"reservedPeeringRanges"})

    def look(self, cloud: Cloud, task: Task) -> Sight:
        live = self._connection(cloud, task)
        mine = task.spec["reservedPeeringRanges"][0]
        if live is None or mine not in live.get("reservedPeeringRanges", []):
            return Sight(facts={_STOOD: self._whose(cloud, task, live)} if live else {})
        return Sight(
            "ready",
            self._mark_of_range(cloud, task, mine),
            f"{live.get('peering', '')}/{mine}",
            facts={"peering": live.get("peering", "")},
        )

    def _whose(self, cloud: Cloud, task: Task, live: JSON) -> str:
        """Made for deployments alone, as far as its ranges tell: then the last of them takes it away."""
        ranges = live.get("reservedPeeringRanges", [])
        marked = bool(ranges) and all(self._mark_of_range(cloud, task, name) for name in ranges)
        return _WIZARDS if marked else _THEIRS

    def _mark_of_range(self, cloud: Cloud, task: Task, name: str) -> str:
        """A connection has no place for a mark; the range inside it has one."""
        try:
            found = call(
                "compute",
                compute(cloud, "GlobalAddressesClient").get,
                request={"project": task.at("project"), "address": name},
            )
        except CloudError:
            return ""
        return mark_in(document(found), "description", "labels")

    def create(self, cloud: Cloud, task: Task) -> str:
        live = self._connection(cloud, task)
        network = self._network(cloud, task)
        wanted = list(task.spec["reservedPeeringRanges"])
        if live is None:
            return self._send(
                cloud, "create", parent=_PARENT, body={"network": network, "reservedPeeringRanges": wanted}
            )
        others = [name for name in live.get("reservedPeeringRanges", []) if name not in wanted]
        task.tell(f"{task.at('network')} is peered already: adding our range to {len(others)} others")
        return self._set_ranges(cloud, network, others + wanted)

    def delete(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        live = self._connection(cloud, task) or {}
        network = self._network(cloud, task)
        others = [
            name
            for name in live.get("reservedPeeringRanges", [])
            if name not in task.spec["reservedPeeringRanges"]
        ]
        if others or task.memo.get(_STOOD, _WIZARDS) != _WIZARDS:
            return self._set_ranges(cloud, network, others)
        return self._send(
            cloud, "deleteConnection", name=f"{_PARENT}/connections/-", body={"consumerNetwork": network}
        )

    def insist(self, cloud: Cloud, task: Task) -> str | None:
        """Cuts the peering from our side, as the console does: a producer holds it for hours after its last instance is gone.

        Only on a network of ours: on another's it may carry what others still use, so there our range alone is taken out.
        """
        about = {"project": task.at("project"), "network": task.at("network")}
        network = document(call("compute", compute(cloud, "NetworksClient").get, request=about))
        live = self._connection(cloud, task) or {}
        name = live.get("peering")
        if not name:
            return None
        if mark_in(network, "description") != task.lineage:
            task.tell(
                f"producers still hold the peering of {task.at('network')}: only our range is taken out of it"
            )
            mine = task.spec["reservedPeeringRanges"]
            rest = [one for one in live.get("reservedPeeringRanges", []) if one not in mine]
            return self._set_ranges(cloud, self._network(cloud, task), rest)
        task.tell(f"producers still hold the peering of {task.at('network')}: removing it from this side")
        return _COMPUTE + cut(cloud, task.at("project"), task.at("network"), str(name))

    def progress(self, cloud: Cloud, task: Task, operation: str) -> Progress:
        if operation.startswith(_COMPUTE):
            return global_operation(cloud, task.at("project"), operation.removeprefix(_COMPUTE))
        seen = _call(cloud, lambda api: api.operations().get(name=operation))
        if seen.get("error"):
            raise outcome(SERVICE, 400, str(seen["error"].get("message", "")))
        return Progress(bool(seen.get("done")))

    def _network(self, cloud: Cloud, task: Task) -> str:
        return _by_number(cloud, task.at("project"), task.at("network"))

    def _connection(self, cloud: Cloud, task: Task) -> JSON | None:
        return connection(cloud, task.at("project"), task.at("network"))

    def _set_ranges(self, cloud: Cloud, network: str, ranges: list[str]) -> str:
        return self._send(
            cloud,
            "patch",
            name=f"{_PARENT}/connections/-",
            updateMask="reservedPeeringRanges",
            force=True,
            body={"network": network, "reservedPeeringRanges": ranges},
        )

    def _send(self, cloud: Cloud, method: str, **arguments: Any) -> str:
        started = _call(
            cloud, lambda api: getattr(api.services().connections(), method)(**arguments), write=method
        )
        if started.get("error"):
            raise from_message(SERVICE, 400, str(started["error"].get("message", "")))
        return str(started["name"])


def connection(cloud: Cloud, project: str, network: str) -> JSON | None:
    """The connection of a VPC with Google's producers, None where there is none. Raises CloudError."""
    try:
        path = _by_number(cloud, project, network)
        listed = _call(cloud, lambda api: api.services().connections().list(parent=_PARENT, network=path))
    except CloudError as error:
        # For a network that is not there (yet, or any more) Google answers 403 "… or it may not exist".
        if error.kind == "not_found" or (error.kind == "denied" and "may not exist" in error.detail):
            return None
        raise
    return next(iter(listed.get("connections", [])), None)


def cut(cloud: Cloud, project: str, network: str, name: str) -> str:
    """Takes the peering `name` from our side of the network; the name of Compute's operation."""
    request = {
        "project": project,
        "network": network,
        "networks_remove_peering_request_resource": {"name": name},
    }
    return str(call("compute", compute(cloud, "NetworksClient").remove_peering_unary, request=request).name)


def _by_number(cloud: Cloud, project: str, network: str) -> str:
    return f"projects/{project_number(cloud, project)}/global/networks/{network}"


def _call(cloud: Cloud, request: Any, write: str = "") -> JSON:
    try:
        prepared = request(_api(cloud))
        found: JSON = prepared.execute(http=_http(cloud), num_retries=0)
    except Exception as error:
        problem = translate(SERVICE, error)
        if write:
            cloud.audit(
                cloud.identity, prepared.method, prepared.uri, write, str(getattr(problem, "status", ""))
            )
        raise problem from error
    if write:
        cloud.audit(cloud.identity, prepared.method, prepared.uri, found.get("name", write), "200")
    return found


def _api(cloud: Cloud) -> Any:
    def build() -> Any:
        from googleapiclient import discovery

        options = {"api_endpoint": cloud.endpoint("servicenetworking") + "/"} if cloud.base_url else {}
        return discovery.build(
            "servicenetworking",
            "v1",
            static_discovery=True,
            credentials=cloud.credentials,
            client_options=options,
            cache_discovery=False,
        )

    return cloud.once("servicenetworking", build)


def _http(cloud: Cloud) -> _OverRequests:
    def build() -> _OverRequests:
        from google.auth.transport.requests import AuthorizedSession

        return _OverRequests(AuthorizedSession(cloud.credentials))

    session: _OverRequests = cloud.once("servicenetworking session", build)
    return session


class _OverRequests:
    """What googleapiclient sends, by requests as in all other clients: httplib2 goes through no proxy without PySocks."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def request(
        self, uri: str, method: str = "GET", body: Any = None, headers: Any = None, **_: Any
    ) -> tuple[Any, bytes]:
        import httplib2

        answer = self._session.request(method, uri, data=body, headers=headers, timeout=60)
        named = {name.lower(): value for name, value in answer.headers.items()}
        return httplib2.Response(named | {"status": str(answer.status_code)}), answer.content
