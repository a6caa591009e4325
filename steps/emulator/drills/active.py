"""Which drills are active. Code that simulates a failure asks here; manager.py starts and ends drills."""

from __future__ import annotations

ACTIVE: set[str] = set()


def is_active(name: str) -> bool:
    """Return whether a drill is active."""
    return name in ACTIVE
