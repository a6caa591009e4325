"""How long to wait: between two looks, before a new try, and at most. In a rehearsal all of it shrinks with its speed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from grpo_wizard.steps.core.model import Resource, Trouble

_FIRST_LOOK, _LAST_LOOK, _GROWTH = 1.0, 10.0, 1.5  # seconds in real life
_SHORTEST = 0.05
_MOST_TRIES = 8
_INSIST_FLOOR = 3.0
_PATIENCE_FLOOR = 180.0  # a rehearsal on a busy machine still gets this long


def looks(pace: float) -> Iterator[float]:
    """Seconds to wait before each next look: quick at first, then every 10 s."""
    wait = _FIRST_LOOK
    while True:
        yield max(_SHORTEST, wait / pace)
        wait = min(_LAST_LOOK, wait * _GROWTH)


def until_felt(pace: float) -> Iterator[float]:
    """Seconds to wait before each next look whether an API that was just enabled is felt: minutes at most (cases a07)."""
    return itertools.repeat(max(0.2, 10.0 / pace), 40)


def tries(pace: float) -> list[float]:
    """Seconds before each new try of something that failed for the moment: 1, 2, 4 … 60."""
    quick = max(1.0, min(pace, 10.0))
    return [max(_SHORTEST, min(60.0, 2.0**n) / quick) for n in range(_MOST_TRIES)]


def until_insisting(pace: float) -> float:
    """Seconds that something may say "in use" before the harder way is taken: a quarter of an hour."""
    return max(_INSIST_FLOOR, 900.0 / pace)


def patience(resource: Resource, pace: float) -> float:
    """Seconds after which waiting for a resource is given up: three times what is usual at most, and half an hour."""
    return _PATIENCE_FLOOR + _divided(3 * resource.usual.high + 1800, pace)


def senseless(trouble: Trouble, resource: Resource, pace: float) -> float:
    """Seconds after which one and the same trouble ends the waiting for a resource."""
    if trouble.patience is None:
        return patience(resource, pace)
    return _PATIENCE_FLOOR + _divided(trouble.patience, pace)


def _divided(seconds: float, pace: float) -> float:
    return seconds / (pace if math.isfinite(pace) else 1e9)
