"""Watches: bookmarks, sendInitialEvents (WatchList), 410 for expired versions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import status
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.api.selectors import ObjectPredicate
from grpo_wizard.steps.emulator.kube.api.store import ObjectStore, StoreEvent

MAX_BACKLOG = 20000  # events that a slow client may lag before its watch is closed, as by the watch cache
BOOKMARK_S = 60.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_OVERFLOW = object()


@dataclass
class WatchRequest:
    """One watch request. `render` converts an object to what is sent (itself, or a one-row Table)."""

    store: ObjectStore
    kind: Kind
    namespace: str
    selector: ObjectPredicate
    version: str  # requested resourceVersion; "" and "0" start with the current objects
    send_initial_events: bool  # sendInitialEvents
    bookmarks: bool
    timeout: float
    render: Callable[[JSON], Any]

    def __post_init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def _is_relevant(self, change: StoreEvent) -> bool:
        return change.kind is self.kind and (
            not self.namespace or change.object["metadata"].get("namespace") == self.namespace
        )

    def _on_change(self, change: StoreEvent) -> None:
        if self._is_relevant(change):
            self._queue.put_nowait(change if self._queue.qsize() < MAX_BACKLOG else _OVERFLOW)

    def _events(self, change: StoreEvent) -> list[tuple[str, JSON]]:
        """Return a change as the selectors see it: objects that leave are DELETED, objects that enter are ADDED."""
        now = change.type != "DELETED" and self.selector(change.object)
        before = change.previous is not None and self.selector(change.previous)
        if now:
            return [("MODIFIED" if before else "ADDED", change.object)]
        return [("DELETED", change.object)] if before else []

    def _initial_events(self) -> list[tuple[str, JSON]]:
        if self.version in ("", "0") or self.send_initial_events:
            rows = [("ADDED", o) for o in self.store.list(self.kind, self.namespace) if self.selector(o)]
            if self.send_initial_events and self.bookmarks:
                rows.append(("BOOKMARK", self._bookmark({INITIAL_EVENTS_END: "true"})))
            return rows
        if not self.version.isdigit():
            raise status.bad_request(f"invalid resource version: {self.version!r}")
        changes = [c for c in self.store.changes_since(int(self.version)) if self._is_relevant(c)]
        return [event for change in changes for event in self._events(change)]

    def _bookmark(self, notes: dict[str, str] | None = None) -> JSON:
        meta: JSON = {"resourceVersion": str(self.store.version), "creationTimestamp": None}
        if notes:
            meta["annotations"] = notes
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": meta}

    def _encode_event(self, what: str, obj: JSON) -> bytes:
        shown: Any = obj
        if what != "BOOKMARK":
            shaped = self.render(obj)
            shown = self.store.encoded(self.kind, obj) if shaped is obj else shaped
        return msgspec.json.encode({"type": what, "object": shown}) + b"\n"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Stream events until the timeout, or until client or server closes the connection."""
        try:
            first = self._initial_events()
        except status.StatusError as error:
            if error.code != 410:
                raise
            return await self._expired(request, error)
        self.store.listeners.add(self._on_change)
        try:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(b"".join(self._encode_event(*event) for event in first))
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(self.timeout):
                    await self._follow(response)
            return response
        finally:
            self.store.listeners.discard(self._on_change)

    async def _expired(self, request: web.Request, error: status.StatusError) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(msgspec.json.encode({"type": "ERROR", "object": error.body()}) + b"\n")
        return response

    async def _follow(self, response: web.StreamResponse) -> None:
        while True:
            try:
                async with asyncio.timeout(BOOKMARK_S):
                    change = await self._queue.get()
            except TimeoutError:
                if self.bookmarks:
                    await response.write(self._encode_event("BOOKMARK", self._bookmark()))
                continue
            batch = [change]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            lines = [
                self._encode_event(*event) for c in batch if c is not _OVERFLOW for event in self._events(c)
            ]
            if lines:
                await response.write(b"".join(lines))
            if _OVERFLOW in batch:
                return
