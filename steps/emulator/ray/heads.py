"""Real Ray heads on this machine, one for each head pod that is connected to, at most two at a time."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from grpo_wizard.steps.emulator.ray.head_process import (
    AGENT_PORT,
    DASHBOARD_PORT,
    LocalRayHead,
    kill_orphans,
    private_folder,
)
from grpo_wizard.steps.emulator.ray.sidecar import SidecarProcess, is_runnable
from grpo_wizard.steps.emulator.server.context import PodView

PodKey = tuple[str, str, str]


class LocalRayHeadManager:
    """contract.Heads. `root` is the rehearsal's own folder; `speed` divides the sidecars' minutes, never
    the job's."""

    def __init__(self, root: Path, enabled: bool = True, limit: int = 2, speed: float = 1.0) -> None:
        self._root, self._enabled, self._limit, self._speed = (
            private_folder(root / "heads"),
            enabled,
            limit,
            speed,
        )
        self._faults = root / "job-faults.json"
        self._heads: dict[PodKey, LocalRayHead] = {}
        self._sidecars: dict[PodKey, dict[str, SidecarProcess]] = {}
        self._starting = asyncio.Lock()
        kill_orphans(self._root)

    async def connect(self, pod: PodView, port: int) -> tuple[str, int]:
        """Loopback address that serves the pod's `port`; starts the head when it does not run. Raises
        ConnectionError."""
        if not self._enabled:
            raise ConnectionError("This rehearsal runs no Ray (--ray none).")
        if port not in (DASHBOARD_PORT, AGENT_PORT):
            raise ConnectionError(
                f"Nothing listens on port {port} of pod {pod.name}: "
                f"a rehearsal serves {DASHBOARD_PORT} and {AGENT_PORT}."
            )
        head = self._head(pod)
        async with head.lock:
            if not head.alive:
                head.pod = pod  # a sidecar that came first saw its own container's mounts
                await self._start(pod, head)
        return "127.0.0.1", self._head(pod).ports[port]

    async def _start(self, pod: PodView, head: LocalRayHead) -> None:
        async with (
            self._starting
        ):  # one after the other: the limit is counted, and two cold starts would only slow each other
            running = [other.pod.name for other in self._heads.values() if other.alive]
            if len(running) >= self._limit:
                raise ConnectionError(
                    f"{len(running)} Ray heads already run in this rehearsal ({', '.join(running)}): "
                    "delete a RayCluster first."
                )
            await head.start()

    def _head(self, pod: PodView) -> LocalRayHead:
        key = (pod.cluster, pod.namespace, pod.name)
        if key not in self._heads:
            self._heads[key] = LocalRayHead(pod, private_folder(self._folder(key)), self._faults)
        return self._heads[key]

    def _folder(self, key: PodKey) -> Path:
        return self._root / ".".join(part.replace("/", "_") for part in key)

    async def start_sidecar(self, pod: PodView, container: str, argv: list[str], env: dict[str, str]) -> None:
        """Runs a sidecar's Python script from a mount; what is not that, is an image that is not here, and
        is left alone."""
        key = (pod.cluster, pod.namespace, pod.name)
        mine = self._sidecars.setdefault(key, {})
        if not is_runnable(argv, pod) or container in mine:
            return
        mine[container] = SidecarProcess(
            pod, container, argv, env, private_folder(self._folder(key)), self._head(pod).url, self._speed
        )
        mine[container].start()

    async def on_pod_deleted(self, cluster: str, namespace: str, name: str) -> None:
        """Ends the pod's head and sidecars; the pod's own disk goes with it."""
        key = (cluster, namespace, name)
        sidecars, head = self._sidecars.pop(key, {}), self._heads.pop(key, None)
        await asyncio.gather(*(sidecar.stop() for sidecar in sidecars.values()))
        if head is not None:
            async with head.lock:
                await head.stop()
        await asyncio.to_thread(shutil.rmtree, self._folder(key), True)

    async def close(self) -> None:
        """Ends everything. Nothing of it is left when this returns."""
        await asyncio.gather(*(self.on_pod_deleted(*key) for key in {*self._heads, *self._sidecars}))
