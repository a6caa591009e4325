"""Forward a local port to the current head pod through the Kubernetes API server's WebSocket.

Protocol v4.channel.k8s.io (k8s.io/kubelet, portforward/websocket.go): `GET
…/pods/POD/portforward?ports=N`, binary messages whose first byte is the channel, 0 data and 1 errors; the
first message of each channel is the port, 2 bytes little-endian. One WebSocket carries one TCP connection.
It has no half-close: the end of one side ends both.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.kubernetes.access import KubeAccess

if TYPE_CHECKING:
    import aiohttp

PodSelector = Callable[[], Awaitable[str | None]]
_CHUNK_SIZE = 64 * 1024
_DATA, _ERROR = 0, 1


class PortForwardError(WizardError):
    """The API server cannot be reached, or refuses to forward."""


@dataclass(frozen=True)
class PortForwardEvent:
    """A change that is reported once. `kind`: ready, lost (the pod cannot be reached), restored, moved (another pod)."""

    kind: str
    pod: str | None
    detail: str


def head_pod_selector(access: KubeAccess, namespace: str, raycluster: str) -> PodSelector:
    """Select the RayCluster's head by its labels: the newest pod that runs and is not being deleted, else None."""

    async def select() -> str | None:
        import aiohttp

        labels = f"ray.io/cluster={raycluster},ray.io/node-type=head"
        url = f"{access.server}/api/v1/namespaces/{namespace}/pods"
        timeout = aiohttp.ClientTimeout(total=10)
        headers, ssl = await access.headers(), access.ssl_context()
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, params={"labelSelector": labels}, headers=headers, ssl=ssl) as answer,
        ):
            if answer.status != 200:
                raise PortForwardError(
                    "The head pod cannot be found",
                    f"{answer.status}: {(await answer.text())[:200]}",
                    "Check that you have permission to list pods in this namespace.",
                    f"kubectl get pods -n {namespace} -l {labels}",
                )
            return newest_running((await answer.json())["items"])

    return select


