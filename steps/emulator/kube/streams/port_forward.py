"""Port-forward: many connections over one WebSocket.

Ports of a head pod lead to its real Ray head; others are refused.
"""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import WSMsgType, web

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds, status
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.node import environment, pod_status, sidecars
from grpo_wizard.steps.emulator.kube.streams.pod_connection import PodConnection
from grpo_wizard.steps.emulator.kube.streams.spdy import PROTOCOL as TUNNEL
from grpo_wizard.steps.emulator.kube.streams.spdy import SpdyTunnel

CHANNEL_PROTOCOL = "v4.channel.k8s.io"
CHUNK = 64 * 1024


async def connect(kube: ClusterContext, pod: JSON, port: int) -> PodConnection:
    """Connect to a port of a pod. Raises ConnectionError with the container runtime's own text."""
    meta = pod["metadata"]
    pod = kube.store.find(kinds.POD, meta["namespace"], meta["name"]) or pod
    refused = (
        f"error forwarding port {port} to pod {meta['uid']}, uid : failed to execute portforward in network "
        f'namespace: failed to connect to localhost:{port} inside namespace "{meta["uid"]}", IPv4: dial tcp4 '
        f"127.0.0.1:{port}: connect: connection refused"
    )
    running = "running" in pod_status.container_status(pod, pod["spec"]["containers"][0]["name"])["state"]
    if kube.heads is None or not sidecars.is_head(pod) or not running:
        raise ConnectionError(refused)
    try:
        host, real = await kube.heads.connect(environment.pod_view(kube, pod), port)
        return PodConnection(*await asyncio.open_connection(host, real), kube.match_fault)
    except OSError as error:
        raise ConnectionError(f"{refused} ({error})") from error


async def serve(kube: ClusterContext, pod: JSON, request: web.Request) -> web.StreamResponse:
    """Serve both WebSocket protocols: kubectl's SPDY tunnel and the channels of the Python client."""
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise status.bad_request("Upgrade request required")
    if pod["status"].get("phase") != "Running":
        raise status.StatusError(
            500,
            "InternalError",
            f"unable to forward port because pod is not running. Current status={pod['status'].get('phase')}",
        )
    socket = web.WebSocketResponse(protocols=(TUNNEL, CHANNEL_PROTOCOL), max_msg_size=0)
    await socket.prepare(request)
    if socket.ws_protocol == TUNNEL:
        await SpdyTunnel(socket, lambda port: connect(kube, pod, port)).serve()
        return socket
    ports = [int(p) for text in request.query.getall("ports", []) for p in text.split(",")]
    await _channels(kube, pod, socket, ports)
    return socket


async def _channels(kube: ClusterContext, pod: JSON, socket: web.WebSocketResponse, ports: list[int]) -> None:
    """Channel 2i carries port i's data, 2i+1 its errors; each starts with the port in two bytes."""
    for i, port in enumerate(ports):
        for channel in (2 * i, 2 * i + 1):
            await socket.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
    connections: dict[int, PodConnection] = {}
    pumps = []
    try:
        for i, port in enumerate(ports):
            try:
                connection = connections[2 * i] = await connect(kube, pod, port)
            except ConnectionError as error:
                await socket.send_bytes(bytes([2 * i + 1]) + str(error).encode())
                continue
            pumps.append(asyncio.create_task(_pod_to_client(socket, 2 * i, connection)))
        await _client_to_pod(socket, connections, pumps)
    finally:
        for pump in pumps:
            pump.cancel()
        for connection in connections.values():
            connection.close()
        with contextlib.suppress(Exception):
            await socket.close()


async def _pod_to_client(socket: web.WebSocketResponse, channel: int, connection: PodConnection) -> None:
    """Copy from the pod to the client; the end of the pod's stream closes the whole socket, as kubelets do."""
    with contextlib.suppress(ConnectionError):
        while data := await connection.read(CHUNK):
            await socket.send_bytes(bytes([channel]) + data)
        await socket.close()


async def _client_to_pod(
    socket: web.WebSocketResponse, connections: dict[int, PodConnection], pumps: list[asyncio.Task[None]]
) -> None:
    """Copy from the client to the pods until one of them ends."""
    while pumps and not all(p.done() for p in pumps):
        message = await socket.receive()
        if message.type is not WSMsgType.BINARY:
            return
        connection = connections.get(message.data[0])
        if connection is not None and len(message.data) > 1:
            with contextlib.suppress(ConnectionError):
                await connection.write(message.data[1:])
