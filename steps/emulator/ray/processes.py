"""Find and end the processes of a head, by a tag in their environment or its folder in their command line."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

import psutil

_GRACE_PERIOD_S = 3.0


def find_processes(tag: str, folder: str) -> list[psutil.Process]:
    """Return the running processes with `tag` in their environment or `folder` in their command line, except this one."""
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _belongs_to(process, tag, folder)
    ]


def _belongs_to(process: psutil.Process, tag: str, folder: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        # Other users' processes are not readable, and are not ours.
        return tag in process.environ().values() or any(folder in word for word in process.cmdline())
    except (psutil.Error, OSError):
        return False


def terminate_processes(tag: str, folder: str, roots: Iterable[int] = ()) -> int:
    """End them all, with the children of `roots`, until none is left. Returns how many there were.

    SIGTERM first, then SIGKILL; repeated for processes started meanwhile. Never `ray stop`, which ends every
    Ray on the machine.
    """
    ended: set[int] = set()
    for grace_period in (_GRACE_PERIOD_S, 0.0, 0.0, 0.0, 0.0):
        found = {process.pid: process for process in [*find_processes(tag, folder), *_descendants(roots)]}
        if not found:
            break
        ended |= found.keys()
        for process in found.values():
            with contextlib.suppress(psutil.Error):
                process.terminate() if grace_period else process.kill()
        _wait(list(found.values()), grace_period or 1.0)
    return len(ended)


def _wait(processes: list[psutil.Process], seconds: float) -> None:
    """Wait without psutil.wait_procs, which would reap the exit codes that asyncio waits for."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(_is_running(process) for process in processes):
        time.sleep(0.05)


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _descendants(roots: Iterable[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for root in roots:
        with contextlib.suppress(psutil.Error):
            found += psutil.Process(root).children(recursive=True)
    return found


def is_alive(pid: int, created: float) -> bool:
    """Return whether the process that was started at `created` is still running (its pid may have been reused)."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - created) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
