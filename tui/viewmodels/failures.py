"""One cause, told once: twenty things that fail for the same reason are one entry with their names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from grpo_wizard.tui.style.i18n import _

T = TypeVar("T")
_MAX_NAMES = 3


def group_by_cause(entries: Iterable[T], cause: Callable[[T], Hashable]) -> list[list[T]]:
    """The entries of which the same is `said` together, in the order in which each was met first."""
    found: dict[Hashable, list[T]] = {}
    for entry in entries:
        found.setdefault(cause(entry), []).append(entry)
    return list(found.values())


def join_names(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(names) - _MAX_NAMES
    listed = ", ".join(names[:_MAX_NAMES])
    return listed if more <= 0 else _("{names} and {n} more").format(names=listed, n=more)
