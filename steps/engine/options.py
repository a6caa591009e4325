"""What the user allowed a run to do. Front ends build these; only a detached process gets them as arguments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ApplyOptions:
    """Options of plan and apply."""

    adopt: bool = False  # use existing resources that match, instead of stopping
    replace: tuple[str, ...] = ()  # ids of protected resources that may be deleted and re-created
    until: str = ""  # the last step to apply; empty: all
    skip_checks: bool = False  # no preflight before billable resources
    max_usd_per_hour: float | None = None
    max_usd: float | None = None  # in total; None: project.max_usd


@dataclass(frozen=True)
class DestroyOptions:
    """Options of destroy."""

    keep: frozenset[str] = frozenset()  # steps whose Google resources stay, with all that those depend on
    delete_project: str = ""  # the one project that is deleted too


RunOptions = ApplyOptions | DestroyOptions
