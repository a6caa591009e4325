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

_QUIET_S = 1.0  # without a request: a pause of a tenth of a second is felt by nobody
_LONGEST_S = 600.0  # without a quiet moment


class Sweeps:
    """Python's own collector goes on; this decides what its full collections look at."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.partial = 0  # full collections since all was looked at
        self._clock, self._at = clock, clock()

    def begin(self) -> None:
        """Called when everything is loaded."""
        gc.callbacks.append(self._heard)
        self.whole()

    def end(self) -> None:
        gc.callbacks.remove(self._heard)
        gc.unfreeze()

    def look(self, idle: float) -> None:
        """Called now and then, with the seconds since the last request."""
        if self.partial and (idle > _QUIET_S or self._clock() - self._at > _LONGEST_S):
            self.whole()

    def whole(self) -> None:
        """Looks at everything now."""
        gc.unfreeze()
        gc.collect()
        self.partial, self._at = 0, self._clock()

    def _heard(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
            self.partial += 1
