"""The types that the emulator's parts share: calls, errors, records, handler registries, cloud and cluster interfaces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any, Protocol

JSON = dict[str, Any]


class ApiError(Exception):
    """An error response in Google's own text.

    `code` is the HTTP status; `status` the canonical name (NOT_FOUND, ALREADY_EXISTS …); `reason` Compute's
    legacy reason (notFound, resourceInUseByAnotherResource …) or the ErrorInfo reason (SERVICE_DISABLED);
    `details` as in google.rpc.Status.
    """

    def __init__(
        self, code: int, message: str, status: str = "", reason: str = "", details: list[JSON] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self.reason = code, message, status, reason
        self.details = details or []


@dataclass
class Record:
    """One resource in the store.

    `key` is its Google path below the version, for example `projects/P/global/networks/N`, unique per
    service.
    """

    service: str  # host's name: compute.googleapis.com, container.googleapis.com …
    # network, subnet, firewall, address, peering, cluster, node_pool, lustre, api … or
    # `operation`
    kind: str
    name: str
    project: str
    location: str  # global, a region or a zone
    key: str
    body: JSON  # as the API returns it (camelCase)
    state: str = "ready"  # absent | creating | ready | failed | deleting
    kept_by_design: bool = False
    derived: bool = (
        False  # created by a controller, not by a caller (auto-mode subnets, GKE's firewall rules)
    )
    # initial state (reservations, zones, quotas, operations): not listed by /_rehearsal/world unless a
    # caller created it
    hidden: bool = False
    extra: JSON = field(default_factory=dict)  # internal data; never sent


class Clock(Protocol):
    """The emulator's clock. `speed` divides durations; `inf` skips them."""

    speed: float

    def now(self) -> float: ...  # seconds since the epoch: wall time
    def scale(self, seconds: float) -> float: ...  # seconds divided by the speed


class ResourceStore(Protocol):
    """The store of all records.

    Used by one asyncio thread, so it needs no locks; changes are saved soon after.
    """

    clock: Clock

    def get(self, service: str, key: str) -> Record | None: ...
    def put(self, record: Record) -> Record: ...
    def remove(self, record: Record) -> None: ...
    def all(
        self,
        service: str | None = None,
        kind: str | None = None,
        *,
        project: str | None = None,
        location: str | None = None,
    ) -> list[Record]: ...
    def schedule(self, seconds: float, event: str, **args: Any) -> None:
        """Call the handler registered with @on_event(event) after `seconds` of real duration, divided by the speed.

        Kept in the state file: survives restarts.
        """

    def schedule_at(
        self, moment: float, event: str, **args: Any
    ) -> None: ...  # the same, at an absolute time
    def project_number(self, project: str) -> str: ...  # "0" if the project does not exist
    def project_id(self, project: str) -> str: ...  # of an id or a number
    def next_number(self) -> int: ...  # a number that was never returned before
    def mark_dirty(
        self,
    ) -> None: ...  # save soon; the server calls it after every writing request and every event
    def flush(self) -> None: ...  # save now: a write is about to be answered


@dataclass
class ApiCall:
    """One request that passed validation against the discovery document."""

    store: ResourceStore
    service: str
    method_id: str  # discovery id, e.g. compute.networks.insert
    http_method: str
    path: str  # Google's own path with version
    params: dict[str, Any]  # path and query parameters, typed by the document
    body: JSON
    caller: str  # e-mail of the identity
    base_url: str  # scheme://host that the caller used, for links
    operation_error: JSON | None = (
        None  # a fault's `operation_error`: the error of the operation that this call starts
    )
    headers: Mapping[str, str] = field(
        default_factory=dict
    )  # of the request, with Authorization: never stored or logged


Handler = Callable[[ApiCall], JSON | Awaitable[JSON]]  # the server awaits an awaitable (operations' `wait`)
HANDLERS: dict[str, Handler] = {}
EVENT_HANDLERS: dict[str, Callable[..., None]] = {}


def handles(*method_ids: str) -> Callable[[Handler], Handler]:
    """Register the function that handles these discovery methods."""

    def register(handler: Handler) -> Handler:
        for method_id in method_ids:
            HANDLERS[method_id] = handler
        return handler

    return register


