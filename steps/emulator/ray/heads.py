"""Real Ray heads on this machine: one for each head pod that receives a connection, two at most at a time."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from grpo_wizard.steps.emulator.context import PodView
from grpo_wizard.steps.emulator.ray.head_process import (
    AGENT_PORT,
    DASHBOARD_PORT,
    LocalRayHead,
    kill_orphans,
    private_folder,
)
from grpo_wizard.steps.emulator.ray.sidecar import SidecarProcess, is_runnable

PodKey = tuple[str, str, str]


class LocalRayHeadManager:
    """Implements context.RayHeadManager.

    `root` is the server's own folder. `speed` shortens the sidecars' waiting times, never the job's.
    """

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
        """Return the loopback address that serves the pod's `port`; start the head if it is not running.

        Raises ConnectionError.
        """
        if not self._enabled:
            raise ConnectionError("The emulator is running without Ray (--ray none).")
        if port not in (DASHBOARD_PORT, AGENT_PORT):
            raise ConnectionError(
                f"Nothing is listening on port {port} of pod {pod.name}: "
                f"the emulator serves only ports {DASHBOARD_PORT} and {AGENT_PORT}."
            )
        head = self._head(pod)
        async with head.lock:
            if not head.alive:
                head.pod = (
                    pod  # a sidecar that started first created the head with its own container's mounts
                )
                await self._start(pod, head)
        return "127.0.0.1", self._head(pod).ports[port]

    async def _start(self, pod: PodView, head: LocalRayHead) -> None:
        async with (
            self._starting
        ):  # one at a time: the limit is checked here, and two cold starts would slow each other down
            running = [other.pod.name for other in self._heads.values() if other.alive]
            count = f"{len(running)} Ray head{'' if len(running) == 1 else 's'}"
            if len(running) >= self._limit:
                raise ConnectionError(
                    f"The emulator is already running {count} ({', '.join(running)}). "
                    "Delete a RayCluster first."
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
        """Run a sidecar's Python script from a mounted volume; ignore other sidecars, whose images are not available here."""
        key = (pod.cluster, pod.namespace, pod.name)
        sidecars = self._sidecars.setdefault(key, {})
        if not is_runnable(argv, pod) or container in sidecars:
            return
        sidecars[container] = SidecarProcess(
            pod, container, argv, env, private_folder(self._folder(key)), self._head(pod).url, self._speed
        )
        sidecars[container].start()

    async def on_pod_deleted(self, cluster: str, namespace: str, name: str) -> None:
        """Stop the pod's head and sidecars and delete its files."""
        key = (cluster, namespace, name)
        sidecars, head = self._sidecars.pop(key, {}), self._heads.pop(key, None)
        await asyncio.gather(*(sidecar.stop() for sidecar in sidecars.values()))
        if head is not None:
            async with head.lock:
                await head.stop()
        await asyncio.to_thread(shutil.rmtree, self._folder(key), True)

    async def close(self) -> None:
        """Stop all heads and sidecars, and wait for it."""
        await asyncio.gather(*(self.on_pod_deleted(*key) for key in {*self._heads, *self._sidecars}))
