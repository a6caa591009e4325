"""What the parts of the rehearsal agree on.

Calls, errors, records, handlers, and the seam between cloud and Kubernetes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any, Protocol

JSON = dict[str, Any]


class ApiError(Exception):
    """An answer that is not a success, worded as Google words it.

    `code` is the HTTP status; `status` the canonical name (NOT_FOUND, ALREADY_EXISTS …); `reason` the legacy
    reason of
    compute (notFound, resourceInUseByAnotherResource …) or the ErrorInfo reason (SERVICE_DISABLED); `details`
    as in google.rpc.Status.
    """

    def __init__(
        self, code: int, message: str, status: str = "", reason: str = "", details: list[JSON] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self.reason = code, message, status, reason
        self.details = details or []


@dataclass
class Record:
    """One thing in the world.

    `key` is its Google path below the version, e.g. `projects/P/global/networks/N`, unique per service.
    """

    service: str  # host's name: compute.googleapis.com, container.googleapis.com …
    # design §2's kinds: network, subnet, firewall, address, peering, cluster, node_pool, lustre, api … or
    # `operation`
    kind: str
    name: str
    project: str
    location: str  # global, a region or a zone
    key: str
    body: JSON  # as the API returns it (camelCase)
    state: str = "ready"  # absent | creating | ready | failed | deleting
    kept_by_design: bool = False
    derived: bool = False  # made by a controller, not by a caller (auto-mode subnets, GKE's firewall rules)
    # the ground itself (reservations, zones, quotas, operations): not listed by /_rehearsal/world unless a
    # caller made it
    hidden: bool = False
    extra: JSON = field(default_factory=dict)  # the server's own notes; never sent


class Clock(Protocol):
    """World time. `speed` divides durations; `inf` means none."""

    speed: float

    def now(self) -> float: ...  # seconds since the epoch, world time is wall time
    def scale(self, seconds: float) -> float: ...  # how long that takes here


class ResourceStore(Protocol):
    """The store. One asyncio thread, so no locks; every change is saved to the world's file soon after."""

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
        """Calls the handler registered with @happens(event) after `seconds` of the real thing's time ÷ speed.

        Kept in the file: survives restarts.
        """

    def schedule_at(
        self, moment: float, event: str, **args: Any
    ) -> None: ...  # the same, at a time that no speed divides
    def project_number(self, project: str) -> str: ...  # "0" where there is no such project
    def project_id(self, project: str) -> str: ...  # of an id or a number
    def next_number(self) -> int: ...  # a number never given before in this world
    def mark_dirty(
        self,
    ) -> None: ...  # save soon; the server calls it after every writing request and every event
    def flush(self) -> None: ...  # save now: a write is about to be answered


@dataclass
class ApiCall:
    """One request that passed the checks against the discovery document."""

    store: ResourceStore
    service: str
    method_id: str  # discovery id, e.g. compute.networks.insert
    http_method: str
    path: str  # Google's own path with version
    params: dict[str, Any]  # path and query parameters, typed as the document says
    body: JSON
    caller: str  # e-mail of the identity
    base_url: str  # how to build links: scheme://host that the caller used
    operation_error: JSON | None = (
        None  # a fault's `operation_error`: what the operation that this call starts shall end with
    )
    headers: Mapping[str, str] = field(
        default_factory=dict
    )  # of the request, Authorization included: never kept, never logged


Handler = Callable[
    [ApiCall], JSON | Awaitable[JSON]
]  # an awaitable (operations' `wait`) is awaited by the server
HANDLERS: dict[str, Handler] = {}
EVENT_HANDLERS: dict[str, Callable[..., None]] = {}


def handles(*method_ids: str) -> Callable[[Handler], Handler]:
    """Registers the function that answers these discovery methods."""

    def register(handler: Handler) -> Handler:
        for method_id in method_ids:
            HANDLERS[method_id] = handler
        return handler

    return register


