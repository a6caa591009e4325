"""What is told again while it stands: one timer a shape of pods, so that thousands that wait do not wake the controllers one by one."""

from __future__ import annotations

from grpo_wizard.steps.emulator.kube.core import Kube

_LEAST_REAL_S = 30.0
_A_SECOND = 20  # so many pods are told the same again in a second at most: thousands must not drown the rest


class Repeats:
    """One controller's repeats during one pass over the pods that wait."""

    def __init__(self, kube: Kube, drawer: str, seconds: float, waiting: int) -> None:
        """`seconds` of the real thing between two tellings; `drawer` begins the timers' names."""
        self._kube, self._drawer, self._seconds = kube, drawer, seconds
        self._least = max(_LEAST_REAL_S, waiting / _A_SECOND)
        self._due: dict[str, bool] = {}

    def due(self, shape: str) -> bool:
        """Whether pods of this shape are told the same again in this pass."""
        if shape not in self._due:
            self._due[shape] = self._kube.due(self._key(shape), self._seconds, self._least)
            if self._due[shape]:
                self._kube.forget(self._key(shape))
                self._kube.due(self._key(shape), self._seconds, self._least)
        return self._due[shape]

    def told(self, shape: str) -> None:
        """A pod of this shape has been told something new: the time until it is repeated begins with the next pass."""
        self._kube.forget(self._key(shape))
        self._due.setdefault(shape, False)

    def end(self) -> None:
        """Drops the timers of shapes that no longer wait."""
        keep = {self._key(shape) for shape in self._due}
        for key in [k for k in self._kube.note("timers") if k.startswith(f"{self._drawer}/")]:
            if key not in keep:
                self._kube.forget(key)

    def _key(self, shape: str) -> str:
        return f"{self._drawer}/{shape}"
