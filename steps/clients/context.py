"""What every client of a deployment shares: endpoints, credentials, account, audit. The same clients serve both modes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from grpo_wizard.state.secret import Secret
from grpo_wizard.steps.clients.audit import AuditedRequest, AuditSink, audit_session, audited, discard
from grpo_wizard.steps.clients.serialization import JSON, to_json

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

    from grpo_wizard.steps.clients.credentials import CredentialsInfo

_T = TypeVar("_T")
_TIMEOUT = 60.0  # seconds, for one request
# Path prefix of a service below the emulator's address; compute is at the root, because its own paths begin with /compute.
_PREFIX = {"compute": ""}


@dataclass
class CloudContext:
    """Built when a deployment is opened (clients/connect.py). `base_url` is empty for the real Google Cloud."""

    mode: str
    credentials: Any
    account: str
    base_url: str = ""
    kube_token: str = ""  # the emulator's; on GKE the credentials' own token is used
    time_scale: float = 1.0  # how many times faster than real time the emulator runs
    audit: AuditSink = discard
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    credentials_info: CredentialsInfo | None = None  # None in a rehearsal, which reads no credentials
    placeholder_secrets: frozenset[str] = frozenset()  # names of secrets that a rehearsal generated
    _clients: dict[str, Any] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _cache_locks: dict[str, threading.Lock] = field(default_factory=dict)
    _cache: dict[str, tuple[float, Any]] = field(default_factory=dict)

    def endpoint(self, service: str) -> str:
        """The emulator's address of a Google service (`compute`, `container`, …), or empty for Google's own."""
        prefix = _PREFIX.get(service, f"/{service}")
        return f"{self.base_url}{prefix}" if self.base_url else ""

    def singleton(self, name: str, build: Callable[[], _T]) -> _T:
        """Build a client once and share it; its session may be used from several threads."""
        with self._lock:
            if name not in self._clients:
                self._clients[name] = build()
            built: _T = self._clients[name]
            return built

    def cached(self, name: str, fetch: Callable[[], _T], ttl: float) -> _T:
        """Fetch a value unless it is younger than `ttl` seconds; concurrent threads share one fetch."""
        with self._lock:
            gate = self._cache_locks.setdefault(name, threading.Lock())
        with gate:
            at, value = self._cache.get(name, (-ttl, None))
            if time.monotonic() - at >= ttl:
                value = fetch()
                self._cache[name] = time.monotonic(), value
            fetched: _T = value
            return fetched

    def rest_client(self, service: str, module: str, client: str) -> Any:
        """A google-cloud-* client over REST, e.g. rest_client("compute", "google.cloud.compute_v1", "NetworksClient")."""
        return self.singleton(f"{module}.{client}", lambda: self._build(service, module, client))

    def _build(self, service: str, module: str, client: str) -> object:
        from importlib import import_module

        options = {"api_endpoint": self.endpoint(service)} if self.base_url else {}
        built = getattr(import_module(module), client)(
            credentials=self.credentials, transport="rest", client_options=options
        )
        self.prepare_session(built.transport._session)
        return built

    def prepare_session(self, session: Session) -> None:
        """Set up the requests session of a Google client: keep colons in paths, and audit writes."""
        _mount_colon_adapter(session)
        audit_session(session, self.audit_request)

    def audit_request(
        self, method: str, url: str, operation: str = ""
    ) -> AbstractContextManager[AuditedRequest]:
        """Audit the request that is sent inside the returned context."""
        return audited(self.audit, self.account, method, url, operation)

    def token(self) -> str:
        """A valid bearer token, refreshed if necessary."""
        if self.kube_token:
            return self.kube_token
        if not self.credentials.valid:
            from google.auth.transport.requests import Request

            self.credentials.refresh(Request())
        return str(self.credentials.token)


def keep_colons(url: str) -> str:
    """Keep the colon of `example.com:my-project` in a path: the SDKs send %3A, which some services do not decode."""
    path, mark, query = url.partition("?")
    return path.replace("%3A", ":").replace("%3a", ":") + mark + query


def _mount_colon_adapter(session: Session) -> None:
    """Keep colons in what a requests session sends; a session with a client certificate keeps its own adapter."""
    from requests.adapters import HTTPAdapter

    class ColonAdapter(HTTPAdapter):
        def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
            request.url = keep_colons(request.url or "")
            return super().send(request, *args, **options)

    for scheme in ("https://", "http://"):
        if type(session.get_adapter(scheme)) is HTTPAdapter:
            session.mount(scheme, ColonAdapter())


def call(service: str, function: Callable[..., object], **arguments: object) -> Any:
    """Call an SDK method without its own retries (the engine reads before it retries). Raises CloudError."""
    from grpo_wizard.steps.clients.errors import translate

    try:
        return function(**arguments, retry=None, timeout=_TIMEOUT)
    except Exception as error:
        raise translate(f"{service}.googleapis.com", error) from error


def get_or_none(function: Callable[..., object], service: str, request: JSON) -> JSON | None:
    """Read one resource as the API's JSON; None if it does not exist."""
    from grpo_wizard.steps.clients.errors import CloudError

    try:
        return to_json(call(service, function, request=request))
    except CloudError as error:
        if error.kind == "not_found":
            return None
        raise
