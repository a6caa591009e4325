"""Delays that grow between retries, with jitter, so that what failed together is not retried together."""

from __future__ import annotations

import random

_JITTER = 0.2  # of a delay, either way


def with_jitter(seconds: float) -> float:
    """The delay, up to 20 % shorter or longer."""
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)


def exponential_delays(first: float, limit: float, count: int) -> list[float]:
    """`count` delays in seconds, each about twice the one before, up to `limit`."""
    return [with_jitter(min(limit, first * 2**n)) for n in range(count)]
