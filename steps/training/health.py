"""The diagnosis of a run: failure signatures in its log and rules over its rows, to one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grpo_wizard.steps.training.health_rules import Context, rules
from grpo_wizard.steps.training.reader import Reader
from grpo_wizard.steps.training.samples import Groups
from grpo_wizard.steps.training.signatures import Seen

_ORDER = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Finding:
    """One thing found. `level`: critical, warning or info; info does not touch the verdict."""

    id: str
    level: str
    since_step: int | None
    title: str
    evidence: str
    advice: str
    source: str


@dataclass(frozen=True)
class Verdict:
    """`verdict`: healthy, warning, critical, or unknown as long as no step is complete and nothing was
    found."""

    verdict: str
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """`{"verdict", "findings": […]}`"""
        return {"verdict": self.verdict, "findings": [asdict(finding) for finding in self.findings]}


def diagnose(
    reader: Reader,
    *,
    status: str | None = None,
    now: float | None = None,
    last_output_at: float | None = None,
    groups: Sequence[Groups] = (),
    stall_floor_s: float = 60.0,
) -> Verdict:
    """Looks at all that was read. The worst comes first; among equals, causes before their consequences.

    `status` is Ray's word or LOST; None for a saved log. A stall needs `now` and the receipt time of the
    last byte (`last_output_at`, else the reader's own), in epoch seconds.
    """
    heard = last_output_at if last_output_at is not None else reader.last_output_at
    ctx = Context(reader.rows, reader.facts, status, now, heard, groups, stall_floor_s)
    found = [_from_seen(seen) for seen in reader.seen.values() if _stands(seen, reader, status)]
    caused = any(finding.level == "critical" for finding in found)
    for rule in rules():
        if rule.id == "job_failed" and caused:  # the cause says more than Ray's status
            continue
        if hit := rule.check(ctx):
            found.append(
                Finding(
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
    return Verdict(_verdict(found, reader), tuple(found))


def _verdict(found: list[Finding], reader: Reader) -> str:
    worst = found[0].level if found else "info"
    if worst != "info":
        return worst
    return "healthy" if reader.rows or reader.evaluation.score is not None else "unknown"


def _stands(seen: Seen, reader: Reader, status: str | None) -> bool:
    """Whether a signature still counts: not when the run went on past it, nor in the noise after its
    normal end."""
    if seen.signature.lasting:
        return True
    if seen.after_end and status != "FAILED":
        return False
    return status == "FAILED" or len(reader.rows) <= seen.rows


def _from_seen(seen: Seen) -> Finding:
    sign = seen.signature
    often = f" (seen {seen.count} times)" if seen.count > 1 else ""
    return Finding(
        sign.id, sign.level, seen.since_step, seen.title, seen.evidence + often, sign.advice, sign.source
    )
