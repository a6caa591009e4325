"""Faults of forwarded requests: the pod receives the request, its answer is delayed or lost."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from grpo_wizard.steps.emulator.kube.streams.pod_connection import PodConnection

REQUEST = b"POST /api/jobs/?x=1 HTTP/1.1\r\nContent-Length: 2\r\n\r\n"


async def _exchange(fault: dict[str, Any]) -> tuple[bytes, bytes, float]:
    """Send one request with a body to a pod; returns what the pod received, the answer, and its delay."""
    received = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not received.endswith(b"{}") and (data := await reader.read(1000)):
            received.extend(data)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    def match(service: str, method: str, path: str) -> dict[str, Any]:
        return fault if (service, method, path) == ("ray", "POST", "/api/jobs/") else {}

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = PodConnection(*await asyncio.open_connection("127.0.0.1", port), match)
        begun = time.monotonic()
        try:
            await connection.write(REQUEST)
            await connection.write(b"{}")
            data = await connection.read(1000)
        except ConnectionError:
            data = b""
        connection.close()
        return bytes(received), data, time.monotonic() - begun


@pytest.mark.parametrize(
    ("fault", "arrives", "answered"),
    [
        ({}, True, True),
        ({"delay_s": 0.3}, True, True),
        ({"drop": "after"}, True, False),
        ({"drop": "before"}, False, False),
    ],
)
def test_a_fault_concerns_the_answer_unless_it_drops_the_request(
    fault: dict[str, Any], arrives: bool, answered: bool
) -> None:
    received, data, seconds = asyncio.run(_exchange(fault))
    assert received == (REQUEST + b"{}" if arrives else b"")
    assert data.startswith(b"HTTP/1.1 200") == answered
    assert seconds >= fault.get("delay_s", 0)
