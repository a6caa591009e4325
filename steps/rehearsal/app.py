"""The aiohttp application: who asks, what for, and the answer; `/_rehearsal/*` beside it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import weakref
from collections.abc import Callable
from typing import Any

from aiohttp import web

from . import batch, drills, sign_in
from .answers import error_body, refuse, respond, unauthenticated
from .contract import KUBES, ApiError
from .dispatch import Asked, Dispatcher
from .front import proxy_password
from .life import Address
from .routes import Place, locate
from .wire import OPERATION_ERROR, Wire
from .world import Store

JSON = dict[str, Any]
_log = logging.getLogger(__name__)
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
        try:
            self._authenticate(request, place)
            if place.service == "rehearsal":
                return self._own(request, place.path)
            if place.service == sign_in.SERVICE:
                status, body = await sign_in.renew(request, place.path)
                return respond(body, status)
            if place.path.startswith("/batch"):
                return await self._batch(request, place)
            query = {name: request.query.getall(name) for name in request.query}
            asked = Asked(
                place,
                request.method,
                query,
                await request.read(),
                request.headers,
                request.get(OPERATION_ERROR),
            )
            answer = respond(await self.dispatcher.answer(asked))
            if request.method != "GET":
                self.world.answering()
            return answer
        except ApiError as error:
            return refuse(place.service, error)
        except Exception:
            _log.exception("%s %s", request.method, place.path)
            return refuse(
                place.service,
                ApiError(500, "Internal error encountered. The rehearsal's log has the trace.", "INTERNAL"),
            )

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
                drills.begin(self.world, [name])
            elif method == "DELETE":
                ended = {"ended": drills.end(self.world, [name] if name else None)}
        except ValueError as unknown:
            raise ApiError(404, str(unknown)) from None
        return respond({"drills": drills.listed(self.world), **ended})

    def status(self) -> JSON:
        """What `rehearsal status` shows."""
        where = self.address
        about = {"token_file": where.token_file, "speed": where.speed, "env": where.env} if where else {}
        return {
            "pid": os.getpid(),
            **about,
            "requests": self.wire.requests,
            "idle_seconds": round(self.wire.idle(), 3),
            "resources": sum(1 for _ in self.world.rows()),
            "drills": [drill["name"] for drill in drills.listed(self.world) if drill["running"]],
            "kube_urls": kube_urls(self.world),
        }

    async def _batch(self, request: web.Request, place: Place) -> web.StreamResponse:
        async def one(part: batch.Part) -> tuple[int, JSON]:
            inner = Place(place.service, part.path, place.host)
            status, body = 200, {}
            try:
                body = await self.dispatcher.answer(
                    Asked(inner, part.method, part.query, part.body, part.headers | dict(request.headers))
                )
            except ApiError as error:
                status, body = error.code, error_body(place.service, error)
            query = {name: values[0] for name, values in part.query.items()}
            self.wire.recorder.write(
                place.service, part.method, part.path, query, json.loads(part.body or b"null"), status
            )
            return status, body

        return await batch.answer_all(
            batch.split(request.headers.get("Content-Type", ""), await request.read()), one
        )


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
