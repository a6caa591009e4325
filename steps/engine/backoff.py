"""How long to wait: between two looks, before a new try, and at most. In a rehearsal all of it shrinks with its speed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from grpo_wizard.steps.core.model import Diagnosis, Resource

_FIRST_INTERVAL, _MAX_INTERVAL, _GROWTH = 1.0, 10.0, 1.5  # seconds in real life
_MIN_INTERVAL = 0.05
_MAX_RETRIES = 8
_MIN_FORCE_DELETE_AFTER = 3.0
_MIN_TIMEOUT = 180.0  # a rehearsal on a busy machine still gets this long


def poll_intervals(time_scale: float) -> Iterator[float]:
    """Seconds to wait before each next look: quick at first, then every 10 s."""
    wait = _FIRST_INTERVAL
    while True:
        yield max(_MIN_INTERVAL, wait / time_scale)
        wait = min(_MAX_INTERVAL, wait * _GROWTH)


def propagation_polls(time_scale: float) -> Iterator[float]:
    """Seconds to wait before each next look whether an API that was just enabled is felt: minutes at most (cases a07)."""
    return itertools.repeat(max(0.2, 10.0 / time_scale), 40)


def retry_delays(time_scale: float) -> list[float]:
    """Seconds before each new try of something that failed for the moment: 1, 2, 4 … 60."""
    quick = max(1.0, min(time_scale, 10.0))
    return [max(_MIN_INTERVAL, min(60.0, 2.0**n) / quick) for n in range(_MAX_RETRIES)]


def force_delete_after(time_scale: float) -> float:
    """Seconds that something may say "in use" before the harder way is taken: a quarter of an hour."""
    return max(_MIN_FORCE_DELETE_AFTER, 900.0 / time_scale)


def timeout(resource: Resource, time_scale: float) -> float:
    """Seconds after which waiting for a resource is given up: three times what is usual at most, and half an hour."""
    return _MIN_TIMEOUT + _scaled(3 * resource.expected_duration.high + 1800, time_scale)


def diagnosis_timeout(diagnosis: Diagnosis, resource: Resource, time_scale: float) -> float:
    """Seconds after which one and the same trouble ends the waiting for a resource."""
    if diagnosis.timeout is None:
        return timeout(resource, time_scale)
    return _MIN_TIMEOUT + _scaled(diagnosis.timeout, time_scale)


def _scaled(seconds: float, time_scale: float) -> float:
    return seconds / (time_scale if math.isfinite(time_scale) else 1e9)
