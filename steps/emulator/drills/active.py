"""Which drills run in this world. Whatever then misbehaves asks here; drills.py begins and ends them."""

from __future__ import annotations

ACTIVE: set[str] = set()


def is_active(name: str) -> bool:
    """Whether a drill runs now."""
    return name in ACTIVE
