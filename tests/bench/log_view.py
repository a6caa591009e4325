"""How fast LogView takes lines, and how late the screen answers meanwhile, on a pseudo-terminal of 80×24.

    python tests/bench/log_view.py [--lines 1000000] [--rate 5000]

A writer (a process of its own) appends 118-character lines. `lag` is how much later than asked a 20 ms
heartbeat of the app runs: what a key would wait. First as fast as the disc takes it, then at a steady rate.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from grpo_wizard.tui.style.theme import ThemedApp
from grpo_wizard.tui.widgets.log_view import LogView

_WRITER = r"""
import sys, time
path, total, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
batch = rate // 20 or 5000
with open(path, "ab", buffering=0) as out:
    for first in range(0, total, batch):
        began = time.perf_counter()
        out.write(b"".join(
            b"(VllmGenerationWorker pid=8926, ip=10.0.1.7) INFO 02-27 18:34:02 [block_pool.py:390] "
            b"step %08d ok: [/] xxxxxxxx\n" % n for n in range(first, min(total, first + batch))))
        if rate:
            time.sleep(max(0, 0.05 - time.perf_counter() + began))
"""


class _Bench(ThemedApp[dict[str, float]]):
    def __init__(self, path: Path, lines: int) -> None:
        super().__init__()
        self._path, self._lines, self._lags = path, lines, list[float]()
        self._began = self._beat_due = 0.0

    def compose(self):  # type: ignore[no-untyped-def]
        yield LogView(self._path)

    def on_mount(self) -> None:
        self._began = time.perf_counter()
        self._beat_due = self._began + 0.02
        self.set_timer(0.02, self._beat)

    def _beat(self) -> None:
        now = time.perf_counter()
        self._lags.append(now - self._beat_due)
        if self.query_one(LogView).rows >= self._lines:
            lags = sorted(self._lags)
            self.exit(
                {
                    "lines_per_s": round(self._lines / (now - self._began)),
                    "lag_p50_ms": round(1000 * lags[len(lags) // 2], 1),
                    "lag_p99_ms": round(1000 * lags[int(len(lags) * 0.99)], 1),
                    "lag_max_ms": round(1000 * lags[-1], 1),
                    "rss_grown_mib": 0.0,
                }
            )
            return
        self._beat_due = now + 0.02
        self.set_timer(0.02, self._beat)


def _on_a_terminal() -> None:
    """Puts this process on a pseudo-terminal of 80×24 whose output a thread throws away."""
    parent, child = pty.openpty()
    os.environ.update(COLUMNS="80", LINES="24", TERM="xterm-256color")
    for fd in (0, 2):
        os.dup2(child, fd)
    sys.__stderr__ = sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    sys.__stdin__ = sys.stdin = open(0, closefd=False)  # noqa: SIM115

    def drain() -> None:
        while os.read(parent, 1 << 16):
            pass

    threading.Thread(target=drain, daemon=True).start()


def _measure(lines: int, rate: int) -> dict[str, float] | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spool.log"
        path.touch()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(path), str(lines), str(rate)]) as writer:
            result = _Bench(path, lines).run()
            writer.wait()
        if result:
            now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            result["rss_grown_mib"] = round((now - before) / 1024, 1)
        return result


def main() -> None:
    """Prints one JSON line for each of the two ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=5000, help="lines a second, for 10 s")
    asked = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")
    _on_a_terminal()
    for way, lines, rate in (("flood", asked.lines, 0), ("steady", asked.rate * 10, asked.rate)):
        row = {"way": way, "lines": lines, "rate": rate, **(_measure(lines, rate) or {})}
        print(json.dumps(row), file=out, flush=True)


if __name__ == "__main__":
    main()
