"""exec to first frame, on a pty: the wizard against a bare Textual app, in turn, in the same run.

python tests/bench/first_paint.py [--rounds 7] [--json]. Ends with 1 when the ratio of medians is above 1.4.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import statistics
import struct
import sys
import tempfile
import termios
import time

LIMIT = 1.4
_BARE = """
from textual.app import App
from textual.widgets import Footer, OptionList, Static
class Bare(App):
    def compose(self):
        yield Static("FIRST FRAME")
        yield OptionList()
        yield Footer()
Bare().run()
"""


def first_frame(command: list[str], env: dict[str, str], mark: bytes) -> float:
    """Seconds from exec until `mark` has come out of the terminal; the process is ended then."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    began, seen = time.perf_counter(), b""
    try:
        while mark not in seen:
            if time.perf_counter() - began > 60:
                raise AssertionError(f"no frame within 60 s: {seen[-400:]!r}")
            if select.select([terminal], [], [], 0.05)[0]:
                seen += os.read(terminal, 65536)
        return time.perf_counter() - began
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def measure(rounds: int) -> dict[str, float]:
    """Medians in seconds, and their ratio. The two take turns, so that a busy machine is busy for both."""
    with tempfile.TemporaryDirectory() as home:
        env = {
            **os.environ,
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "GRPO_WIZARD_HOME": home,
            "PYTHONDONTWRITEBYTECODE": "",
        }
        bare: list[float] = []
        ours: list[float] = []
        for number in range(rounds + 1):
            b = first_frame([sys.executable, "-c", _BARE], env, b"FIRST FRAME")
            w = first_frame(
                [sys.executable, "-m", "grpo_wizard"], env, b"Go from an empty Google Cloud project"
            )
            if number:  # the first round fills the caches
                bare.append(b)
                ours.append(w)
    return {
        "bare_s": statistics.median(bare),
        "wizard_s": statistics.median(ours),
        "best_bare_s": min(bare),
        "best_wizard_s": min(ours),
        "ratio": statistics.median(ours) / statistics.median(bare),
        "best_ratio": min(ours) / min(bare),
    }


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = measure(asked.rounds)
    if asked.json:
        print(json.dumps(found))
    else:
        print(
            f"bare Textual {found['bare_s']:.2f} s, wizard {found['wizard_s']:.2f} s: {found['ratio']:.2f} times (limit {LIMIT}); "
            f"best of {asked.rounds}: {found['best_bare_s']:.2f} and {found['best_wizard_s']:.2f}, {found['best_ratio']:.2f} times"
        )
    return 0 if found["ratio"] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
