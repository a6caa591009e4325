"""Processes of this machine that stand for a head pod's containers: started when the pod is up, ended when
it goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.store import StoreEvent
from grpo_wizard.steps.emulator.kube.core import ClusterContext
from grpo_wizard.steps.emulator.kube.node import environment, mounts
from grpo_wizard.steps.emulator.server.context import JSON

_LOG = logging.getLogger(__name__)
_IGNORED_SIDECARS = ("fluent-bit",)  # ships logs to a service that a rehearsal does not have
_TASKS: set[asyncio.Task[None]] = set()


def is_head(pod: JSON) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head")


def _run_in_background(work: Coroutine[Any, Any, None]) -> None:
    async def guarded() -> None:
        try:
            await work
        except Exception:  # a sidecar that cannot start is told in the log; the pod's own life goes on
            _LOG.exception("process of a pod")

    task = asyncio.get_running_loop().create_task(guarded())
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


def start(kube: ClusterContext, pod: JSON) -> None:
    """Runs the commands of a head's sidecars through Heads."""
    if kube.heads is None or not is_head(pod):
        return
    for container in pod["spec"]["containers"][1:]:
        argv = [*container.get("command", ()), *container.get("args", ())]
        if container.get("command") and container["name"] not in _IGNORED_SIDECARS:
            view = environment.pod_view(kube, pod, container)
            _run_in_background(kube.heads.start_sidecar(view, container["name"], argv, view.env))


def resume(kube: ClusterContext, pods: list[JSON]) -> None:
    """After a restart of the server: heads that were up get their sidecars again."""
    for pod in pods:
        if kube.controller_state_for("pods").get(pod["metadata"]["uid"]) == "up":
            start(kube, pod)


def stop_processes(kube: ClusterContext, pod: JSON) -> None:
    """The head's Ray container died: its process ends too. What the pod starts anew comes when it is ready
    again."""
    meta = pod["metadata"]
    if kube.heads is not None and is_head(pod):
        _run_in_background(kube.heads.on_pod_deleted(kube.cluster_key, meta["namespace"], meta["name"]))


def clean_up(kube: ClusterContext, pod: JSON) -> None:
    """Ends what runs for a pod and takes its files away."""
    stop_processes(kube, pod)
    mounts.remove_pod_folder(kube, pod)


def pod_deletion_listener(kube: ClusterContext) -> Callable[[StoreEvent], None]:
    """A listener: whichever way a pod goes (its node, by force), what ran for it ends."""

    def heard(change: StoreEvent) -> None:
        if change.kind is kinds.POD and change.type == "DELETED":
            clean_up(kube, change.object)

    return heard


async def stop_all(kube: ClusterContext) -> None:
    """The cluster itself ends: so do its heads."""
    for pod in kube.store.list(kinds.POD):
        stop_processes(kube, pod)
    await wait_for_tasks(kube)


async def wait_for_tasks(kube: ClusterContext) -> None:
    """Waits for starts and ends under way."""
    if _TASKS:
        await asyncio.wait(_TASKS, timeout=5)
