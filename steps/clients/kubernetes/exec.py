"""Run one command in a pod's container over the API server's WebSocket (v4.channel.k8s.io), without a shell."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.port_forward import head_pod_selector
from grpo_wizard.steps.clients.serialization import JSON

if TYPE_CHECKING:
    from grpo_wizard.steps.clients.ray.head import RayHeadConnection

_STDOUT, _STDERR, _STATUS = 1, 2, 3


@dataclass(frozen=True)
class ExecResult:
    """A command's output and its exit code."""

    stdout: str
    stderr: str
    exit_code: int


async def run_in_pod(head: RayHeadConnection, container: str, command: list[str]) -> ExecResult:
    """Run `command` in the head's pod. Raises CloudError when it cannot be started."""
    import aiohttp

    pod = await head_pod_selector(head.access, head.namespace, head.raycluster)()
    if pod is None:
        raise CloudError("busy", "No Ray head is running", transient=True)
    url = f"{head.access.server}/api/v1/namespaces/{head.namespace}/pods/{pod}/exec"
    query = [
        ("container", container),
        ("stdout", "true"),
        ("stderr", "true"),
        *(("command", word) for word in command),
    ]
    output: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(
                url,
                params=query,
                protocols=["v4.channel.k8s.io"],
                headers=await head.access.headers(),
                ssl=head.access.ssl_context(),
            ) as socket,
        ):
            async for message in socket:
                if isinstance(message.data, bytes) and message.data and message.data[0] in output:
                    output[message.data[0]] += message.data[1:]
    except aiohttp.ClientError as error:
        raise CloudError(
            "transient", f"Cannot run {command[0]} in pod {pod}", str(error)[:200], transient=True
        ) from error
    return ExecResult(
        output[_STDOUT].decode("utf-8", "replace"),
        output[_STDERR].decode("utf-8", "replace"),
        _exit_code(bytes(output[_STATUS])),
    )


def _exit_code(status: bytes) -> int:
    """The exit code in the Status object of the last channel: 0 for Success, else the ExitCode cause."""
    document: JSON = json.loads(status) if status else {"status": "Failure"}
    if document.get("status") == "Success":
        return 0
    causes = document.get("details", {}).get("causes", [])
    return int(next((cause["message"] for cause in causes if cause.get("reason") == "ExitCode"), 1))
