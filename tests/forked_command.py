"""The command without its start: one process imports the SDKs once, and each command is a fork of it with streams, arguments and
environment of its own.

Importing takes most of a command's time; what the command does, and how it dies, is the same.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_PRELOADED_MODULES = [
    "google.cloud.compute_v1",
    "google.cloud.container_v1",
    "google.cloud.lustre_v1",
    "google.cloud.resourcemanager_v3",
    "google.cloud.service_usage_v1",
    "google.cloud.billing_v1",
    "google.cloud.cloudquotas_v1",
    "googleapiclient.discovery",
    "kubernetes.client",
    "aiohttp",
    "grpo_wizard.tui.commands.apply",
    "grpo_wizard.tui.commands.check",
    "grpo_wizard.tui.commands.init",
    "grpo_wizard.tui.commands.plan",
    "grpo_wizard.tui.commands.status",
]
_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload(_PRELOADED_MODULES)


class ForkedCommand:
    """One running command with the parts of Popen's interface that tests need.

    Its pipe and its stderr are below `folder`.
    """

    def __init__(self, words: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(prefix="command-", dir=folder)
        pipe, self._err = Path(self._folder.name) / "out", Path(self._folder.name) / "err"
        os.mkfifo(pipe)
        self._process = _forkserver.Process(
            target=_run, args=(list(words), environment, str(pipe), str(self._err))
        )
        self._process.start()
        self.stdout: IO[str] = pipe.open(encoding="utf-8")

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float) -> int:
        """Return the exit code; on a timeout, kill the process and raise TimeoutError."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            raise TimeoutError(f"process {self.pid} has not ended after {timeout:g} s")
        return code

    def stderr(self) -> str:
        return self._err.read_text(encoding="utf-8")


def _run(words: list[str], environment: dict[str, str], out: str, err: str) -> None:
    for path, descriptor in ((os.devnull, 0), (out, 1), (err, 2)):
        mode = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(path, mode, 0o600), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["grpo-wizard", *words]
    from grpo_wizard.tui.cli import main

    code = main(words)
    sys.stdout.flush()
    sys.exit(code)
