"""`check`: runs the preflight checks; creates nothing."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence

from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.preflight import CheckResult, blocking, fold_pending, run_checks
from grpo_wizard.steps.registry import STEPS
from grpo_wizard.tui.commands._output import print_json, print_wrapped, status_glyph
from grpo_wizard.tui.commands._session import open_session

_INDENT = 19
"""Columns of level and step, which continuation lines leave free."""


def run_all_checks(session: Session) -> list[CheckResult]:
    reader = CachedCloudReader(session.cloud, session.deployment.lineage)
    return asyncio.run(run_checks(STEPS, session.answers, reader))


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    results = run_all_checks(session)
    ok = not blocking(results)
    if args.json:
        print_json(
            session.deployment.mode,
            session.deployment.name,
            {"ok": ok, "checks": [result.to_json() for result in results]},
        )
    else:
        print_checks(results)
    return 0 if ok else 1


def print_checks(results: Sequence[CheckResult]) -> None:
    """Print one line per finding, one for all checks that wait for the same reason, and a summary."""
    others, waiting = fold_pending(results)
    for result in others:
        finding = result.finding
        detail = f": {finding.detail}" if finding.detail else ""
        _print_line(finding.level, f"{result.step:11}{finding.title}{detail}", hanging=_INDENT)
        if finding.fix:
            print_wrapped(f"{' ' * _INDENT}Fix: {finding.fix}")
    for text in waiting:
        _print_line("info", text, hanging=8)
    print_wrapped(f"\n{_summary(results)}")


def _print_line(level: str, text: str, hanging: int) -> None:
    print_wrapped(f"{status_glyph(level)} {level:6}{text}", hanging)


def _summary(results: Sequence[CheckResult]) -> str:
    counts = Counter("pending" if result.pending else result.finding.level for result in results)
    parts = [f"{n} passed" for n in [counts["pass"]] if n]
    parts += [
        _count(counts[level], noun)
        for level, noun in (("warn", "warning"), ("info", "note"))
        if counts[level]
    ]
    parts += [f"{n} pending" for n in [counts["pending"]] if n]
    if blocked := counts["block"]:
        return (
            f"{_count(blocked, 'check')} {'blocks' if blocked == 1 else 'block'} apply; {', '.join(parts)}."
        )
    return f"Nothing blocks apply: {', '.join(parts)}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