def on_event(event: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register the handler of a scheduled event, called as handler(store, **args)."""

    def register(handler: Callable[..., None]) -> Callable[..., None]:
        EVENT_HANDLERS[event] = handler
        return handler

    return register


@dataclass(frozen=True)
class PodView:
    """What a process that runs for a pod's container may use of this machine."""

    cluster: str
    namespace: str
    name: str
    raycluster: str
    env: dict[str, str]  # of the main container, valueFrom resolved
    mounts: dict[str, Path]  # mountPath -> folder on this machine (Lustre's /data, Secrets, ConfigMaps)
    token: str | None  # Ray's, from the Secret named as the RayCluster, key auth_token
    kube_url: str  # this cluster's API server
    kube_ca: Path
    service_account_token: str  # of the pod's ServiceAccount


class RayHeadManager(Protocol):
    """Real Ray heads on this machine, started at the first connection (implemented in ray/heads.py)."""

    async def connect(self, pod: PodView, port: int) -> tuple[str, int]:
        """Return the loopback address that serves the pod's `port` (8265 dashboard, 52365 agent).

        Raises ConnectionError with a message for the user.
        """
        ...

    async def start_sidecar(self, pod: PodView, container: str, argv: list[str], env: dict[str, str]) -> None:
        """Run a sidecar's own command on this machine; paths below a mount are mapped."""
        ...

    async def on_pod_deleted(self, cluster: str, namespace: str, name: str) -> None: ...
    async def close(self) -> None: ...


class CloudBackend(Protocol):
    """What Kubernetes needs from the cloud below it (implemented in container/kubernetes_backend.py)."""

    def pools(
        self, cluster_key: str
    ) -> list[JSON]: ...  # node pools as container.googleapis.com returns them
    def allocate_node(self, cluster_key: str, pool: str) -> str | None:
        """Reserve capacity for one more node.

        Returns None when granted, otherwise the reason, in the text of the autoscaler's event.
        """
        ...

    def release_node(self, cluster_key: str, pool: str, zone: str = "") -> None: ...
    def node_counts(self, cluster_key: str, pool: str) -> dict[str, int]:
        """Return the pool's node count by zone (initialNodeCount, setSize, allocated and released nodes)."""
        ...

    def lustre_instance(self, volume_handle: str) -> JSON | None: ...  # "project/zone/name" -> the instance
    def lustre_port(self, cluster_key: str) -> int: ...  # LNet port of a cluster's nodes: 988 or 6988


class KubeServer(Protocol):
    """One cluster's Kubernetes (implemented in kube/cluster.py as EmulatedCluster)."""

    async def start(self) -> str: ...  # https://127.0.0.1:PORT
    async def stop(self) -> None: ...
    def dump(self) -> JSON: ...  # for the state file; called at every save
    # For /_rehearsal/world: service "kubernetes", kind, name, project, location, spec, state, kept_by_design,
    # derived.
    def rows(self) -> list[JSON]: ...
    def count(self) -> int: ...  # number of rows
    def nodes(self) -> list[JSON]: ...  # Node objects: the instances that Compute lists
    def on_pools_changed(self) -> None: ...  # a node pool was created, deleted, resized or upgraded
    def on_control_plane_upgraded(self, version: str) -> None: ...  # the control plane's new version


CLUSTERS: dict[str, KubeServer] = {}
"""Key of a cluster's record -> its running Kubernetes, maintained by container/kubernetes_backend.py.

The server reads `rows()` and `dump()` from it. A dump is kept in the cluster's `Record.extra["kube"]` and restored
after a restart.
"""


RequestIdentifier = Callable[
    [Any], tuple[str, str]
]  # aiohttp request -> (service, path) for the record and the faults


@dataclass
class ServerContext:
    """What the server process provides to its parts: the private folder, the token, TLS, recording, Ray heads.

    Set before any handler runs.
    """

    folder: Path  # <home>/rehearsal, 0700; holds the files of Kubernetes, Lustre and Ray
    token: str  # this server's only token
    caller: str  # e-mail address of its identity
    ca_file: Path  # PEM of the private CA
    create_tls_context: Callable[..., SSLContext]  # host names -> server TLS with a fresh certificate
    build_middleware: Callable[
        [RequestIdentifier, Callable[[Any], None]], Any
    ]  # aiohttp middleware: idle time, record, faults; 2nd argument: called after each request
    record_request: Callable[
        [str, str, str, JSON, Any, int], None
    ]  # service, method, path, query, body, status: one line for --record
    match_fault: Callable[[str, str, str], JSON]  # service, method, path -> `do` of the fault file's entry
    heads: RayHeadManager  # refuses connections with --ray none


def lustre_folder(clusters: Path, handle: str) -> Path:
    """Return the folder of an instance's files, next to the clusters that mount it.

    `handle` is "project/zone/name".
    """
    return clusters / "lustre" / handle.replace("/", "_")


_CONTEXT: list[ServerContext] = []


def server_context() -> ServerContext:
    """Return the context of this process."""
    return _CONTEXT[-1]


def set_server_context(context: ServerContext) -> None:
    """Set the context; called once when the server starts."""
    _CONTEXT[:] = [context]
