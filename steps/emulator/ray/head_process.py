"""One real Ray head: `ray start --head` on loopback, run by supervisor.py and monitored over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil

from grpo_wizard.steps.emulator.context import PodView
from grpo_wizard.steps.emulator.ray.head_home import container_environment, write_nemo_home, write_shims
from grpo_wizard.steps.emulator.ray.processes import is_alive, terminate_processes

DASHBOARD_PORT, AGENT_PORT = 8265, 52365
_log = logging.getLogger(__name__)
_START_TIMEOUT_S = 120.0
_HEALTH_CHECK_S = 5.0
_MAX_FAILED_CHECKS = 4
_OBJECT_STORE_BYTES = 100_000_000
# For a job's supervisor and actors. It may exceed the machine's CPUs: Ray only counts.
_CPUS = 8
_SUPERVISOR_SCRIPT = Path(__file__).with_name("supervisor.py")


def short_folder() -> Path:
    """An unused path for a Ray head's folder, outside the home because it must be short.

    A Unix socket's path must fit into 104 bytes (macOS), and Ray adds 60.
    """
    base = tempfile.gettempdir()
    return Path(base if len(base) <= 20 else "/tmp", f"gw{secrets.token_hex(4)}")


def reserve_port() -> socket.socket:
    """Reserve a loopback port; connections to it are refused until the head listens on it."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held


def free_port() -> int:
    with reserve_port() as held:
        return int(held.getsockname()[1])


