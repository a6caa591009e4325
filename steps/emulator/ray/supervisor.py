"""A guard between the server and what it starts: runs a command, and ends its whole process tree when the
server goes.

Usage: python supervisor.py MARK FOLDER COMMAND... The server holds the other end of standard input: it
closes when the server
ends in whatever way, `kill -9` too, and then nothing must be left. FOLDER is removed at the end when MARK's
file is in it.
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
else:  # started by its path
    sys.path.insert(0, str(Path(__file__).parent))
    from processes import terminate_processes  # type: ignore[import-not-found,no-redef]


def main(tag: str, folder: str, command: list[str]) -> int:
    """The command's exit code, or 0 when the server went first."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: over.set())
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_wait_for_server, args=(over,), daemon=True).start()
    threading.Thread(target=_wait_for_child, args=(child, over), daemon=True).start()
    over.wait()
    code = child.poll()
    terminate_processes(tag, folder, (child.pid, os.getpid()))
    if (Path(folder) / tag).exists():
        shutil.rmtree(folder, ignore_errors=True)
    return code or 0


def _wait_for_server(over: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    over.set()


def _wait_for_child(child: subprocess.Popen[bytes], over: threading.Event) -> None:
    child.wait()
    over.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
