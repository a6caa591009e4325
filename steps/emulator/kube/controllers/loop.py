"""The loop that lets things happen: every controller looks at the whole state, changes what it must, until
nothing moves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator

from grpo_wizard.steps.emulator.kube.api.store import StoreEvent
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
from grpo_wizard.steps.emulator.kube.core import ClusterContext
from grpo_wizard.steps.emulator.kube.node import kubelet, nodes, sidecars

_LOG = logging.getLogger(__name__)
_MAX_ROUNDS = 12  # one pass settles chains such as RayCluster -> pod -> node; the rest waits for the next
_MIN_PAUSE_S = 0.02  # changes that come in a burst are looked at together
_MAX_PAUSE_S = 0.5
_MAX_SLEEP_S = 20.0  # the longest sleep; capacity of the cloud below can come back without a word

_SLICE_S = 0.002  # how long a controller that can be interrupted works before requests get their turn

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
    """Runs the controllers when something changed or a timer ran out."""

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
        looked = 0.0
        while not self._stopped:
            # asyncio.timeout and not wait_for: that one can swallow a cancellation (Python 3.11, gh-86296).
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(self.kube.next_timer(looked) + 0.005, _MAX_SLEEP_S)):
                    await self._wake.wait()
            await asyncio.sleep(self._pause)
            self._wake.clear()
            looked = self.kube.clock.now()  # a timer that runs out while they look is not theirs yet
            began = time.perf_counter()
            await run_until_stable(self.kube)
            self.completed_runs += 1
            await _run_in_slices(self.kube.store.encode_pending())  # else the next save would do it at one go
            # A crowded cluster is looked at less often, so that requests keep most of the time.
            self._pause = max(_MIN_PAUSE_S, min(time.perf_counter() - began, _MAX_PAUSE_S))


async def _run_in_slices(work: Iterator[None] | None) -> None:
    began = time.perf_counter()
    for _ in work or ():
        if time.perf_counter() - began > _SLICE_S:
            await asyncio.sleep(0)
            began = time.perf_counter()


async def run_until_stable(kube: ClusterContext) -> None:
    """Runs all controllers until nothing changes any more; requests get their turn between any two."""
    for _ in range(_MAX_ROUNDS):
        before = kube.store.version
        for reconcile in CONTROLLERS:
            try:
                await _run_in_slices(reconcile(kube))
            except Exception:  # one controller's mistake must not stop the cluster; it is in the log
                _LOG.exception("controller %s", reconcile.__module__)
            await asyncio.sleep(0)
        if kube.store.version == before:
            return
