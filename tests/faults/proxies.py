"""Proxies that break connections on their way to a real server: they replace the network, not the server."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

from aiohttp import ClientSession, WSMsgType, web


class CuttingProxy:
    """A TCP proxy on loopback. `cut()` breaks what is open; `allow` = bytes of answer a connection gets
    before it is cut."""

    def __init__(self, target_port: int, allow: int | None = None) -> None:
        self.target_port, self.allow = target_port, allow
        self.refuse = False  # accept and close at once
        self.swallow_answers = 0  # the number of requests whose answers are dropped
        self.cuts = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server
        self._server.close()
        self.drop_connections()

    @property
    def port(self) -> int:
        """Return the local port."""
        assert self._server
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """Return the proxy's address."""
        return f"http://127.0.0.1:{self.port}"

    def drop_connections(self) -> None:
        """Reset every open connection."""
        self.cuts += 1
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        up, down = (
            asyncio.create_task(self._up(reader, far_writer)),
            asyncio.create_task(self._down(far_reader, writer)),
        )
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        for task in (up, down):
            task.cancel()
        for end in (writer, far_writer):
            self._open.discard(end)
            end.close()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.allow
        with contextlib.suppress(OSError):
            while data := await reader.read(65536 if left is None else min(65536, max(left, 1))):
                if self.swallow_answers:
                    self.swallow_answers -= 1
                    break
                writer.write(data)
                await writer.drain()
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        self.cuts += 1
                        writer.transport.abort()
                        break


class ClosingProxy:
    """An HTTP proxy that ends a log stream itself: with `code`, after `messages` of them, `times` times."""

    def __init__(self, target_url: str, code: int, messages: int, times: int) -> None:
        self.target_url, self.code, self.messages, self.times = target_url, code, messages, times
        self.streams = 0

    async def __aenter__(self) -> ClosingProxy:
        app = web.Application()
        app.router.add_get("/api/jobs/{id}/logs/tail", self._tail)
        app.router.add_get("/{path:.*}", self._pass)
        self._session = ClientSession()
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        assert site._server
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()
        await self._runner.cleanup()

    def _headers(self, request: web.Request) -> dict[str, str]:
        given = request.headers.get("Authorization")
        return {"Authorization": given} if given else {}

    async def _pass(self, request: web.Request) -> web.Response:
        async with self._session.get(
            f"{self.target_url}{request.path_qs}", headers=self._headers(request)
        ) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), content_type=answer.content_type
            )

    async def _tail(self, request: web.Request) -> web.WebSocketResponse:
        near = web.WebSocketResponse()
        await near.prepare(request)
        self.streams += 1
        closes = self.streams <= self.times
        url = f"{self.target_url}{request.path}"
        async with self._session.ws_connect(url, headers=self._headers(request), max_msg_size=0) as far:
            count = 0
            async for message in far:
                if message.type is WSMsgType.TEXT:
                    await near.send_str(message.data)
                    count += 1
                if closes and count >= self.messages:
                    await near.close(code=self.code)
                    break
        await near.close(code=1000)
        return near
