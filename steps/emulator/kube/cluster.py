"""One cluster's Kubernetes, which the container service creates, starts, saves and stops."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any

from aiohttp import web

from grpo_wizard.steps.emulator.context import JSON, Clock, CloudBackend, RayHeadManager
from grpo_wizard.steps.emulator.kube.api import kinds, listing
from grpo_wizard.steps.emulator.kube.api.http import ApiServer
from grpo_wizard.steps.emulator.kube.api.kinds import kinds_for
from grpo_wizard.steps.emulator.kube.api.store import ObjectStore
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import default_objects, loop

_LOG = logging.getLogger(__name__)
MAX_BODY = 3 * 1024 * 1024  # the limit of etcd and the API server


@dataclass(kw_only=True)
class EmulatedCluster:
    """Implements context.KubeServer.

    `fault_middleware` is an aiohttp middleware that handles every request first
    (ServerContext.build_middleware: idle time, record, faults); `record` is called with one JSON object per
    request where no middleware records. `root` is this cluster's own folder; Lustre's folders are next to it.
    `saved_state` is an earlier dump. `on_change` is called after every change.
    """

    project: str
    location: str
    name: str
    cluster_key: str
    version: str
    addons: set[str]
    workload_pool: str
    cloud: CloudBackend
    heads: RayHeadManager | None
    clock: Clock
    ssl_context: SSLContext
    ca_path: Path
    token: str
    root: Path
    port: int | None = None
    saved_state: JSON | None = None
    on_change: Callable[[], None] = lambda: None
    record: Callable[[JSON], None] | None = None
    fault_middleware: Callable[..., Any] | None = None
    match_fault: Callable[[str, str, str], JSON] = lambda service, method, path: {}  # of forwarded requests
    context: ClusterContext = field(init=False)

    def __post_init__(self) -> None:
        store = ObjectStore(kinds_for(self.addons), self.clock)
        self.context = ClusterContext(
            self.project,
            self.location,
            self.name,
            self.cluster_key,
            self.version,
            self.addons,
            self.workload_pool,
            self.cloud,
            self.heads,
            self.clock,
            self.ca_path,
            self.token,
            self.root,
            store,
            match_fault=self.match_fault,
        )
        if self.saved_state:
            store.load(self.saved_state["store"])
            self.context.controller_state = self.saved_state["notes"]
        self.context.controller_state_for("keys").setdefault("tokens", secrets.token_hex(16))
        store.listeners.add(lambda _: self.on_change())
        self.controllers = loop.ControllerManager(self.context)
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Open the port and start the controllers. Returns https://127.0.0.1:PORT."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        api = ApiServer(self.context)
        middlewares = [self.fault_middleware] if self.fault_middleware else []
        if self.record:
            middlewares.append(self._recording_middleware)
        app = web.Application(client_max_size=MAX_BODY, middlewares=middlewares)
        app.router.add_route("*", "/{path:.*}", api.handle)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True
        )  # a watch ends when its client disconnects
        await self._runner.setup()
        await self._listen(self._runner)
        self.port = int(self._runner.addresses[0][1])
        self.context.url = f"https://127.0.0.1:{self.port}"
        default_objects.create_default_objects(self.context)
        self.controllers.start()
        return self.context.url

    async def _listen(self, runner: web.AppRunner) -> None:
        """Listen on the previous port; on a free one if another program has taken that meanwhile."""
        for port in (self.port, None) if self.port else (None,):
            site = web.TCPSite(
                runner, "127.0.0.1", port or 0, ssl_context=self.ssl_context, reuse_address=True
            )
            try:
                await site.start()
                return
            except OSError as error:
                if port is None:
                    raise
                _LOG.warning("port %s of cluster %s is in use (%s): using another", port, self.name, error)
                await site.stop()

    @property
    def _recording_middleware(self) -> Any:
        @web.middleware
        async def watch(request: web.Request, handler: Any) -> web.StreamResponse:
            response: web.StreamResponse = await handler(request)
            assert self.record is not None
            self.record(
                {
                    "service": "kubernetes",
                    "method": request.method,
                    "path": request.path,
                    "query": dict(request.query),
                    "body": listing.mask_secrets(await request.read()),
                    "status": response.status,
                }
            )
            return response

        return watch

    async def stop(self) -> None:
        """Close the port; the objects stay for dump()."""
        await self.controllers.stop()
        if self._runner:
            await self._runner.cleanup()

    def dump(self) -> JSON:
        """Return objects and controller state, for the state file."""
        return {"store": self.context.store.dump(), "notes": self.context.controller_state}

    def rows(self) -> list[JSON]:
        """Return this cluster's rows of /_rehearsal/world."""
        return listing.rows(self.context)

    def count(self) -> int:
        """Return the number of these rows."""
        return listing.count(self.context)

    def nodes(self) -> list[JSON]:
        """Return the current Node objects."""
        return self.context.store.list(kinds.NODE)

    def on_control_plane_upgraded(self, version: str) -> None:
        """Called when the control plane has a new version."""
        self.version = self.context.version = version

    def on_pools_changed(self) -> None:
        """Called when a node pool was created, deleted or resized."""
        self.context.request_reconcile()
