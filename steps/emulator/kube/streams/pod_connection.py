"""A forwarded connection to a port of a pod, with the faults of `--faults` for service `ray`.

Requests to a Ray head reach it as forwarded bytes, not through the server's middleware. Of a fault's actions,
`delay_s` and `drop` apply: the head receives the request at once, and its answer is delayed or lost.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

FaultMatcher = Callable[
    [str, str, str], dict[str, Any]
]  # service, method, path -> `do` of a fault, {} for none
_REQUEST_LINE = re.compile(rb"([A-Z]+) ([^ ?]+)[^ ]* HTTP/1\.[01]\r\n")


class PodConnection:
    """The stream pair of one connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, match_fault: FaultMatcher
    ) -> None:
        self._reader, self._writer, self._match_fault = reader, writer, match_fault
        self._answer_at = 0.0
        self._drop_answer = False

    async def read(self, size: int) -> bytes:
        """The pod's next bytes; empty at the end."""
        data = await self._reader.read(size)
        await asyncio.sleep(max(0.0, self._answer_at - asyncio.get_running_loop().time()))
        if self._drop_answer:
            self._writer.transport.abort()
            return b""
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes to the pod. Raises ConnectionError."""
        if line := _REQUEST_LINE.match(data):
            do = self._match_fault("ray", line[1].decode(), line[2].decode())
            self._answer_at = asyncio.get_running_loop().time() + do.get("delay_s", 0)
            self._drop_answer = do.get("drop") in ("after", True)
            if do.get("drop") == "before":
                self._writer.transport.abort()
        self._writer.write(data)
        await self._writer.drain()

    def write_eof(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()
