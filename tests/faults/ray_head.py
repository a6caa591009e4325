"""A real Ray head on loopback for tests: with its own folder and ports, ended with its process tree."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil
from scratch_folder import create_scratch_folder


def free_port() -> int:
    """Return a TCP port of loopback that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class RayHead:
    """A head that the constructor starts; `stop` leaves no process behind.

    `token` enables Ray's token authentication.
    """

    def __init__(self, token: str | None = None) -> None:
        # Ray's socket paths must stay below 107 characters, so not below pytest's own folder.
        self.folder = create_scratch_folder()
        self.dashboard, self.agent, self.token = free_port(), free_port(), token
        self.process = self._start()

    @property
    def url(self) -> str:
        """Return the dashboard's address."""
        return f"http://127.0.0.1:{self.dashboard}"

    @property
    def agent_url(self) -> str:
        """Return the address of the head's agent, which serves the log folder."""
        return f"http://127.0.0.1:{self.agent}"

    def log_file(self, job_id: str) -> Path:
        """Return the head's own file of a job's output."""
        return next(self.folder.glob(f"session_2*/logs/job-driver-{job_id}.log"))

    def _start(self) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_AUTH_MODE": "disabled",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1",
        }
        if self.token:
            token_file = self.folder / "token"
            token_file.write_text(self.token)
            env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_file)}
        argv = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            "--head",
            "--block",
            "--disable-usage-stats",
            "--node-ip-address=127.0.0.1",
            f"--port={free_port()}",
            "--num-cpus=2",
            "--num-gpus=0",
            "--object-store-memory=80000000",
            f"--temp-dir={self.folder}",
            "--include-log-monitor=false",
            f"--dashboard-port={self.dashboard}",
            f"--dashboard-agent-listen-port={self.agent}",
            f"--ray-client-server-port={free_port()}",
        ]
        with (self.folder / "head.out").open("wb") as out:
            return subprocess.Popen(argv, env=env, stdout=out, stderr=out, start_new_session=True)

    def wait_ready(self, seconds: float = 90) -> None:
        """Wait until the dashboard and the agent respond."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self._get(f"{self.url}/api/version")["version"] and self._agent_answers():
                    return
            except (OSError, ValueError, KeyError):
                time.sleep(0.2)
        raise AssertionError(f"Ray did not start: {(self.folder / 'head.out').read_text()[-2000:]}")

    def _agent_answers(self) -> bool:
        with urllib.request.urlopen(self._request(f"{self.agent_url}/logs/"), timeout=5) as answer:
            return bool(answer.status == 200)

    def _request(self, url: str) -> urllib.request.Request:
        return urllib.request.Request(
            url, headers={"Authorization": f"Bearer {self.token}"} if self.token else {}
        )

    def _get(self, url: str) -> Any:
        with urllib.request.urlopen(self._request(url), timeout=5) as answer:
            return json.load(answer)

    def restart(self) -> None:
        """Replace the head like a re-created head pod: same addresses, no state."""
        self._end()
        self.process = self._start()
        self.wait_ready()

    def stop(self) -> None:
        """End the head and delete its folder."""
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self) -> None:
        """End the process tree, and processes that left it but are in its session."""
        session = self.process.pid
        tree = [process for process in psutil.process_iter() if _in_session(process, session)]
        for process in tree:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(tree, timeout=10)
        self.process.wait(10)


def _in_session(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session
    except (ProcessLookupError, PermissionError):
        return False
