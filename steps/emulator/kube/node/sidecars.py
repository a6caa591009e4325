"""Local processes for a head pod's containers: started when the pod is running, ended with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.store import StoreEvent
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.node import environment, mounts

_LOG = logging.getLogger(__name__)
_IGNORED_SIDECARS = ("fluent-bit",)  # ships logs to a service that is not emulated
_TASKS: set[asyncio.Task[None]] = set()


def is_head(pod: JSON) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head")


def _run_in_background(work: Coroutine[Any, Any, None]) -> None:
    async def guarded() -> None:
        try:
            await work
        except Exception:  # a sidecar that cannot start is logged; the pod keeps running
            _LOG.exception("process of a pod")

    task = asyncio.get_running_loop().create_task(guarded())
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


def start(kube: ClusterContext, pod: JSON) -> None:
    """Run the commands of a head's sidecars."""
    if kube.heads is None or not is_head(pod):
        return
    for container in pod["spec"]["containers"][1:]:
        argv = [*container.get("command", ()), *container.get("args", ())]
        if container.get("command") and container["name"] not in _IGNORED_SIDECARS:
            view = environment.pod_view(kube, pod, container)
            _run_in_background(kube.heads.start_sidecar(view, container["name"], argv, view.env))


def resume(kube: ClusterContext, pods: list[JSON]) -> None:
    """Restart the sidecars of running heads after a restart of the server."""
    for pod in pods:
        if kube.controller_state_for("pods").get(pod["metadata"]["uid"]) == "up":
            start(kube, pod)


def stop_processes(kube: ClusterContext, pod: JSON) -> None:
    """End the process of a head whose Ray container died.

    The restarted container starts another one once it is ready.
    """
    meta = pod["metadata"]
    if kube.heads is not None and is_head(pod):
        _run_in_background(kube.heads.on_pod_deleted(kube.cluster_key, meta["namespace"], meta["name"]))


def clean_up(kube: ClusterContext, pod: JSON) -> None:
    """End a pod's processes and delete its files."""
    stop_processes(kube, pod)
    mounts.remove_pod_folder(kube, pod)


def pod_deletion_listener(kube: ClusterContext) -> Callable[[StoreEvent], None]:
    """Return a listener that cleans up when a pod is deleted, by whatever cause."""

    def heard(change: StoreEvent) -> None:
        if change.kind is kinds.POD and change.type == "DELETED":
            clean_up(kube, change.object)

    return heard


async def stop_all(kube: ClusterContext) -> None:
    """Stop all heads with the cluster."""
    for pod in kube.store.list(kinds.POD):
        stop_processes(kube, pod)
    await wait_for_tasks(kube)


async def wait_for_tasks(kube: ClusterContext) -> None:
    """Wait for starts and stops in progress."""
    if _TASKS:
        await asyncio.wait(_TASKS, timeout=5)
