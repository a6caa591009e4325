"""Garbage collection in a process that holds a large world.

A full collection looks at every object: with 2,000 pods nobody is answered for a tenth of a second. The world's own objects form no
cycles, so whatever has outlived one full collection is left out of the next. Connections do form cycles: all is looked at again once nobody
asks, or after a long time in which somebody always did.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

_IDLE_S = 1.0  # without a request: a pause of a tenth of a second is felt by nobody
_MAX_INTERVAL_S = 600.0  # without a quiet moment


class GcTuning:
    """Python's own collector goes on; this decides what its full collections look at."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.partial_collections = 0  # full collections since all was looked at
        self._clock, self._last_full_at = clock, clock()

    def start(self) -> None:
        """Called when everything is loaded."""
        gc.callbacks.append(self._on_gc)
        self.collect_all()

    def stop(self) -> None:
        gc.callbacks.remove(self._on_gc)
        gc.unfreeze()

    def collect_if_idle(self, idle: float) -> None:
        """Called now and then, with the seconds since the last request."""
        if self.partial_collections and (
            idle > _IDLE_S or self._clock() - self._last_full_at > _MAX_INTERVAL_S
        ):
            self.collect_all()

    def collect_all(self) -> None:
        """Looks at everything now."""
        gc.unfreeze()
        gc.collect()
        self.partial_collections, self._last_full_at = 0, self._clock()

    def _on_gc(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
            self.partial_collections += 1
