"""Run a command for the server, and end its whole process tree when the server ends.

Usage: python supervisor.py TAG FOLDER COMMAND... The server holds the other end of standard input, which
closes however the server ends, `kill -9` included. FOLDER is deleted at the end if it contains a file named
TAG.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

if __package__:
    from grpo_wizard.steps.emulator.ray.processes import terminate_processes
else:  # run by path
    sys.path.insert(0, str(Path(__file__).parent))
    from processes import terminate_processes  # type: ignore[import-not-found,no-redef]


def main(tag: str, folder: str, command: list[str]) -> int:
    """Return the command's exit code, or 0 if the server ended first."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.set())
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_wait_for_server, args=(stopped,), daemon=True).start()
    threading.Thread(target=_wait_for_child, args=(child, stopped), daemon=True).start()
    stopped.wait()
    code = child.poll()
    terminate_processes(tag, folder, (child.pid, os.getpid()))
    if (Path(folder) / tag).exists():
        shutil.rmtree(folder, ignore_errors=True)
    return code or 0


def _wait_for_server(stopped: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    stopped.set()


def _wait_for_child(child: subprocess.Popen[bytes], stopped: threading.Event) -> None:
    child.wait()
    stopped.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