@dataclass
class SupervisedProcess:
    """A command run by supervisor.py, which ends it with all its processes when this end of the pipe closes."""

    tag: str
    folder: Path
    pid_file: Path  # {pid, created, mark, folder}: read by the next server if this one is killed
    process: asyncio.subprocess.Process | None = None

    def create_folder(self) -> None:
        """Create the private folder, named in the pid file first, so that a killed server leaves none behind."""
        self._write_pid_file(None, 0.0)
        self.folder.mkdir(mode=0o700)
        (self.folder / self.tag).touch()

    async def start(self, command: list[str], env: dict[str, str], log: Path) -> None:
        with log.open("ab") as out:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(_SUPERVISOR_SCRIPT),
                self.tag,
                str(self.folder),
                *command,
                env=env,
                cwd=str(self.folder),
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._write_pid_file(self.process.pid, psutil.Process(self.process.pid).create_time())

    def _write_pid_file(self, pid: int | None, created: float) -> None:
        written = {"pid": pid, "created": created, "mark": self.tag, "folder": str(self.folder)}
        self.pid_file.write_text(json.dumps(written), encoding="utf-8")

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def stop(self) -> None:
        """Close the pipe, wait for the supervisor, and end any process that is left."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), 20)
        await asyncio.to_thread(terminate_processes, self.tag, str(self.folder))
        self.pid_file.unlink(missing_ok=True)


def kill_orphans(folder: Path) -> int:
    """End what a killed server left running, according to its pid files. Returns the number of processes."""
    ended = 0
    for note in folder.glob("*.json"):
        with contextlib.suppress(ValueError, KeyError, OSError):
            left = json.loads(note.read_text(encoding="utf-8"))
            if left["pid"] is not None and is_alive(left["pid"], left["created"]):
                _log.warning("ending the processes of %s, left behind by an earlier server", left["pid"])
            ended += terminate_processes(left["mark"], left["folder"])
            if (Path(left["folder"]) / left["mark"]).exists():
                shutil.rmtree(left["folder"], ignore_errors=True)
            elif Path(left["folder"]).exists():
                Path(left["folder"]).rmdir()  # created, but still empty when the server was killed
        note.unlink(missing_ok=True)
    return ended


@dataclass
class LocalRayHead:
    """The Ray head of one pod. Its ports are fixed before it starts, so that a sidecar can poll it."""

    pod: PodView
    home: Path  # <root>/heads/<pod>: NEMO_RL_HOME, shim, logs
    faults: Path
    reserved_sockets: dict[int, socket.socket] = field(
        default_factory=lambda: {DASHBOARD_PORT: reserve_port(), AGENT_PORT: reserve_port()}
    )
    ports: dict[int, int] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    supervised: SupervisedProcess | None = None
    health_task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.ports = {port: int(held.getsockname()[1]) for port, held in self.reserved_sockets.items()}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[DASHBOARD_PORT]}"

    @property
    def alive(self) -> bool:
        return self.supervised is not None and self.supervised.alive

    async def start(self) -> None:
        """Start the head and wait until its dashboard and agent respond. Raises ConnectionError."""
        if self.supervised is not None:  # left by an earlier start
            await self.stop()
            # The agent's port stays in TIME_WAIT for a minute, and Ray's agent then silently runs without HTTP.
            self.ports[AGENT_PORT] = free_port()
        folder, mark = short_folder(), secrets.token_hex(8)
        self.supervised = SupervisedProcess(mark, folder, self.home.with_name(f"{self.home.name}.json"))
        self.supervised.create_folder()
        for held in self.reserved_sockets.values():
            held.close()
        await self.supervised.start(
            self._command(folder / "r"), self._environment(folder, mark), self.home / "ray-start.log"
        )
        try:
            await asyncio.wait_for(self._wait_until_ready(), _START_TIMEOUT_S)
        except (TimeoutError, ConnectionError):
            await self.stop()
            raise ConnectionError(
                f"The Ray head of pod {self.pod.name} did not start. See {self.home / 'ray-start.log'}."
            ) from None
        self.health_task = asyncio.create_task(self._monitor_health(self.supervised))

    def _environment(self, folder: Path, tag: str) -> dict[str, str]:
        private = self.home / "home"
        private.mkdir(parents=True, exist_ok=True)
        write_shims(self.home)
        ray = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder / "r")}
        if self.pod.token is not None:
            key = folder / "auth_token"
            key.touch(0o600)
            key.write_text(self.pod.token, encoding="utf-8")
            ray |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(key)}
        own = container_environment(self.pod, self.home, tag)
        own.pop("RAY_AUTH_TOKEN", None)  # NeMo RL would copy it into runtime_env; a file stays out of it
        own.pop("RAY_ADDRESS", None)
        return {
            **own,
            **ray,
            "HOME": str(private),
            "NEMO_RL_HOME": str(write_nemo_home(self.home)),
            "TOY_FAULTS": str(self.faults),
        }

    def _command(self, folder: Path) -> list[str]:
        options = {
            "node-ip-address": "127.0.0.1",
            "port": 0,
            "dashboard-host": "127.0.0.1",
            "dashboard-port": self.ports[DASHBOARD_PORT],
            "dashboard-agent-listen-port": self.ports[AGENT_PORT],
            "include-dashboard": "true",
            "metrics-export-port": free_port(),
            "ray-client-server-port": free_port(),
            "min-worker-port": 0,
            "max-worker-port": 0,
            "num-cpus": _CPUS,
            "num-gpus": 0,
            "object-store-memory": _OBJECT_STORE_BYTES,
            "temp-dir": folder,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        return [
            sys.executable,
            "-c",
            "from ray.scripts.scripts import main; main()",
            "start",
            "--head",
            "--block",
            "--disable-usage-stats",
            *words,
        ]

    async def _wait_until_ready(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                if not self.alive:
                    raise ConnectionError("`ray start` exited")
                if await self._is_healthy(session):
                    return
                await asyncio.sleep(0.2)

    async def _is_healthy(self, session: aiohttp.ClientSession) -> bool:
        headers = {"Authorization": f"Bearer {self.pod.token}"} if self.pod.token else {}
        agent = f"http://127.0.0.1:{self.ports[AGENT_PORT]}/api/local_raylet_healthz"
        try:
            for url in (f"{self.url}/api/version", agent):
                async with session.get(url, headers=headers, timeout=aiohttp.ClientTimeout(5)) as answer:
                    if answer.status != 200:
                        return False
        except (aiohttp.ClientError, TimeoutError):
            return False
        return True

    async def _monitor_health(self, supervised: SupervisedProcess) -> None:
        """Stop the head once it no longer responds, so that the next connection starts another.

        `ray start --block` can outlive the head's processes.
        """
        missed = 0
        async with aiohttp.ClientSession() as session:
            while missed < _MAX_FAILED_CHECKS and supervised.alive:
                await asyncio.sleep(_HEALTH_CHECK_S)
                missed = 0 if await self._is_healthy(session) else missed + 1
        _log.warning("the Ray head of pod %s is no longer responding", self.pod.name)
        await supervised.stop()

    async def stop(self) -> None:
        """Stop the head with everything it started, and delete its folder."""
        if self.health_task is not None:
            self.health_task.cancel()
        supervised, self.supervised = self.supervised, None
        if supervised is not None:
            await supervised.stop()
            await asyncio.to_thread(shutil.rmtree, supervised.folder, True)
        for held in self.reserved_sockets.values():
            held.close()


def private_folder(folder: Path) -> Path:
    """Create the folder if needed, readable by its owner only, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o700)  # noqa: PTH101
    return folder
