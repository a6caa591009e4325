"""Training steps of earlier attempts of a run: each attempt's log is parsed once, because an ended job's log never changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_wizard.steps.training.reader import parse_log

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.steps.training.rows import StepMetrics


class EarlierAttempts:
    """The jobs that a job resumed, in the order in which they were submitted."""

    def __init__(self, session: Session, job_id: str) -> None:
        job = session.deployment.job
        folder = session.store.home.folder(session.deployment.name)
        names = str(job.extra.get("earlier", "")).split() if job is not None else []
        self._logs = [folder / f"{name}.log" for name in names if name != job_id]
        self._rows: tuple[StepMetrics, ...] = ()
        self.loaded = not self._logs
        """Whether `rows_before` knows the earlier attempts: false until `load` has parsed their logs."""

    def load(self) -> None:
        """Parse the logs that were not parsed yet in this process. Blocking: seconds for a log of 50 MB."""
        if self.loaded:
            return
        by_step: dict[int, StepMetrics] = {}
        for log in self._logs:
            by_step |= {row.step: row for row in _parse(log)}  # a later attempt repeats steps
        self._rows = tuple(by_step[step] for step in sorted(by_step))
        self.loaded = True

    def rows_before(self, step: int | None) -> Sequence[StepMetrics]:
        """Return the rows up to where the present attempt took over; all of them where it has none yet."""
        if step is None:
            return self._rows
        return self._rows[: bisect_left(self._rows, step, key=lambda row: row.step)]


def _parse(log: Path) -> tuple[StepMetrics, ...]:
    try:
        stat = log.stat()
    except OSError:
        return ()
    return _parse_version(log, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=64)
def _parse_version(log: Path, mtime_ns: int, size: int) -> tuple[StepMetrics, ...]:
    """`mtime_ns` and `size` are the file's version."""
    return tuple(parse_log(log.read_bytes()).rows)
