"""Progress bars in tqdm's format on stderr: carriage return, bar, and a line end after the last one."""

from __future__ import annotations

import sys
import time

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_WIDTH = 10


def clock(seconds: float) -> str:
    """Return mm:ss, or h:mm:ss from an hour on."""
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def bar(description: str, done: int, total: int, seconds: float, unit: str = "it", postfix: str = "") -> str:
    """Return `Processed prompts:  47%|████▋     | 477/1024 [00:18<00:08, 68.29it/s, est. speed …]`."""
    share = done / max(total, 1)
    eighths = int(share * _WIDTH * 8)
    cells = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths < _WIDTH * 8 else "")
    rate = done / max(seconds, 1e-6)
    if not rate:
        speed, left = f"?{unit}/s", "?"
    else:
        speed = f"{1 / rate:5.2f}s/{unit}" if rate < 1 else f"{rate:5.2f}{unit}/s"
        left = clock((total - done) / rate)
    tail = f", {postfix}" if postfix else ""
    head = f"{description}: {share:4.0%}|{cells:<{_WIDTH}}| {done}/{total}"
    return f"{head} [{clock(seconds)}<{left}, {speed}{tail}]"


class Bar:
    """One bar on stderr. `show` redraws it; the last call ends its line."""

    def __init__(self, description: str, total: int, unit: str = "it") -> None:
        self._description, self._total, self._unit = description, total, unit
        self._began = time.monotonic()

    def show(self, done: int, postfix: str = "") -> None:
        text = bar(self._description, done, self._total, time.monotonic() - self._began, self._unit, postfix)
        sys.stderr.write(f"\r{text}" + ("\n" if done >= self._total else ""))
        sys.stderr.flush()
