"""One cause, told once: twenty things that fail for the same reason are one entry with their names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from grpo_wizard.tui.style.i18n import _

T = TypeVar("T")
_NAMED = 3


def alike(entries: Iterable[T], said: Callable[[T], Hashable]) -> list[list[T]]:
    """The entries of which the same is `said` together, in the order in which each was met first."""
    found: dict[Hashable, list[T]] = {}
    for entry in entries:
        found.setdefault(said(entry), []).append(entry)
    return list(found.values())


def named(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(names) - _NAMED
    listed = ", ".join(names[:_NAMED])
    return listed if more <= 0 else _("{names} and {n} more").format(names=listed, n=more)