def newest_running(pods: list[dict[str, Any]]) -> str | None:
    """The name of the newest pod of a PodList that is Running and not being deleted."""
    fit = [
        pod["metadata"]
        for pod in pods
        if pod.get("status", {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]
    newest = max(fit, key=lambda meta: str(meta.get("creationTimestamp", "")), default=None)
    return str(newest["name"]) if newest else None


class PortForward:
    """`async with PortForward(access, "default", head_pod_selector(…), 8265) as forward:` then use `forward.url`.

    The local port stays the same when the API server restarts or the pod is replaced. A new connection then waits up
    to `connect_timeout_s` for a pod. Every `check_interval_s` the selector is asked whether the pod is still the same.
    """

    def __init__(
        self,
        access: KubeAccess,
        namespace: str,
        select_pod: PodSelector,
        port: int,
        *,
        local_port: int = 0,
        on_event: Callable[[PortForwardEvent], None] | None = None,
        check_interval_s: float = 2.0,
        connect_timeout_s: float = 10.0,
    ) -> None:
        self.access, self.namespace, self.select_pod, self.port = access, namespace, select_pod, port
        self.check_interval_s, self.connect_timeout_s = check_interval_s, connect_timeout_s
        self.pod: str | None = None
        self._last_pod: str | None = None  # kept while `pod` is None because its connection failed
        self._local_port, self._on_event = local_port, on_event
        self._lost = False
        self._tunnels: dict[asyncio.Task[None], str] = {}
        self._server: asyncio.Server | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def local_port(self) -> int:
        """The port on 127.0.0.1."""
        return self._local_port

    @property
    def url(self) -> str:
        """http://127.0.0.1:PORT"""
        return f"http://127.0.0.1:{self._local_port}"

    async def __aenter__(self) -> PortForward:
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self.access.ssl_context())
        )
        try:
            self._server = await asyncio.start_server(
                self._accept, "127.0.0.1", self._local_port, limit=_CHUNK_SIZE
            )
        except OSError as error:
            await self._session.close()
            raise PortForwardError(
                f"Local port {self._local_port} cannot be used", str(error), "Choose another port."
            ) from error
        self._local_port = self._server.sockets[0].getsockname()[1]
        self._watch_task = asyncio.create_task(self._watch_pod())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server:
            self._server.close()
        tasks = [*self._tunnels, *([self._watch_task] if self._watch_task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session:
            await self._session.close()

    async def _watch_pod(self) -> None:
        while True:
            await self._check_pod()
            await asyncio.sleep(self.check_interval_s)

    async def _check_pod(self) -> None:
        """Ask which pod is current; a new one closes the tunnels to the old one, whose clients then reconnect."""
        try:
            pod = await self.select_pod()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # whatever the selector's client raises, the pod cannot be reached
            self._emit_lost(str(error) or type(error).__name__)
            return
        if pod is None:
            self._emit_lost("no head pod is running")
            return
        before, self._last_pod, self.pod = self._last_pod, pod, pod
        if before not in (None, pod):
            for task in [task for task, to in self._tunnels.items() if to == before]:
                task.cancel()
            self._lost = False
            self._emit("moved", f"the head pod is now {pod}")
        elif before is None:
            self._lost = False
            self._emit("ready", f"forwarding to {pod}")

    def _emit(self, kind: str, detail: str) -> None:
        if self._on_event:
            self._on_event(PortForwardEvent(kind, self.pod, detail))

    def _emit_lost(self, detail: str) -> None:
        if not self._lost:
            self._lost = True
            self._emit("lost", detail)

    def _emit_restored(self) -> None:
        if self._lost:
            self._lost = False
            self._emit("restored", f"forwarding to {self.pod}")

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tunnels[task] = ""
        try:
            ws = await self._connect_with_retry(task)
            if ws is not None:
                await self._relay(ws, reader, writer)
        except asyncio.CancelledError:
            pass  # asyncio's server would log it; the connection just ends
        finally:
            self._tunnels.pop(task, None)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _connect_with_retry(self, task: asyncio.Task[None]) -> aiohttp.ClientWebSocketResponse | None:
        """Open a WebSocket to the pod, with growing pauses between attempts until `connect_timeout_s` is over."""
        end, pause = asyncio.get_running_loop().time() + self.connect_timeout_s, 0.1
        while True:
            if self.pod is None:
                await self._check_pod()
            if self.pod is not None:
                self._tunnels[task] = self.pod
                ws = await self._connect(self.pod)
                if ws is not None:
                    self._emit_restored()
                    return ws
            if asyncio.get_running_loop().time() + pause > end:
                return None
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)
            await self._check_pod()

    async def _connect(self, pod: str) -> aiohttp.ClientWebSocketResponse | None:
        import aiohttp

        assert self._session is not None
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/portforward?ports={self.port}"
        try:
            ws = await asyncio.wait_for(
                self._session.ws_connect(
                    self.access.server + path,
                    protocols=("v4.channel.k8s.io",),
                    headers=await self.access.headers(),
                    max_msg_size=0,
                    autoping=True,
                    autoclose=True,
                ),
                timeout=10,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._emit_lost(f"{pod}: {error or type(error).__name__}")
            return None
        try:
            return ws if await self._handshake(ws, pod) else None
        except BaseException:
            await ws.close()
            raise

    async def _handshake(self, ws: aiohttp.ClientWebSocketResponse, pod: str) -> bool:
        """Read the two messages that name the port; an error in their place means that the pod cannot be reached."""
        import aiohttp

        awaited, detail = {_DATA, _ERROR}, "the connection was closed immediately"
        while awaited:
            message = await asyncio.wait_for(ws.receive(), timeout=10)
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            channel, data = message.data[0], message.data[1:]
            if channel not in awaited or len(data) != 2:
                detail = data.decode("utf-8", "replace")[:300]
                break
            awaited.discard(channel)
        if awaited:
            self._emit_lost(f"{pod}: {detail}")
            await ws.close()
        return not awaited

    async def _relay(
        self, ws: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        up, down = asyncio.create_task(_send(reader, ws)), asyncio.create_task(_receive(ws, writer))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            if up.done() and not down.done():  # the client is done: wait a moment for an answer in flight
                await asyncio.wait({down}, timeout=1)
        finally:
            for task in (up, down):
                task.cancel()
            results = await asyncio.gather(up, down, return_exceptions=True)
            with contextlib.suppress(Exception):
                await asyncio.wait_for(ws.close(), timeout=2)
        failure = next((str(result) for result in results if isinstance(result, _StreamError)), None)
        if failure:
            self._emit_lost(f"{self.pod}: {failure}")
            self.pod = None  # the next connection selects the pod again
        elif any(isinstance(result, _ConnectionLost) for result in results):
            # The API server or its connection is gone; when only the pod's side ends, the close is regular.
            await self._check_pod()


class _StreamError(Exception):
    """The pod's side ended with an error."""


class _ConnectionLost(Exception):
    """The WebSocket ended without a close frame: the API server died or dropped the connection."""


async def _send(reader: asyncio.StreamReader, ws: aiohttp.ClientWebSocketResponse) -> None:
    """Copy from the local client to the pod. `send_bytes` waits while the socket is full, which slows the client down."""
    while data := await reader.read(_CHUNK_SIZE):
        await ws.send_bytes(bytes([_DATA]) + data)


async def _receive(ws: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """Copy from the pod to the local client, and wait for the client before the next message is read."""
    import aiohttp

    async for message in ws:
        if message.type is not aiohttp.WSMsgType.BINARY:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == _DATA:
            writer.write(data)
            await writer.drain()
        elif data:
            raise _StreamError(data.decode("utf-8", "replace")[:300])
    if ws.close_code == 1006:
        raise _ConnectionLost
