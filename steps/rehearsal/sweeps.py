"""Garbage collection in a process that holds a large world.

A full collection looks at every object: with 2,000 pods nobody is answered for a tenth of a second. The world's own objects form no
cycles, so whatever has outlived one full collection is left out of the next. Connections do form cycles: all is looked at again once nobody
asks, or after many collections that left something out.
"""

from __future__ import annotations

import gc
from typing import Any

_QUIET_S = 1.0  # without a request: a pause of a tenth of a second is felt by nobody
_MANY = 20


class Sweeps:
    """Python's own collector goes on; this decides what its full collections look at."""

    def __init__(self) -> None:
        self.partial = 0  # full collections since all was looked at

    def begin(self) -> None:
        """Called when everything is loaded."""
        gc.callbacks.append(self._heard)
        self.whole()

    def end(self) -> None:
        gc.callbacks.remove(self._heard)
        gc.unfreeze()

    def look(self, idle: float) -> None:
        """Called now and then, with the seconds since the last request."""
        if self.partial >= _MANY or (self.partial and idle > _QUIET_S):
            self.whole()

    def whole(self) -> None:
        """Looks at everything now."""
        gc.unfreeze()
        gc.collect()
        self.partial = 0

    def _heard(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
            self.partial += 1
