"""Grouping of failures by cause: twenty resources that fail for the same reason become one entry."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from grpo_wizard.tui.style.i18n import _

T = TypeVar("T")
_MAX_NAMES = 3


def group_by_cause(entries: Iterable[T], cause: Callable[[T], Hashable]) -> list[list[T]]:
    """Group entries with an equal `cause`, in the order in which each cause first occurs."""
    groups: dict[Hashable, list[T]] = {}
    for entry in entries:
        groups.setdefault(cause(entry), []).append(entry)
    return list(groups.values())


def join_names(names: Sequence[str]) -> str:
    """Join the first three names, and count the rest."""
    more = len(names) - _MAX_NAMES
    listed = ", ".join(names[:_MAX_NAMES])
    return listed if more <= 0 else _("{names} and {n} more").format(names=listed, n=more)
