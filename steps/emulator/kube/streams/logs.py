"""What containers have to say: read off their state, since nothing but the head's Ray really runs."""

from __future__ import annotations

import asyncio

from aiohttp import web

from grpo_wizard.steps.emulator.kube.api import kinds, status
from grpo_wizard.steps.emulator.kube.core import ClusterContext
from grpo_wizard.steps.emulator.kube.node import pod_status
from grpo_wizard.steps.emulator.kube.node.init_containers import HEAD_WAIT
from grpo_wizard.steps.emulator.server.context import JSON

_POLL_S = 0.2
ContainerLogLine = tuple[str, str]  # time (RFC 3339), text


def _startup_lines(pod: JSON, container: JSON) -> list[str]:
    """What a container of this sort prints at its start."""
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
            f"rehearsal: this stands for `{start.strip()}`",
            f"INFO scripts.py:913 -- Local node IP: {ip}",
            "SUCC scripts.py:949 -- --------------------",
            "SUCC scripts.py:950 -- Ray runtime started.",
            "SUCC scripts.py:951 -- --------------------",
            "INFO scripts.py:1060 -- --block",
            "INFO scripts.py:1062 -- This command will now block forever until terminated by a signal.",
        ]
    return [f"rehearsal: container {name} of image {container['image']} is not executed"]


def log_lines(pod: JSON, container: JSON, previous: bool = False) -> list[ContainerLogLine]:
    """The log of a container, or of its last end. Raises 400 as the kubelet does when there is none."""
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
            found.append((end["finishedAt"], f"rehearsal drill: exit code {end['exitCode']}"))
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
    kube: ClusterContext, pod: JSON, container: JSON, response: web.StreamResponse, told: int
) -> None:
    """New lines until the container ends or the pod goes."""
    meta = pod["metadata"]
    while True:
        await asyncio.sleep(_POLL_S)
        now = kube.store.find(kinds.POD, meta["namespace"], meta["name"])
        if now is None or now["metadata"]["uid"] != meta["uid"]:
            return
        state = pod_status.container_status(now, container["name"])["state"]
        if "waiting" not in state:
            found = log_lines(now, container)
            await response.write("".join(f"{text}\n" for _, text in found[told:]).encode())
            told = max(told, len(found))
        if "terminated" in state or "waiting" in state or response.task is None or response.task.done():
            return
