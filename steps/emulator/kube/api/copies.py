"""Copies of plain JSON values. A round trip through msgspec is about ten times as fast as deepcopy here."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def deep_copy(value: T) -> T:
    """Return a deep copy of dicts, lists, strings and numbers."""
    again: T = msgspec.json.decode(msgspec.json.encode(value))
    return again
