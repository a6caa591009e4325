"""The outside as one deployment sees it: endpoints, credentials, identity, audit. The same clients in both modes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.secret import Secret
from grpo_wizard.steps.clients.audit import AuditedRequest, AuditSink, audit_session, audited, discard
from grpo_wizard.steps.clients.serialization import JSON, to_json

if TYPE_CHECKING:
    from grpo_wizard.steps.clients.credentials import CredentialsInfo

_TIMEOUT = 60.0  # of one request, seconds
# Prefix of each service below the rehearsal's address; compute stands at the root, where its paths say /compute themselves.
_PREFIX = {"compute": ""}


@dataclass
class CloudContext:
    """Built once a deployment is opened (clients/connect.py). `base_url` is empty for the real Google Cloud."""

    mode: str
    credentials: Any
    account: str
    base_url: str = ""
    kube_token: str = ""  # the rehearsal's; on GKE the credentials' own token is used
    time_scale: float = 1.0  # how many times faster than real life things happen there
    audit: AuditSink = discard
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    credentials_info: CredentialsInfo | None = None  # whose credentials; none are looked at in a rehearsal
    placeholder_secrets: frozenset[str] = (
        frozenset()
    )  # of the secrets, those that nobody gave: a rehearsal's stand-ins
    _clients: dict[str, Any] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _cache_locks: dict[str, threading.Lock] = field(default_factory=dict)
    _cache: dict[str, tuple[float, Any]] = field(default_factory=dict)

    def endpoint(self, service: str) -> str:
        """Of a Google service (`compute`, `container`, …): the rehearsal's address for it, or empty for Google's own."""
        prefix = _PREFIX.get(service, f"/{service}")
        return f"{self.base_url}{prefix}" if self.base_url else ""

    def singleton(self, name: str, build: Callable[[], Any]) -> Any:
        """A client is built once and shared; its sessions are safe for reads from several threads."""
        with self._lock:
            if name not in self._clients:
                self._clients[name] = build()
            return self._clients[name]

    def cached(self, name: str, fetch: Callable[[], Any], ttl: float) -> Any:
        """What was asked less than `seconds` ago is not asked again; of several threads at once one asks for all."""
        with self._lock:
            gate = self._cache_locks.setdefault(name, threading.Lock())
        with gate:
            at, value = self._cache.get(name, (-ttl, None))
            if time.monotonic() - at >= ttl:
                value = fetch()
                self._cache[name] = time.monotonic(), value
            return value

    def rest_client(self, service: str, module: str, client: str) -> Any:
        """A google-cloud-* client over REST, e.g. rest("compute", "google.cloud.compute_v1", "NetworksClient")."""
        return self.singleton(f"{module}.{client}", lambda: self._build(service, module, client))

    def _build(self, service: str, module: str, client: str) -> Any:
        from importlib import import_module

        options = {"api_endpoint": self.endpoint(service)} if self.base_url else {}
        built = getattr(import_module(module), client)(
            credentials=self.credentials, transport="rest", client_options=options
        )
        self.prepare_session(built.transport._session)
        return built

    def prepare_session(self, session: Any) -> None:
        """Every requests session of a Google client: colons in paths are kept, and writes are audited."""
        _mount_colon_adapter(session)
        audit_session(session, self.audit_request)

    def audit_request(
        self, method: str, url: str, operation: str = ""
    ) -> AbstractContextManager[AuditedRequest]:
        """Audit the request that is sent inside the returned context."""
        return audited(self.audit, self.account, method, url, operation)

    def token(self) -> str:
        """A bearer token that is valid now."""
        if self.kube_token:
            return self.kube_token
        if not self.credentials.valid:
            from google.auth.transport.requests import Request

            self.credentials.refresh(Request())
        return str(self.credentials.token)


def keep_colons(url: str) -> str:
    """`example.com:my-proj` in a path as it is: the SDKs write %3A, which not every service reads (cases e01)."""
    path, mark, query = url.partition("?")
    return path.replace("%3A", ":").replace("%3a", ":") + mark + query


def _mount_colon_adapter(session: Any) -> None:
    """For what a requests session sends; one that carries a client certificate keeps its own adapter."""
    from requests.adapters import HTTPAdapter

    class ColonAdapter(HTTPAdapter):
        def send(self, request: Any, *args: Any, **options: Any) -> Any:
            request.url = keep_colons(request.url)
            return super().send(request, *args, **options)

    for scheme in ("https://", "http://"):
        if type(session.get_adapter(scheme)) is HTTPAdapter:
            session.mount(scheme, ColonAdapter())


def call(service: str, function: Callable[..., Any], **arguments: Any) -> Any:
    """One SDK call without the SDK's own retries (the engine looks before it tries again); errors come out as ours."""
    from grpo_wizard.steps.clients.errors import translate

    try:
        return function(**arguments, retry=None, timeout=_TIMEOUT)
    except Exception as error:
        raise translate(f"{service}.googleapis.com", error) from error


def get_or_none(function: Callable[..., Any], service: str, request: JSON) -> JSON | None:
    """One thing as the API's JSON; None where it is not there."""
    from grpo_wizard.steps.clients.errors import CloudError

    try:
        return to_json(call(service, function, request=request))
    except CloudError as error:
        if error.kind == "not_found":
            return None
        raise
