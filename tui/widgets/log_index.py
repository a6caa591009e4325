"""A growing log file, read by line number: 8 bytes of memory per line, the text stays on disk.

One thread calls `scan` and `find`; any thread may call `line` meanwhile (`os.pread` uses no shared file position).
Lines are counted from 0. A last line without a newline counts, and may still grow.
"""

from __future__ import annotations

import mmap
import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

_CHUNK = 1 << 20
# One search call holds the GIL: a window of 4 MiB takes about 4 ms (measured), so that keys stay responsive.
_WINDOW = 4 << 20
# A line is read whole up to this length; of a longer one only its ends are read.
_LONG = 1 << 16
_END = 1 << 13

ACTOR = re.compile(rb"\((\w[\w.:-]*) pid=\d+")
ERROR = re.compile(
    rb"Traceback \(most recent call last\)|\b[A-Z]\w*(?:Error|Exception)\b|\bERROR\b|\bFATAL\b"
    rb"|CUDA out of memory|Watchdog caught collective"
)


class LogIndex:
    """The file at `path`, which need not exist yet. Raises OSError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.actors: set[str] = set()
        self.generation = 0
        """Incremented each time the file was truncated or replaced, and reading started over."""
        self._starts = array("Q", [0])
        self._fd = -1
        self._inode = 0

    def __len__(self) -> int:
        return len(self._starts) - (self._starts[-1] >= self.size)

    @property
    def complete_lines(self) -> int:
        """Number of lines with a newline, which cannot change any more."""
        return len(self._starts) - 1

    def close(self) -> None:
        """Close the file; `scan` opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def scan(self) -> bool:
        """Read at most 1 MiB of new data. Returns True if there was any, so call again."""
        if not self._ensure_open():
            return False
        data = os.pread(self._fd, _CHUNK, self.size)
        if not data:
            return False
        base, newline = self.size + 1, data.find(b"\n")
        starts = array("Q")
        while newline >= 0:
            starts.append(base + newline)
            newline = data.find(b"\n", newline + 1)
        self.actors.update(name.decode("ascii", "replace") for name in set(ACTOR.findall(data)))
        # Both change within a few bytecodes; a reader in between sees one extra, empty line.
        self._starts.extend(starts)
        self.size += len(data)
        return True

    def _ensure_open(self) -> bool:
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return self._fd >= 0
        if self._fd >= 0 and (stat.st_ino != self._inode or stat.st_size < self.size):
            self.close()
            self._starts, self.size, self.generation = array("Q", [0]), 0, self.generation + 1
        if self._fd < 0:
            self._fd, self._inode = os.open(self.path, os.O_RDONLY), stat.st_ino
        return True

    def span(self, number: int) -> tuple[int, int]:
        """(offset, length without the newline) of a line, in bytes. Raises IndexError beyond the end."""
        start = self._starts[number]
        if number + 1 < len(self._starts):
            return start, self._starts[number + 1] - start - 1
        return start, max(0, self.size - start)

    def line(self, number: int) -> tuple[bytes, int]:
        """(bytes of the line, number of bytes omitted).

        Of a very long line, its beginning; or its end if that contains a carriage return, as a progress bar does.
        """
        start, length = self.span(number)
        if length <= _LONG:
            return os.pread(self._fd, length, start), 0
        end = os.pread(self._fd, _END, start + length - _END)
        if b"\r" in end:
            return end, 0
        return os.pread(self._fd, _END, start), length - _END

    def number_at(self, offset: int) -> int:
        """The number of the line that contains the byte at `offset`."""
        return max(0, bisect_right(self._starts, offset) - 1)

    def find(self, pattern: re.Pattern[bytes] | bytes, after: int, *, backwards: bool = False) -> int | None:
        """The nearest line after (or before) line `after` that contains `pattern`; wraps around at the ends.

        None if there is none. `after` = -1 starts at the first line. A bytes pattern is searched with `mmap.find`.
        """
        if not len(self) or self._fd < 0:
            return None
        with mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ) as view:
            for low, high in self._windows(after, backwards):
                offset = _find_in_range(view, pattern, low, high, backwards)
                if offset >= 0:
                    return self.number_at(offset)
        return None

    def _windows(self, after: int, backwards: bool) -> Iterator[tuple[int, int]]:
        """Byte ranges in search order; they start and end at line boundaries, so that no match is split."""
        start = self.span(max(0, after))[0]
        middle = start if backwards or after < 0 else start + self.span(after)[1] + 1
        halves = [(middle, self.size), (0, middle)]
        for low, high in reversed(halves) if backwards else halves:
            yield from self._split_at_lines(low, high, backwards)

    def _split_at_lines(self, low: int, high: int, backwards: bool) -> Iterator[tuple[int, int]]:
        edges = [low]
        while edges[-1] < high:
            number = self.number_at(edges[-1] + _WINDOW)
            number += self._starts[number] <= edges[-1]
            edges.append(min(high, self._starts[number] if number < len(self._starts) else high))
        ranges = list(pairwise(edges))
        yield from reversed(ranges) if backwards else ranges

    def lines_matching(self, needle: bytes, since: int) -> array[int]:
        """Numbers of the lines from `since` on that contain `needle`."""
        hits: array[int] = array("Q")
        if self._fd < 0 or since >= len(self) or not self.size:
            return hits
        with mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ) as view:
            for low, high in self._split_at_lines(self._starts[since], self.size, backwards=False):
                offset = view.find(needle, low, high)
                while offset >= 0:
                    hits.append(self.number_at(offset))
                    offset = view.find(needle, sum(self.span(hits[-1])), high)
        return hits


def _find_in_range(
    view: mmap.mmap, pattern: re.Pattern[bytes] | bytes, low: int, high: int, backwards: bool
) -> int:
    if isinstance(pattern, bytes):
        return view.rfind(pattern, low, high) if backwards else view.find(pattern, low, high)
    if not backwards:
        match = pattern.search(view, low, high)
        return match.start() if match else -1
    last = -1
    for match in pattern.finditer(view, low, high):
        last = match.start()
    return last
