"""The aiohttp application: who asks, what for, and the answer; `/_rehearsal/*` beside it."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from grpo_wizard.steps.emulator.drills import manager
from grpo_wizard.steps.emulator.process import Address
from grpo_wizard.steps.emulator.server import batch, sign_in
from grpo_wizard.steps.emulator.server.context import KUBES, ApiError
from grpo_wizard.steps.emulator.server.dispatch import Asked, Dispatcher
from grpo_wizard.steps.emulator.server.errors import internal, refuse, respond, unauthenticated, wants_pretty
from grpo_wizard.steps.emulator.server.proxy import proxy_password
from grpo_wizard.steps.emulator.server.recorder import OPERATION_ERROR, Wire
from grpo_wizard.steps.emulator.server.routes import Place, locate
from grpo_wizard.steps.emulator.store.world import Store

JSON = dict[str, Any]
_MOST = 64 * 2**20


class Application:
    """Everything below one socket. `stop` is called by `POST /_rehearsal/stop`."""

    def __init__(
        self, world: Store, wire: Wire, dispatcher: Dispatcher, token: str, stop: Callable[[], None]
    ) -> None:
        self.world, self.wire, self.dispatcher, self._token, self._stop = world, wire, dispatcher, token, stop
        self.address: Address | None = None  # set once the socket listens
        # Connections that gave the proxy password.
        self.trusted: weakref.WeakSet[asyncio.BaseTransport] = weakref.WeakSet()
        wire.refusal = sign_in.refusal
        self.web = web.Application(client_max_size=_MOST, middlewares=[wire.middleware(_named, self._after)])
        self.web.router.add_route("*", "/{path:.*}", self._handle)

    def _after(self, request: web.Request) -> None:
        if request.method != "GET":
            self.world.changed()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        place = locate(request)
        pretty = wants_pretty(request.query)
        try:
            self._authenticate(request, place)
            if place.service == "rehearsal":
                return self._own(request, place.path)
            if place.service == sign_in.SERVICE:
                status, body = await sign_in.renew(request, place.path)
                return respond(body, status)
            if batch.is_batch(request.method, place):
                answer = await batch.answer(request, place, self.dispatcher, self.wire)
            else:
                result = await self.dispatcher.answer(await _asked(request, place))
                answer = respond(result, pretty=pretty)
            if request.method != "GET":
                self.world.answering()
            return answer
        except ApiError as error:
            return refuse(place.service, error, pretty=pretty)
        except web.HTTPRequestEntityTooLarge:
            return refuse(
                place.service, ApiError(413, "Request payload size exceeds the limit.", "INVALID_ARGUMENT")
            )
        except Exception:
            return refuse(place.service, internal(request.method, place.path), pretty=pretty)

    def _authenticate(self, request: web.Request, place: Place) -> None:
        """Raises 401 unless the token came as Bearer, as proxy password, in X-Rehearsal-Token or in the path."""
        bearer = request.headers.get("Authorization", "")
        given = [
            bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else None,
            place.key or None,
            request.headers.get("X-Rehearsal-Token"),
            proxy_password(request.headers.get("Proxy-Authorization", "")),
        ]
        if request.transport in self.trusted or any(sign_in.accepted(g, self._token) for g in given if g):
            return
        raise unauthenticated(any(given), place.service)

    def _own(self, request: web.Request, path: str) -> web.Response:
        match request.method, path:
            case "GET", "/_rehearsal/world":
                return respond({"resources": list(self.world.rows())})
            case "GET", "/_rehearsal/status":
                return respond(self.status())
            case "GET", "/_rehearsal/answers":
                return respond({"checked": self.dispatcher.checked, "violations": self.dispatcher.violations})
            case "POST", "/_rehearsal/stop":
                self._stop()
                return respond({"stopping": True})
            case method, drill if drill.startswith("/_rehearsal/drills"):
                return self._drills(method, drill.removeprefix("/_rehearsal/drills").strip("/"))
        raise ApiError(404, f"The rehearsal has no {path}.")

    def _drills(self, method: str, name: str) -> web.Response:
        """All drills as they stand; `ended` names those that a DELETE ended."""
        ended: JSON = {}
        try:
            if method == "POST":
                manager.begin(self.world, [name])
            elif method == "DELETE":
                ended = {"ended": manager.end(self.world, [name] if name else None)}
        except ValueError as unknown:
            raise ApiError(404, str(unknown)) from None
        return respond({"drills": manager.listed(self.world), **ended})

    def status(self) -> JSON:
        """What `rehearsal status` shows."""
        where = self.address
        about = {"token_file": where.token_file, "speed": where.speed, "env": where.env} if where else {}
        return {
            "pid": os.getpid(),
            **about,
            "requests": self.wire.requests,
            "idle_seconds": round(self.wire.idle(), 3),
            "resources": self.world.count(),
            "drills": [drill["name"] for drill in manager.listed(self.world) if drill["running"]],
            "kube_urls": kube_urls(self.world),
            **({"unsaved": self.world.unsaved} if self.world.unsaved else {}),
        }


async def _asked(request: web.Request, place: Place) -> Asked:
    """What a request asks; a long GET may come as a POST with its query as a form and X-HTTP-Method-Override."""
    method, body = request.method, await request.read()
    query = {name: request.query.getall(name) for name in request.query}
    override = request.headers.get("X-HTTP-Method-Override", "").upper()
    if method == "POST" and override:
        method = override
        if request.content_type == "application/x-www-form-urlencoded":
            query |= parse_qs(body.decode(errors="replace"), keep_blank_values=True)
            body = b""
    return Asked(place, method, query, body, request.headers, request.get(OPERATION_ERROR))


def _named(request: web.Request) -> tuple[str, str]:
    place = locate(request)
    return place.service, place.path


def kube_urls(world: Store) -> dict[str, str]:
    """Cluster's name -> its API server's address."""
    urls = {}
    for key in KUBES:
        record = world.get("container.googleapis.com", key)
        if record is not None and record.body.get("endpoint"):
            urls[record.name] = f"https://{record.body['endpoint']}"
    return urls
