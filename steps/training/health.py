"""The diagnosis of a run: failure signatures in its log and rules over its rows, to one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grpo_wizard.steps.training.health_rules import HealthContext, load_rules
from grpo_wizard.steps.training.reader import LogReader
from grpo_wizard.steps.training.samples import GroupStats
from grpo_wizard.steps.training.signatures import SignatureMatch

_ORDER = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class HealthFinding:
    """One finding. `level`: critical, warning or info; info does not change the verdict."""

    id: str
    level: str
    since_step: int | None
    title: str
    evidence: str
    advice: str
    source: str


@dataclass(frozen=True)
class HealthReport:
    """`verdict`: healthy, warning, critical, or unknown while no step is complete and nothing was found."""

    verdict: str
    findings: tuple[HealthFinding, ...]

    def to_json(self) -> dict[str, Any]:
        """Return `{"verdict", "findings": […]}`."""
        return {"verdict": self.verdict, "findings": [asdict(finding) for finding in self.findings]}


def diagnose(
    reader: LogReader,
    *,
    status: str | None = None,
    now: float | None = None,
    last_output_at: float | None = None,
    groups: Sequence[GroupStats] = (),
    stall_floor_s: float = 60.0,
) -> HealthReport:
    """Diagnose a run from its log. The worst finding comes first; among equals, causes before consequences.

    `status` is Ray's or LOST; None for a saved log. A stall needs `now` and the time at which the last byte was
    received (`last_output_at`, else the reader's own), in epoch seconds.
    """
    last_output = last_output_at if last_output_at is not None else reader.last_output_at
    ctx = HealthContext(reader.rows, reader.run_info, status, now, last_output, groups, stall_floor_s)
    found = [
        _finding_from_match(seen)
        for seen in reader.signature_matches.values()
        if _still_counts(seen, reader, status)
    ]
    has_root_cause = any(finding.level == "critical" for finding in found)
    for rule in load_rules():
        if rule.id == "job_failed" and has_root_cause:  # the cause explains more than Ray's status
            continue
        if hit := rule.check(ctx):
            found.append(
                HealthFinding(
                    rule.id,
                    hit.level or rule.level,
                    hit.since_step,
                    hit.title,
                    hit.evidence,
                    rule.advice,
                    rule.source,
                )
            )
    found.sort(key=lambda finding: _ORDER[finding.level])
    return HealthReport(_verdict(found, reader), tuple(found))


def _verdict(found: list[HealthFinding], reader: LogReader) -> str:
    worst = found[0].level if found else "info"
    if worst != "info":
        return worst
    return "healthy" if reader.rows or reader.evaluation.score is not None else "unknown"


def _still_counts(seen: SignatureMatch, reader: LogReader, status: str | None) -> bool:
    """Whether a match still counts: not once the run continued past it, nor in the noise after its normal end."""
    if seen.signature.lasting:
        return True
    if seen.after_end and status != "FAILED":
        return False
    return status == "FAILED" or len(reader.rows) <= seen.rows_at_last_match


def _finding_from_match(seen: SignatureMatch) -> HealthFinding:
    sign = seen.signature
    often = f" ({seen.count} times)" if seen.count > 1 else ""
    return HealthFinding(
        sign.id, sign.level, seen.since_step, seen.title, seen.evidence + often, sign.advice, sign.source
    )
