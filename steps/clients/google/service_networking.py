"""Google's Service Networking API: the private connection between a VPC and the producers of managed services."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.errors import CloudError, from_message, translate
from grpo_wizard.steps.clients.google.resource_manager import project_number
from grpo_wizard.steps.clients.serialization import JSON

if TYPE_CHECKING:
    import httplib2
    from google.auth.transport.requests import AuthorizedSession
    from googleapiclient.discovery import Resource
    from googleapiclient.http import HttpRequest

SERVICE = "servicenetworking.googleapis.com"
PARENT = f"services/{SERVICE}"


def fetch_connection(cloud: CloudContext, project: str, network: str) -> JSON | None:
    """The connection of a VPC with Google's producers, None where it has none. Raises CloudError."""
    try:
        path = network_path(cloud, project, network)
        listed = execute(cloud, lambda api: api.services().connections().list(parent=PARENT, network=path))
    except CloudError as error:
        # For a network that does not exist Google answers 403 "… or it may not exist".
        if error.kind == "not_found" or (error.kind == "denied" and "may not exist" in error.detail):
            return None
        raise
    return next(iter(listed.get("connections", [])), None)


def start_operation(cloud: CloudContext, method: str, **arguments: object) -> str:
    """Call a method of services.connections; return the name of the operation that it starts."""
    started = execute(cloud, lambda api: getattr(api.services().connections(), method)(**arguments))
    if started.get("error"):
        raise from_message(SERVICE, 400, str(started["error"].get("message", "")))
    return str(started["name"])


def network_path(cloud: CloudContext, project: str, network: str) -> str:
    """A network as Service Networking names it: by the project's number."""
    return f"projects/{project_number(cloud, project)}/global/networks/{network}"


def execute(cloud: CloudContext, request: Callable[[Resource], HttpRequest]) -> JSON:
    """Send one request, without retries. Raises CloudError."""
    try:
        found: JSON = request(_client(cloud)).execute(http=_transport(cloud), num_retries=0)
    except Exception as error:
        raise translate(SERVICE, error) from error
    return found


def _client(cloud: CloudContext) -> Resource:
    def build() -> Resource:
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

    return cloud.singleton("servicenetworking", build)


def _transport(cloud: CloudContext) -> _RequestsTransport:
    def build() -> _RequestsTransport:
        from google.auth.transport.requests import AuthorizedSession

        session = AuthorizedSession(cloud.credentials)
        cloud.prepare_session(session)
        return _RequestsTransport(session)

    session: _RequestsTransport = cloud.singleton("servicenetworking session", build)
    return session


class _RequestsTransport:
    """Sends googleapiclient's requests through requests, as all other clients do: httplib2 supports no proxy without PySocks."""

    def __init__(self, session: AuthorizedSession) -> None:
        self._session = session

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: str | None = None,
        headers: dict[str, str] | None = None,
        **_: object,
    ) -> tuple[httplib2.Response, bytes]:
        import httplib2

        answer = self._session.request(method, uri, data=body, headers=headers, timeout=60)
        named = {name.lower(): value for name, value in answer.headers.items()}
        return httplib2.Response(named | {"status": str(answer.status_code)}), answer.content
