"""The aiohttp application: authenticates each request, dispatches it, and serves `/_rehearsal/*`."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from grpo_wizard.steps.emulator.context import CLUSTERS, ApiError
from grpo_wizard.steps.emulator.drills import manager
from grpo_wizard.steps.emulator.process import ServerAddress
from grpo_wizard.steps.emulator.server import batch, sign_in
from grpo_wizard.steps.emulator.server.dispatch import Dispatcher, RawRequest
from grpo_wizard.steps.emulator.server.errors import (
    error_response,
    internal_error,
    json_response,
    unauthenticated_error,
    wants_pretty,
)
from grpo_wizard.steps.emulator.server.proxy import proxy_password
from grpo_wizard.steps.emulator.server.recorder import OPERATION_ERROR, RecorderMiddleware
from grpo_wizard.steps.emulator.server.routes import Route, resolve_route
from grpo_wizard.steps.emulator.store.persistent_store import PersistentStore

JSON = dict[str, Any]
_MAX_BODY_BYTES = 64 * 2**20


class Application:
    """The application behind one socket. `stop` is called by `POST /_rehearsal/stop`."""

    def __init__(
        self,
        store: PersistentStore,
        middleware: RecorderMiddleware,
        dispatcher: Dispatcher,
        token: str,
        stop: Callable[[], None],
    ) -> None:
        self.store, self.middleware, self.dispatcher, self._token, self._stop = (
            store,
            middleware,
            dispatcher,
            token,
            stop,
        )
        self.address: ServerAddress | None = None  # set once the socket is listening
        # Connections that sent the proxy password.
        self.authenticated: weakref.WeakSet[asyncio.BaseTransport] = weakref.WeakSet()
        middleware.token_fault = sign_in.token_fault
        self.web_app = web.Application(
            client_max_size=_MAX_BODY_BYTES,
            middlewares=[middleware.build(_service_and_path, self._after_request)],
        )
        self.web_app.router.add_route("*", "/{path:.*}", self._handle)

    def _after_request(self, request: web.Request) -> None:
        if request.method != "GET":
            self.store.mark_dirty()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        route = resolve_route(request)
        pretty = wants_pretty(request.query)
        try:
            self._authenticate(request, route)
            if route.service == "rehearsal":
                return self._handle_admin(request, route.path)
            if route.service == sign_in.TOKEN_SERVICE:
                status, body = await sign_in.refresh_token(request, route.path)
                return json_response(body, status)
            if batch.is_batch(request.method, route):
                answer = await batch.answer_batch(request, route, self.dispatcher, self.middleware)
            else:
                result = await self.dispatcher.dispatch(await _raw_request(request, route))
                answer = json_response(result, pretty=pretty)
            if request.method != "GET":
                self.store.flush()
            return answer
        except ApiError as error:
            return error_response(route.service, error, pretty=pretty)
        except web.HTTPRequestEntityTooLarge:
            return error_response(
                route.service, ApiError(413, "Request payload size exceeds the limit.", "INVALID_ARGUMENT")
            )
        except Exception:
            return error_response(route.service, internal_error(request.method, route.path), pretty=pretty)

    def _authenticate(self, request: web.Request, route: Route) -> None:
        """Raise 401 unless the token was sent as Bearer, as proxy password, in X-Rehearsal-Token or in the path."""
        bearer = request.headers.get("Authorization", "")
        given = [
            bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else None,
            route.path_token or None,
            request.headers.get("X-Rehearsal-Token"),
            proxy_password(request.headers.get("Proxy-Authorization", "")),
        ]
        if request.transport in self.authenticated or any(
            sign_in.is_valid_token(g, self._token) for g in given if g
        ):
            return
        raise unauthenticated_error(any(given), route.service)

    def _handle_admin(self, request: web.Request, path: str) -> web.Response:
        match request.method, path:
            case "GET", "/_rehearsal/world":
                return json_response({"resources": list(self.store.rows())})
            case "GET", "/_rehearsal/status":
                return json_response(self.status())
            case "GET", "/_rehearsal/answers":
                return json_response(
                    {"checked": self.dispatcher.checked_counts, "violations": self.dispatcher.violations}
                )
            case "POST", "/_rehearsal/stop":
                self._stop()
                return json_response({"stopping": True})
            case method, drill if drill.startswith("/_rehearsal/drills"):
                return self._handle_drills(method, drill.removeprefix("/_rehearsal/drills").strip("/"))
        raise ApiError(404, f"The emulator has no endpoint {path}.")

    def _handle_drills(self, method: str, name: str) -> web.Response:
        """Return all drills; `ended` names those that a DELETE ended."""
        ended: JSON = {}
        try:
            if method == "POST":
                manager.begin(self.store, [name])
            elif method == "DELETE":
                ended = {"ended": manager.end(self.store, [name] if name else None)}
        except ValueError as unknown:
            raise ApiError(404, str(unknown)) from None
        return json_response({"drills": manager.list_drills(self.store), **ended})

    def status(self) -> JSON:
        """Return what `rehearsal status` shows."""
        where = self.address
        about = {"token_file": where.token_file, "speed": where.speed, "env": where.env} if where else {}
        return {
            "pid": os.getpid(),
            **about,
            "requests": self.middleware.request_count,
            "idle_seconds": round(self.middleware.idle_seconds(), 3),
            "resources": self.store.count(),
            "drills": [drill["name"] for drill in manager.list_drills(self.store) if drill["running"]],
            "kube_urls": kube_urls(self.store),
            **({"unsaved": self.store.save_error} if self.store.save_error else {}),
        }


async def _raw_request(request: web.Request, route: Route) -> RawRequest:
    """Read a request.

    A long GET may be sent as a POST with X-HTTP-Method-Override and its query as a form.
    """
    method, body = request.method, await request.read()
    query = {name: request.query.getall(name) for name in request.query}
    override = request.headers.get("X-HTTP-Method-Override", "").upper()
    if method == "POST" and override:
        method = override
        if request.content_type == "application/x-www-form-urlencoded":
            query |= parse_qs(body.decode(errors="replace"), keep_blank_values=True)
            body = b""
    return RawRequest(route, method, query, body, request.headers, request.get(OPERATION_ERROR))


def _service_and_path(request: web.Request) -> tuple[str, str]:
    route = resolve_route(request)
    return route.service, route.path


def kube_urls(store: PersistentStore) -> dict[str, str]:
    """Return the address of each cluster's API server by cluster name."""
    urls = {}
    for key in CLUSTERS:
        record = store.get("container.googleapis.com", key)
        if record is not None and record.body.get("endpoint"):
            urls[record.name] = f"https://{record.body['endpoint']}"
    return urls
