"""Processes of this machine that stand for a head pod's containers: started when the pod is up, ended when
it goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.store import Change
from grpo_wizard.steps.emulator.kube.core import Kube
from grpo_wizard.steps.emulator.kube.node import environment, mounts
from grpo_wizard.steps.emulator.server.context import JSON

_LOG = logging.getLogger(__name__)
_NOT_RUN = ("fluent-bit",)  # ships logs to a service that a rehearsal does not have
_TASKS: set[asyncio.Task[None]] = set()


def is_head(pod: JSON) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head")


def _later(work: Coroutine[Any, Any, None]) -> None:
    async def guarded() -> None:
        try:
            await work
        except Exception:  # a sidecar that cannot start is told in the log; the pod's own life goes on
            _LOG.exception("process of a pod")

    task = asyncio.get_running_loop().create_task(guarded())
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


def start(kube: Kube, pod: JSON) -> None:
    """Runs the commands of a head's sidecars through Heads."""
    if kube.heads is None or not is_head(pod):
        return
    for container in pod["spec"]["containers"][1:]:
        argv = [*container.get("command", ()), *container.get("args", ())]
        if container.get("command") and container["name"] not in _NOT_RUN:
            view = environment.view(kube, pod, container)
            _later(kube.heads.start_sidecar(view, container["name"], argv, view.env))


def resume(kube: Kube, pods: list[JSON]) -> None:
    """After a restart of the server: heads that were up get their sidecars again."""
    for pod in pods:
        if kube.note("pods").get(pod["metadata"]["uid"]) == "up":
            start(kube, pod)


def killed(kube: Kube, pod: JSON) -> None:
    """The head's Ray container died: its process ends too. What the pod starts anew comes when it is ready
    again."""
    meta = pod["metadata"]
    if kube.heads is not None and is_head(pod):
        _later(kube.heads.pod_gone(kube.cluster_key, meta["namespace"], meta["name"]))


def gone(kube: Kube, pod: JSON) -> None:
    """Ends what runs for a pod and takes its files away."""
    killed(kube, pod)
    mounts.drop(kube, pod)


def watch(kube: Kube) -> Callable[[Change], None]:
    """A listener: whichever way a pod goes (its node, by force), what ran for it ends."""

    def heard(change: Change) -> None:
        if change.kind is kinds.POD and change.type == "DELETED":
            gone(kube, change.object)

    return heard


async def end_all(kube: Kube) -> None:
    """The cluster itself ends: so do its heads."""
    for pod in kube.store.list(kinds.POD):
        killed(kube, pod)
    await settle(kube)


async def settle(kube: Kube) -> None:
    """Waits for starts and ends under way."""
    if _TASKS:
        await asyncio.wait(_TASKS, timeout=5)
