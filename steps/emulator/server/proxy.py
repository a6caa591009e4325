"""The protocol of the listening socket: plain HTTP goes to aiohttp, CONNECT starts TLS, which makes it an HTTPS proxy.

aiohttp's own server does not support CONNECT, so the head of the request is read here first; then the
connection is handed over within the process, without a second hop.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import ssl
import weakref
from collections.abc import Callable

from grpo_wizard.steps.emulator.server.tls import PROXIED_DOMAINS

_MAX_HEAD_BYTES = 65536  # maximum size of a CONNECT request's head, in bytes


class ProxyProtocol(asyncio.Protocol):
    """An accepted connection until its kind is known."""

    def __init__(
        self,
        factory: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext,
        token: str,
        trusted: weakref.WeakSet[asyncio.BaseTransport],
    ) -> None:
        self._factory, self._tls, self._token, self._authenticated = factory, tls, token, trusted
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        transport = self._transport
        assert transport is not None
        if not b"CONNECT ".startswith(self._buffer[:8]):
            self._hand_over(transport)
        elif b"\r\n\r\n" in self._buffer:
            self._handle_connect(transport)
        elif len(self._buffer) > _MAX_HEAD_BYTES:
            transport.abort()

    def _hand_over(self, transport: asyncio.Transport) -> None:
        protocol = self._factory()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(self._buffer)

    def _handle_connect(self, transport: asyncio.Transport) -> None:
        lines = self._buffer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        target = lines[0].split(" ")[1] if lines[0].count(" ") >= 2 else ""
        host, _, port = target.rpartition(":")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        password = proxy_password(headers.get("proxy-authorization", ""))
        if password is not None and not hmac.compare_digest(password.encode(), self._token.encode()):
            self._reject(
                transport,
                "407 Proxy Authentication Required",
                "The proxy password is not the emulator's token.",
            )
        elif port != "443" or not any(host == name or host.endswith("." + name) for name in PROXIED_DOMAINS):
            self._reject(
                transport,
                "403 Forbidden",
                f"The emulator stands in for Google, Hugging Face and W&B, but not for {target}.",
            )
        else:
            transport.pause_reading()  # TLS follows; start_tls resumes reading
            transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._task = asyncio.get_running_loop().create_task(
                self._start_tls(transport, password is not None)
            )

    def _reject(self, transport: asyncio.Transport, status: str, text: str) -> None:
        transport.write(
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
            f"Connection: close\r\n\r\n{text}".encode()
        )
        transport.close()

    async def _start_tls(self, transport: asyncio.Transport, trusted: bool) -> None:
        protocol, early = self._factory(), _EarlyData()
        try:
            inner = await asyncio.get_running_loop().start_tls(transport, early, self._tls, server_side=True)
        except (OSError, ssl.SSLError):
            transport.abort()
            return
        if inner is not None and not inner.is_closing():
            if trusted:
                self._authenticated.add(inner)
            inner.set_protocol(protocol)
            protocol.connection_made(inner)
            if early.data:
                protocol.data_received(early.data)


class _EarlyData(asyncio.Protocol):
    """Keeps the bytes that arrive between the end of the handshake and the hand-over."""

    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


def proxy_password(header: str) -> str | None:
    """Return the password of a Basic `Proxy-Authorization` (or a Bearer token); None without the header."""
    kind, _, value = header.partition(" ")
    if kind.lower() == "bearer":
        return value
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(value).decode().partition(":")[2]
    except ValueError:
        return ""
