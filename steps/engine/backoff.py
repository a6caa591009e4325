"""How long to wait: between two reads, before a retry, and at most. A rehearsal divides all of it by its speed.

Delays have jitter, so that many resources that were refused together are not retried together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from grpo_wizard.steps.core.backoff import exponential_delays, with_jitter
from grpo_wizard.steps.core.model import Diagnosis, Resource

_FIRST_INTERVAL, _MAX_INTERVAL, _GROWTH = 1.0, 10.0, 1.5  # seconds at real speed
_MIN_INTERVAL = 0.05
_PATIENT_DELAY = 10.0
_MAX_RETRIES = 8
_MAX_RETRY_DELAY = 60.0
_MIN_FORCE_DELETE_AFTER = 3.0
_MIN_TIMEOUT = 180.0  # a rehearsal on a busy machine still gets this long


def poll_intervals(time_scale: float) -> Iterator[float]:
    """Seconds before each next read: quick at first, then every 10 s."""
    delay = _FIRST_INTERVAL
    while True:
        yield max(_MIN_INTERVAL, with_jitter(delay / time_scale))
        delay = min(_MAX_INTERVAL, delay * _GROWTH)


def propagation_polls(time_scale: float) -> Iterator[float]:
    """Seconds before each next read of an API that was just enabled.

    Until it takes effect Google answers "wait a few minutes for the action to propagate to our systems and retry".
    """
    return itertools.repeat(max(0.2, _PATIENT_DELAY / time_scale), 40)


def retry_delays(time_scale: float) -> list[float]:
    """Seconds before each retry of a request that failed temporarily: about 1, 2, 4 … 60."""
    quick = max(1.0, min(time_scale, 10.0))
    return [
        max(_MIN_INTERVAL, delay / quick) for delay in exponential_delays(1.0, _MAX_RETRY_DELAY, _MAX_RETRIES)
    ]


def patient_delay(time_scale: float) -> float:
    """Seconds before a retry of what passes with time, such as a network that is still in use."""
    return max(0.1, with_jitter(_PATIENT_DELAY) / time_scale)


def force_delete_after(time_scale: float) -> float:
    """Seconds that something may stay "in use" before it is deleted by force: 15 minutes."""
    return max(_MIN_FORCE_DELETE_AFTER, 900.0 / time_scale)


def timeout(resource: Resource, time_scale: float) -> float:
    """Seconds after which waiting for a resource ends: three times its longest usual duration, plus half an hour."""
    return _MIN_TIMEOUT + _scaled(3 * resource.expected_duration.high + 1800, time_scale)


def diagnosis_timeout(diagnosis: Diagnosis, resource: Resource, time_scale: float) -> float:
    """Seconds after which one diagnosis that does not change ends the wait for a resource."""
    if diagnosis.timeout is None:
        return timeout(resource, time_scale)
    return _MIN_TIMEOUT + _scaled(diagnosis.timeout, time_scale)


def _scaled(seconds: float, time_scale: float) -> float:
    return seconds / (time_scale if math.isfinite(time_scale) else 1e9)
