"""SPDY/3.1 inside a WebSocket, which kubectl ≥ 1.31 uses for port-forward: only the frames that it needs.

Frames and the header dictionary: the SPDY/3 draft (Chromium, 2012).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import zlib
from collections.abc import Awaitable, Callable

from aiohttp import WSMsgType, web

from grpo_wizard.steps.emulator.kube.streams.pod_connection import PodConnection

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_CHUNK = 32 * 1024
ConnectPort = Callable[[int], Awaitable[PodConnection]]

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-"
    "since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range "
    "referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning "
    "www-authenticate method get status"
)
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
_STANDALONE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
DICTIONARY = (
    b"".join(struct.pack(">I", len(w)) + w.encode() for w in (*_WORDS.split(), *_STANDALONE_WORDS))
    + _TAIL.encode()
)


def _control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body


class SpdyTunnel:
    """One kubectl port-forward: a pair of an error and a data stream per connection."""

    def __init__(self, socket: web.WebSocketResponse, connect: ConnectPort) -> None:
        self._socket, self._connect = socket, connect
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._buffer = bytearray()
        self._errors: dict[str, int] = {}  # request id -> error stream
        self._inbox: dict[int, asyncio.Queue[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve until the client disconnects."""
        try:
            async for message in self._socket:
                if message.type is WSMsgType.BINARY:
                    self._buffer += message.data
                    while frame := self._read_frame():
                        await self._frame(*frame)
        finally:
            for task in self._tasks:
                task.cancel()

    def _read_frame(self) -> tuple[int, int, bytes] | None:
        """Return first word, flags and body of the next complete frame."""
        if len(self._buffer) < 8:
            return None
        first, rest = struct.unpack_from(">II", self._buffer)
        size = rest & 0xFFFFFF
        if len(self._buffer) < 8 + size:
            return None
        body = bytes(self._buffer[8 : 8 + size])
        del self._buffer[: 8 + size]
        return first, rest >> 24, body

    async def _frame(self, first: int, flags: int, body: bytes) -> None:
        if not first & 0x80000000:
            await self._data(first, flags, body)
            return
        kind = first & 0xFFFF
        if kind == _SYN_STREAM:
            await self._open(body)
        elif kind == _PING:
            await self._socket.send_bytes(_control(_PING, body))
        elif kind == _RST_STREAM:
            await self._data(struct.unpack_from(">I", body)[0], _FIN, b"")
        elif kind == _GOAWAY:
            await self._socket.close()

    async def _data(self, stream: int, flags: int, body: bytes) -> None:
        inbox = self._inbox.get(stream)
        if inbox is not None:
            if body:
                await inbox.put(body)
            if flags & _FIN:
                await inbox.put(b"")

    def _headers(self, block: bytes) -> dict[str, str]:
        raw, at, found = self._inflate.decompress(block), 4, []
        for _ in range(2 * struct.unpack_from(">I", raw)[0]):
            size = struct.unpack_from(">I", raw, at)[0]
            found.append(raw[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return {k.lower(): v for k, v in zip(found[::2], found[1::2], strict=True)}

    async def _open(self, body: bytes) -> None:
        stream, headers = struct.unpack_from(">I", body)[0], self._headers(body[10:])
        block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._socket.send_bytes(_control(_SYN_REPLY, struct.pack(">I", stream) + block))
        request = headers.get("requestid", "")
        if headers.get("streamtype") == "error":
            self._errors[request] = stream
        elif headers.get("streamtype") == "data":
            self._inbox[stream] = asyncio.Queue(64)
            task = asyncio.create_task(
                self._forward_connection(stream, self._errors.pop(request, 0), int(headers["port"]))
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(
                struct.pack(">II", stream, (_FIN if fin else 0) << 24 | len(data)) + data
            )

    async def _forward_connection(self, stream: int, errors: int, port: int) -> None:
        """Forward one connection from its opening to its end."""
        try:
            connection = await self._connect(port)
        except ConnectionError as error:
            await self._send(errors, str(error).encode())
            await self._send(errors, b"", fin=True)
            await self._send(stream, b"", fin=True)
            self._drop_inbox(stream)
            return
        upward = asyncio.create_task(self._client_to_pod(stream, connection))
        try:
            with contextlib.suppress(ConnectionError):
                while data := await connection.read(_CHUNK):
                    await self._send(stream, data)
        finally:
            upward.cancel()
            connection.close()
            self._drop_inbox(stream)
            await self._send(stream, b"", fin=True)
            await self._send(errors, b"", fin=True)

    def _drop_inbox(self, stream: int) -> None:
        """Drop and empty an inbox that is no longer read, so that its writer does not wait forever."""
        inbox = self._inbox.pop(stream, None)
        while inbox is not None and not inbox.empty():
            inbox.get_nowait()

    async def _client_to_pod(self, stream: int, connection: PodConnection) -> None:
        inbox = self._inbox[stream]
        with contextlib.suppress(ConnectionError):
            while data := await inbox.get():
                await connection.write(data)
            connection.write_eof()
