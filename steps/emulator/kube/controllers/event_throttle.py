"""Throttles repeated events: one timer per pod shape, so that thousands of pending pods do not wake the
controllers one by one.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.kube.context import ClusterContext

_MIN_REAL_SECONDS = 30.0
_MAX_REPEATS_PER_SECOND = 20  # at most this many repeated events per second


class EventThrottle:
    """One controller's repeated events during one pass over the pending pods."""

    def __init__(self, kube: ClusterContext, timer_prefix: str, seconds: float, waiting: int) -> None:
        """`seconds` is the real interval between repetitions; `timer_prefix` prefixes the timers' names."""
        self._kube, self._timer_prefix, self._seconds = kube, timer_prefix, seconds
        self._min_real_seconds = max(_MIN_REAL_SECONDS, waiting / _MAX_REPEATS_PER_SECOND)
        self._due: dict[str, bool] = {}

    def should_repeat(self, shape: str) -> bool:
        """Return whether events of this pod shape are repeated in this pass."""
        if shape not in self._due:
            self._due[shape] = self._kube.timer_expired(
                self._key(shape), self._seconds, self._min_real_seconds
            )
            if self._due[shape]:
                self._kube.cancel_timers(self._key(shape))
                self._kube.timer_expired(self._key(shape), self._seconds, self._min_real_seconds)
        return self._due[shape]

    def restart_timer(self, shape: str) -> None:
        """Restart the interval of a pod shape, because its pods get a new event."""
        self._kube.cancel_timers(self._key(shape))
        self._due.setdefault(shape, False)

    def drop_stale_timers(self) -> None:
        """Drop the timers of shapes that are no longer pending."""
        keep = {self._key(shape) for shape in self._due}
        for key in [
            k for k in self._kube.controller_state_for("timers") if k.startswith(f"{self._timer_prefix}/")
        ]:
            if key not in keep:
                self._kube.cancel_timers(key)

    def _key(self, shape: str) -> str:
        return f"{self._timer_prefix}/{shape}"
