"""Our own port-forward against the rehearsal's Kubernetes over TLS: exact, slowed down by slow readers,
and not to be shaken off."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kube_test_server import TOKEN, FakeRayHeadManager, KubeTestServer, kube_test_server, wait_until

from grpo_wizard.steps.clients.kubernetes.access import KubeAccess
from grpo_wizard.steps.clients.kubernetes.port_forward import (
    PortForward,
    PortForwardEvent,
    head_pod_selector,
    newest_running,
)

BODY = os.urandom(1 << 20) * 9


class Pod:
    """A TCP server on loopback in place of the head's port 8265.

    `sent`: bytes that its kernel accepted. `unfinished`: bodies that are being sent.
    """

    def __init__(self) -> None:
        self.sent = self.unfinished = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            command = (await reader.readline()).strip()
            if command == b"body":
                await self._send_body(writer)
            elif command == b"echo":
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            elif command == b"flood":
                for _ in range(400):
                    writer.write(bytes(1 << 20))
                    await writer.drain()
                    self.sent += 1 << 20
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    async def _send_body(self, writer: asyncio.StreamWriter) -> None:
        self.unfinished += 1
        try:
            writer.write(BODY)
            await writer.drain()
        finally:
            self.unfinished -= 1


@pytest.fixture(scope="module")
def pod() -> Pod:
    return Pod()


@pytest.fixture(scope="module")
def heads() -> FakeRayHeadManager:
    return FakeRayHeadManager(0)


@pytest.fixture(scope="module")
def world(pod: Pod, heads: FakeRayHeadManager) -> Iterator[KubeTestServer]:
    with kube_test_server(heads=heads) as it:
        server = it.call(asyncio.start_server(pod.serve, "127.0.0.1", 0))
        heads.port = server.sockets[0].getsockname()[1]
        make_head(it, "head-a")
        yield it
        it.loop.call_soon_threadsafe(server.close)


def access(world: KubeTestServer) -> KubeAccess:
    async def token() -> str:
        return TOKEN

    return KubeAccess(world.url, world.cluster.ca_path.read_text(), token)


def ask(world: KubeTestServer, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        world.url + path,
        method=method,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, context=access(world).ssl_context(), timeout=10) as answer:
        return json.load(answer)


def make_head(world: KubeTestServer, name: str) -> None:
    labels = {"ray.io/cluster": "ray-cluster-kuberay", "ray.io/node-type": "head"}
    spec = {"containers": [{"name": "ray-head", "image": "nvcr.io/nvidia/nemo-rl:v0.5.0"}]}
    ask(
        world,
        "POST",
        "/api/v1/namespaces/default/pods",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec},
    )
    path = f"/api/v1/namespaces/default/pods/{name}"
    wait_until(lambda: ask(world, "GET", path)["status"].get("phase") == "Running")


@asynccontextmanager
async def forwarded(
    world: KubeTestServer, events: list[PortForwardEvent], port: int = 8265, **more: Any
) -> AsyncIterator[PortForward]:
    choose = head_pod_selector(access(world), "default", "ray-cluster-kuberay")
    async with PortForward(
        access(world), "default", choose, port, on_event=events.append, check_interval_s=0.2, **more
    ) as forward:
        yield forward


async def body_through(forward: PortForward) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
    writer.write(b"body\n")
    data = await reader.read(-1)
    writer.close()
    return hashlib.sha256(data).hexdigest()


async def eventually(work: Callable[[], Awaitable[bool]], seconds: float = 15, poll_s: float = 0.05) -> float:
    start = time.monotonic()
    while not await work():
        assert time.monotonic() - start < seconds, "never happened"
        await asyncio.sleep(poll_s)
    return time.monotonic() - start


def test_nine_megabytes_arrive_exactly_and_forty_connections_stand_side_by_side(
    world: KubeTestServer,
) -> None:
    async def run() -> tuple[list[str], list[bytes], float]:
        async with forwarded(world, []) as forward:
            start = time.monotonic()
            sums = [await body_through(forward)]
            seconds = time.monotonic() - start

            async def echo(n: int) -> bytes:
                reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
                writer.write(b"echo\n" + b"%06d" % n * 2000)
                data = await reader.readexactly(12_000)
                writer.close()
                return data

            return sums, await asyncio.gather(*(echo(n) for n in range(40))), seconds

    sums, echoes, seconds = asyncio.run(run())
    assert sums == [hashlib.sha256(BODY).hexdigest()]
    assert echoes == [b"%06d" % n * 2000 for n in range(40)]
    print(f"{len(BODY) / seconds / 1e6:.1f} MB/s")


async def killed(world: KubeTestServer) -> None:
    """What a kill does to those who are connected: nothing is finished."""
    server = world.cluster._runner and world.cluster._runner.server
    for connection in server.connections if server else ():
        if connection.transport is not None:
            connection.transport.abort()
    await world.cluster.stop()


def test_a_hundred_megabytes_over_a_server_that_is_killed_and_comes_back(
    world: KubeTestServer, pod: Pod
) -> None:
    """Four readers at once, three bodies each; what the kill cuts is asked for again on the same local address."""
    whole = hashlib.sha256(BODY).hexdigest()
    cut: list[int] = []

    async def run() -> tuple[list[str], list[PortForwardEvent]]:
        events: list[PortForwardEvent] = []
        begun = asyncio.Event()
        async with forwarded(world, events) as forward:

            async def reader(n: int) -> list[str]:
                got: list[str] = []
                while len(got) < 3:
                    found = await body_through(forward)
                    if found == whole:
                        got.append(found)
                        begun.set()
                    else:
                        cut.append(n)
                        await asyncio.sleep(0.1)
                return got

            async def kill() -> list[str]:
                await begun.wait()
                await eventually(lambda: asyncio.sleep(0, pod.unfinished > 1), poll_s=0.001)
                await asyncio.to_thread(world.call, killed(world))
                await eventually(lambda: asyncio.sleep(0, events[-1].kind == "lost"))
                await asyncio.to_thread(world.call, world.cluster.start())
                return []

            results = await asyncio.gather(*(reader(n) for n in range(4)), kill())
            return [one for got in results for one in got], events

    start = time.monotonic()
    sums, events = asyncio.run(asyncio.wait_for(run(), 90))
    assert sums == [whole] * 12 and 12 * len(BODY) > 100e6
    assert cut, "the kill came in the middle"
    assert [e.kind for e in events][:3] == ["ready", "lost", "restored"]
    print(f"{12 * len(BODY) / 1e6:.0f} MB in {time.monotonic() - start:.1f} s, cut {len(cut)} times")


def test_a_client_that_does_not_read_slows_the_pod_down(world: KubeTestServer, pod: Pod) -> None:
    async def run() -> int:
        async with forwarded(world, []) as forward:
            pod.sent = 0
            _, writer = await asyncio.open_connection("127.0.0.1", forward.local_port, limit=65536)
            writer.write(b"flood\n")
            await eventually(lambda: asyncio.sleep(0, pod.sent > 0))
            before = -1
            while before != pod.sent:  # until nothing moves any more
                before = pod.sent
                await asyncio.sleep(0.7)
            writer.transport.abort()
            return pod.sent

    assert 0 < asyncio.run(run()) < 64 << 20, "of 400 MB; the rest is what sockets and TLS hold"


def test_a_server_that_goes_and_comes_back_is_told_once_and_the_address_stays(world: KubeTestServer) -> None:
    async def run() -> list[PortForwardEvent]:
        events: list[PortForwardEvent] = []
        async with forwarded(world, events) as forward:
            await body_through(forward)
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            writer.write(b"echo\nhello")
            assert await reader.readexactly(5) == b"hello"
            await asyncio.to_thread(world.call, world.cluster.stop())
            assert await asyncio.wait_for(reader.read(), 5) == b"", "the cut connection ends"
            await eventually(lambda: asyncio.sleep(0, events[-1].kind == "lost"))
            await asyncio.to_thread(world.call, world.cluster.start())
            assert await body_through(forward) == hashlib.sha256(BODY).hexdigest()
            writer.close()
        return events

    kinds = [event.kind for event in asyncio.run(run())]
    assert kinds == ["ready", "lost", "restored"]


def test_a_new_head_pod_is_found_within_seconds_and_told_once(world: KubeTestServer) -> None:
    async def run() -> tuple[list[PortForwardEvent], float]:
        events: list[PortForwardEvent] = []
        async with forwarded(world, events) as forward:
            await body_through(forward)
            old = forward.pod
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            writer.write(b"echo\nhello")
            assert await reader.readexactly(5) == b"hello"
            await asyncio.to_thread(
                ask, world, "DELETE", f"/api/v1/namespaces/default/pods/{old}?gracePeriodSeconds=0"
            )
            await asyncio.to_thread(make_head, world, "head-b")
            start = time.monotonic()
            assert await asyncio.wait_for(reader.read(), 5) == b"", "what led to the old pod ends"
            await eventually(lambda: asyncio.sleep(0, forward.pod == "head-b"))
            seconds = time.monotonic() - start
            assert await body_through(forward) == hashlib.sha256(BODY).hexdigest()
            writer.close()
        return events, seconds

    events, seconds = asyncio.run(run())
    kinds = [event.kind for event in events]
    assert kinds.count("moved") == 1 and kinds.count("lost") <= 1 and kinds[0] == "ready"
    assert next(event.detail for event in events if event.kind == "moved") == "the head pod is now head-b"
    assert seconds < 5


def test_a_pod_that_refuses_is_told_in_its_own_words(world: KubeTestServer) -> None:
    async def run() -> tuple[bytes, list[PortForwardEvent]]:
        events: list[PortForwardEvent] = []
        async with forwarded(world, events, port=9999) as forward:
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            data = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            await eventually(lambda: asyncio.sleep(0, any(event.kind == "lost" for event in events)))
        return data, events

    data, events = asyncio.run(run())
    lost = [event for event in events if event.kind == "lost"]
    assert data == b"" and len(lost) == 1
    assert "9999" in lost[0].detail


def test_a_connection_that_finds_no_pod_ends_after_the_patience(world: KubeTestServer) -> None:
    async def run() -> tuple[float, list[PortForwardEvent]]:
        events: list[PortForwardEvent] = []

        async def nobody() -> str | None:
            return None

        async with PortForward(
            access(world), "default", nobody, 8265, on_event=events.append, connect_timeout_s=0.5
        ) as forward:
            start = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            assert await reader.read() == b""
            writer.close()
            return time.monotonic() - start, events

    seconds, events = asyncio.run(run())
    assert seconds < 3 and [event.kind for event in events] == ["lost"]


def test_the_newest_running_pod_is_chosen() -> None:
    def row(name: str, phase: str, created: str, **more: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "creationTimestamp": created, **more}, "status": {"phase": phase}}

    rows = [
        row("old", "Running", "2026-01-01T00:00:00Z"),
        row("new", "Running", "2026-01-02T00:00:00Z"),
        row("going", "Running", "2026-01-03T00:00:00Z", deletionTimestamp="2026-01-03T01:00:00Z"),
        row("coming", "Pending", "2026-01-04T00:00:00Z"),
    ]
    assert newest_running(rows) == "new" and newest_running(rows[3:]) is None
