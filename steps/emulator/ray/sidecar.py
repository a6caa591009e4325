"""A sidecar's command, run next to the head as the kubelet would: restarted when it exits, ended with its pod."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from grpo_wizard.steps.emulator.context import PodView
from grpo_wizard.steps.emulator.ray.head_home import container_environment, map_path, write_shims
from grpo_wizard.steps.emulator.ray.head_process import SupervisedProcess, private_folder

_INTERPRETERS = ("python", "python3")
# The sidecar's waiting times are divided by the speed, but by no more than this: a job would otherwise be ended
# before it has started.
_MAX_TIME_DIVISOR = 120.0


def is_runnable(argv: list[str], pod: PodView) -> bool:
    """Return whether the command can run on this machine: Python with a script from a mounted volume.

    The images of other sidecars are not available here.
    """
    return len(argv) >= 2 and argv[0] in _INTERPRETERS and map_path(argv[1], pod.mounts) != argv[1]


class SidecarProcess:
    """The process of one container of one pod."""

    def __init__(
        self,
        pod: PodView,
        container: str,
        argv: list[str],
        env: dict[str, str],
        home: Path,
        ray_url: str,
        speed: float,
    ) -> None:
        self._pod, self._argv = pod, [map_path(word, pod.mounts) for word in argv]
        self._home = private_folder(home / container)
        self._name, self._env, self._ray_url, self._speed = container, env, ray_url, speed
        self._supervised: SupervisedProcess | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run_and_restart())

    async def _run_and_restart(self) -> None:
        wait = 1.0
        while True:
            mark = secrets.token_hex(8)
            self._supervised = SupervisedProcess(
                mark, self._home, self._home.with_name(f"{self._home.parent.name}.{self._name}.json")
            )
            await self._supervised.start(self._argv, self._environment(mark), self._home / "log")
            assert self._supervised.process is not None
            await self._supervised.process.wait()
            await asyncio.sleep(wait)
            wait = min(60.0, wait * 2)

    def _environment(self, tag: str) -> dict[str, str]:
        write_shims(self._home)
        kube = urlsplit(self._pod.kube_url)
        account = private_folder(self._home / "serviceaccount")
        for name, text in (
            ("token", self._pod.service_account_token),
            ("namespace", self._pod.namespace),
            ("ca.crt", self._pod.kube_ca.read_text(encoding="utf-8")),
        ):
            (account / name).touch(0o600)
            (account / name).write_text(text, encoding="utf-8")
        ray = {"RAY_URL": self._ray_url}
        if self._pod.token is not None:
            (self._home / "auth_token").touch(0o600)
            (self._home / "auth_token").write_text(self._pod.token, encoding="utf-8")
            ray["RAY_AUTH_TOKEN_PATH"] = str(self._home / "auth_token")
        own = {name: map_path(value, self._pod.mounts) for name, value in self._env.items()}
        return {
            **container_environment(self._pod, self._home, tag),
            **own,
            **ray,
            "HOME": str(self._home),
            "PYTHONUNBUFFERED": "1",
            "KUBERNETES_SERVICE_HOST": kube.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(kube.port or 443),
            "SERVICE_ACCOUNT_DIR": str(account),
            "TIME_DIVISOR": f"{min(self._speed, _MAX_TIME_DIVISOR):g}",
        }

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._supervised is not None:
            await self._supervised.stop()
