"""exec over a WebSocket: remotecommand protocols v5 and v4, channels 0 to 4 and the close signal."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import WSMsgType, web

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import status
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.node import mounts, pod_status, shell
from grpo_wizard.steps.emulator.kube.node.pod_files import PodFiles

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_CHUNK = 32 * 1024
_INPUT_S = 600.0
MAX_INPUT = 16 * 1024 * 1024


async def serve(kube: ClusterContext, pod: JSON, container: JSON, request: web.Request) -> web.StreamResponse:
    """Run one allowed command and send its exit code on the error channel."""
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise status.bad_request("Upgrade request required")
    if "running" not in pod_status.container_status(pod, container["name"])["state"]:
        raise status.StatusError(
            500,
            "InternalError",
            f"error executing command in container: container {container['name']} is not running",
        )
    argv = request.query.getall("command", [])
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0)
    await socket.prepare(request)
    data = b""
    if request.query.get("stdin") == "true" and shell.reads_stdin(argv):
        data = await _read_stdin(socket)
    files = PodFiles(mounts.mounts(kube, pod, container))
    result = await asyncio.to_thread(shell.run, files, argv, data)
    for channel, text in ((_STDOUT, result.stdout), (_STDERR, result.stderr)):
        for start in range(0, len(text), _CHUNK):
            await socket.send_bytes(bytes([channel]) + text[start : start + _CHUNK])
    await socket.send_bytes(bytes([_ERROR]) + msgspec.json.encode(_exit_status(result.exit_code)))
    await socket.close()
    return socket


async def _read_stdin(socket: web.WebSocketResponse) -> bytes:
    """Read standard input to its end: v5's close signal, an empty frame or the client's close."""
    data = bytearray()
    while len(data) < MAX_INPUT:
        message = await socket.receive(_INPUT_S)
        if message.type is not WSMsgType.BINARY and message.type is not WSMsgType.TEXT:
            break
        frame = message.data.encode() if isinstance(message.data, str) else message.data
        if not frame or (frame[0] == _CLOSE and frame[1:] == bytes([_STDIN])):
            break
        if frame[0] == _STDIN:
            if len(frame) == 1 and data:
                break
            data += frame[1:]
            if socket.ws_protocol == PROTOCOLS[1] and data.endswith((b"\nexit\n", b"\x04")):
                break  # v4 cannot close standard input: a script ends with `exit` or end of transmission
    return bytes(data).removesuffix(b"\x04").removesuffix(b"exit\n") if data else b""


def _exit_status(code: int) -> JSON:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
