"""Container logs, derived from their state: only the head's Ray actually runs."""

from __future__ import annotations

import asyncio

from aiohttp import web

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds, status
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.node import pod_status
from grpo_wizard.steps.emulator.kube.node.init_containers import HEAD_WAIT

_POLL_S = 0.2
ContainerLogLine = tuple[str, str]  # time (RFC 3339), text


def _startup_lines(pod: JSON, container: JSON) -> list[str]:
    """Return what a container of this type prints when it starts."""
    name, ip = container["name"], pod["status"].get("podIP", "")
    kind = (pod["metadata"].get("labels") or {}).get("ray.io/node-type")
    if name == HEAD_WAIT:
        return ["5 seconds elapsed: Waiting for GCS to be ready."]
    if name == "fluent-bit":
        return ["Fluent Bit v4.0.3", "* Copyright (C) 2015-2025 The Fluent Bit Authors"]
    if kind in ("head", "worker") and container["name"] == pod["spec"]["containers"][0]["name"]:
        start = next(
            (
                e.get("value", "")
                for e in container.get("env", ())
                if e["name"] == "KUBERAY_GEN_RAY_START_CMD"
            ),
            "",
        )
        return [
            f"emulator: simulates `{start.strip()}`",
            f"INFO scripts.py:913 -- Local node IP: {ip}",
            "SUCC scripts.py:949 -- --------------------",
            "SUCC scripts.py:950 -- Ray runtime started.",
            "SUCC scripts.py:951 -- --------------------",
            "INFO scripts.py:1060 -- --block",
            "INFO scripts.py:1062 -- This command will now block forever until terminated by a signal.",
        ]
    return [f"emulator: container {name} of image {container['image']} is not executed"]


def log_lines(pod: JSON, container: JSON, previous: bool = False) -> list[ContainerLogLine]:
    """Return a container's log, or that of its previous instance.

    Raises 400, as the kubelet does, if there is none.
    """
    name, row = (
        container["name"],
        pod_status.container_status(pod, container["name"])
        if pod["status"].get("containerStatuses")
        else None,
    )
    title = pod["metadata"]["name"]
    if row is None:
        raise status.bad_request(f'container "{name}" in pod "{title}" is waiting to start: PodInitializing')
    ended = row["lastState"].get("terminated") or row["state"].get("terminated")
    if previous and not ended:
        raise status.bad_request(f'previous terminated container "{name}" in pod "{title}" not found')
    state = {"terminated": ended} if previous or (ended and "waiting" in row["state"]) else row["state"]
    if "waiting" in state:
        raise status.bad_request(
            f'container "{name}" in pod "{title}" is waiting to start: {state["waiting"]["reason"]}'
        )
    begun = (state.get("running") or state["terminated"])["startedAt"]
    found = [(begun, text) for text in _startup_lines(pod, container)]
    if end := state.get("terminated"):
        if name == HEAD_WAIT and end["exitCode"] == 0:
            found.append((end["finishedAt"], "GCS is ready."))
        elif end["reason"] == "Error":
            found.append((end["finishedAt"], f"emulator drill: exit code {end['exitCode']}"))
    return found


def _select_lines(request: web.Request, found: list[ContainerLogLine]) -> list[str]:
    stamped = request.query.get("timestamps") == "true"
    tail = request.query.get("tailLines")
    rows = [f"{at} {text}\n" if stamped else f"{text}\n" for at, text in found]
    return rows[max(0, len(rows) - int(tail)) :] if tail is not None else rows


async def serve(kube: ClusterContext, pod: JSON, container: JSON, request: web.Request) -> web.StreamResponse:
    """GET …/log with container, follow, tailLines, previous, timestamps, limitBytes."""
    found = log_lines(pod, container, request.query.get("previous") == "true")
    text = "".join(_select_lines(request, found))
    if limit := request.query.get("limitBytes"):
        text = text[: int(limit)]
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    await response.write(text.encode())
    if request.query.get("follow") == "true":
        await _follow(kube, pod, container, response, len(found))
    return response


async def _follow(
    kube: ClusterContext, pod: JSON, container: JSON, response: web.StreamResponse, sent: int
) -> None:
    """Send new lines until the container ends or the pod is deleted."""
    meta = pod["metadata"]
    while True:
        await asyncio.sleep(_POLL_S)
        now = kube.store.find(kinds.POD, meta["namespace"], meta["name"])
        if now is None or now["metadata"]["uid"] != meta["uid"]:
            return
        state = pod_status.container_status(now, container["name"])["state"]
        if "waiting" not in state:
            found = log_lines(now, container)
            await response.write("".join(f"{text}\n" for _, text in found[sent:]).encode())
            sent = max(sent, len(found))
        if "terminated" in state or "waiting" in state or response.task is None or response.task.done():
            return
