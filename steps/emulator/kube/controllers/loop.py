"""The control loop: runs every controller on the whole state until nothing changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator

from grpo_wizard.steps.emulator.kube.api.store import StoreEvent
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import (
    autoscaler,
    daemonsets,
    deployments,
    endpoints,
    garbage_collection,
    gke_networks,
    kuberay,
    scheduler,
    volumes,
)
from grpo_wizard.steps.emulator.kube.node import kubelet, nodes, sidecars

_LOG = logging.getLogger(__name__)
_MAX_ROUNDS = 12  # one pass settles chains such as RayCluster -> pod -> node; the rest is left to the next
_MIN_PAUSE_S = 0.02  # changes that arrive in a burst are handled together
_MAX_PAUSE_S = 0.5
_MAX_SLEEP_S = 20.0  # the cloud's capacity can recover without a notification

_SLICE_S = 0.002  # how long an interruptible controller runs before requests are served

CONTROLLERS: tuple[Callable[[ClusterContext], Iterator[None] | None], ...] = (
    garbage_collection.reconcile,
    nodes.reconcile,
    gke_networks.reconcile,
    volumes.reconcile,
    daemonsets.reconcile,
    deployments.reconcile,
    kuberay.reconcile,
    scheduler.reconcile,
    autoscaler.reconcile,
    kubelet.reconcile,
    endpoints.reconcile,
)


class ControllerManager:
    """Runs the controllers when something has changed or a timer has expired.

    `completed_runs` counts its runs.
    """

    def __init__(self, kube: ClusterContext) -> None:
        self.kube = kube
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pause = _MIN_PAUSE_S
        self._stopped = False
        self.completed_runs = 0
        self._pod_listener = sidecars.pod_deletion_listener(kube)

    def start(self) -> None:
        self.kube.request_reconcile = self._wake.set
        self.kube.store.listeners |= {self._on_change, self._pod_listener}
        self._stopped = False
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name=f"controllers of {self.kube.name}")

    async def stop(self) -> None:
        self._stopped = True
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await sidecars.stop_all(self.kube)

    def _on_change(self, change: StoreEvent) -> None:
        self._wake.set()

    async def _run(self) -> None:
        reconciled_at = 0.0
        while not self._stopped:
            # asyncio.timeout and not wait_for: that one can swallow a cancellation (Python 3.11, gh-86296).
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(self.kube.next_timer(reconciled_at) + 0.005, _MAX_SLEEP_S)):
                    await self._wake.wait()
            await asyncio.sleep(self._pause)
            self._wake.clear()
            reconciled_at = (
                self.kube.clock.now()
            )  # a timer that expires during this run belongs to the next one
            began = time.perf_counter()
            await run_until_stable(self.kube)
            self.completed_runs += 1
            await _run_in_slices(
                self.kube.store.encode_pending()
            )  # otherwise the next save would do it in one go
            # A large cluster is reconciled less often, so that requests keep most of the time.
            self._pause = max(_MIN_PAUSE_S, min(time.perf_counter() - began, _MAX_PAUSE_S))


async def _run_in_slices(work: Iterator[None] | None) -> None:
    began = time.perf_counter()
    for _ in work or ():
        if time.perf_counter() - began > _SLICE_S:
            await asyncio.sleep(0)
            began = time.perf_counter()


async def run_until_stable(kube: ClusterContext) -> None:
    """Run all controllers until nothing changes; requests are served between any two."""
    for _ in range(_MAX_ROUNDS):
        before = kube.store.version
        for reconcile in CONTROLLERS:
            try:
                await _run_in_slices(reconcile(kube))
            except Exception:  # one controller's error must not stop the cluster; it is logged
                _LOG.exception("controller %s", reconcile.__module__)
            await asyncio.sleep(0)
        if kube.store.version == before:
            return