def on_event(event: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers what a `World.later` event does: called as handler(world, **args)."""

    def register(handler: Callable[..., None]) -> Callable[..., None]:
        EVENT_HANDLERS[event] = handler
        return handler

    return register


@dataclass(frozen=True)
class PodView:
    """What a process that stands for a pod's container may see of this machine."""

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
    """Real Ray heads on this machine, started at the first connection (implemented in heads.py)."""

    async def connect(self, pod: PodView, port: int) -> tuple[str, int]:
        """Loopback address that serves the pod's `port` (8265 dashboard, 52365 agent).

        Raises ConnectionError with one sentence.
        """
        ...

    async def start_sidecar(self, pod: PodView, container: str, argv: list[str], env: dict[str, str]) -> None:
        """Runs a sidecar's own command here; paths under a mount are mapped."""
        ...

    async def on_pod_deleted(self, cluster: str, namespace: str, name: str) -> None: ...
    async def close(self) -> None: ...


class CloudBackend(Protocol):
    """What Kubernetes asks of the cloud below it (implemented beside the container service)."""

    def pools(
        self, cluster_key: str
    ) -> list[JSON]: ...  # node pools as container.googleapis.com returns them
    def allocate_node(self, cluster_key: str, pool: str) -> str | None:
        """Consumes capacity for one more node.

        None when granted, else why not, worded as GKE's autoscaler event.
        """
        ...

    def release_node(self, cluster_key: str, pool: str, zone: str = "") -> None: ...
    def node_counts(self, cluster_key: str, pool: str) -> dict[str, int]:
        """Zone -> nodes that the pool has by now (its share of initialNodeCount, setSize, take_node and
        give_node): what Kubernetes should show.
        """
        ...

    def lustre_instance(self, volume_handle: str) -> JSON | None: ...  # "project/zone/name" -> the instance
    def lustre_port(
        self, cluster_key: str
    ) -> int: ...  # on which a cluster's nodes speak Lustre: 988 or 6988


class KubeServer(Protocol):
    """One cluster's Kubernetes (implemented in kube/server.py as `KubeCluster`)."""

    async def start(self) -> str: ...  # https://127.0.0.1:PORT
    async def stop(self) -> None: ...
    def dump(self) -> JSON: ...  # for the world's file; called at every save
    # For /_rehearsal/world: service "kubernetes", kind, name, project, location, spec, state, kept_by_design,
    # derived.
    def rows(self) -> list[JSON]: ...
    def count(self) -> int: ...  # how many rows there are
    def nodes(self) -> list[JSON]: ...  # Node objects: the machines that Compute lists
    def on_pools_changed(self) -> None: ...  # a node pool came, went, was resized or upgraded
    def on_control_plane_upgraded(self, version: str) -> None: ...  # the control plane's new version


CLUSTERS: dict[str, KubeServer] = {}
"""Key of a cluster's record -> its running Kubernetes. google/kubeground.py fills and empties it as clusters
come and go; the server reads `rows()` and `dump()` from it. What `dump()` gave is kept in the cluster's
`Record.extra["kube"]` and handed back on a restart."""


RequestIdentifier = Callable[
    [Any], tuple[str, str]
]  # aiohttp request -> (service, path) for the record and the faults


@dataclass
class ServerContext:
    """What the server process hands its parts: the private folder, the token, TLS, the wire's eyes and ears.

    Set before any handler runs.
    """

    folder: Path  # <home>/rehearsal, 0700; kubernetes, Lustre's files and Ray's live below it
    token: str  # the one token of this server
    caller: str  # e-mail of the identity behind it
    ca_file: Path  # PEM of the private CA
    create_tls_context: Callable[
        ..., SSLContext
    ]  # server_context("127.0.0.1", "kubernetes.default") -> TLS with a fresh certificate
    build_middleware: Callable[
        [RequestIdentifier, Callable[[Any], None]], Any
    ]  # aiohttp middleware: idle clock, record, faults; 2nd: called after each request
    record_request: Callable[
        [str, str, str, JSON, Any, int], None
    ]  # service, method, path, query, body, status: one line for --record
    match_fault: Callable[[str, str, str], JSON]  # service, method, path -> `do` of the fault file's entry
    heads: RayHeadManager  # with --ray none it refuses to connect


def lustre_folder(clusters: Path, handle: str) -> Path:
    """Where an instance's files lie: beside the clusters that mount it. `handle` is "project/zone/name"."""
    return clusters / "lustre" / handle.replace("/", "_")


_HOUSE: list[ServerContext] = []


def server_context() -> ServerContext:
    """The surroundings of this process."""
    return _HOUSE[-1]


def set_server_context(context: ServerContext) -> None:
    """Called once by the server at its start."""
    _HOUSE[:] = [context]
