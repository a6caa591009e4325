"""Which drills run in this world. Whatever then misbehaves asks here; drills.py begins and ends them."""

from __future__ import annotations

RUNNING: set[str] = set()


def runs(name: str) -> bool:
    """Whether a drill runs now."""
    return name in RUNNING
