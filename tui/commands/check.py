"""`check`: preflight only; creates nothing."""

from __future__ import annotations

import argparse
import asyncio

from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.preflight import CheckResult, blocking, run_checks
from grpo_wizard.steps.registry import STEPS
from grpo_wizard.tui.commands._output import print_json, status_glyph
from grpo_wizard.tui.commands._session import open_session


def run_all_checks(session: Session) -> list[CheckResult]:
    """Every check of every step."""
    return asyncio.run(
        run_checks(STEPS, session.answers, CachedCloudReader(session.cloud, session.deployment.lineage))
    )


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    found = run_all_checks(session)
    ok = not blocking(found)
    if args.json:
        print_json(
            session.deployment.mode,
            session.deployment.name,
            {"ok": ok, "checks": [checked.to_json() for checked in found]},
        )
    else:
        print_checks(found)
    return 0 if ok else 1


def print_checks(found: list[CheckResult]) -> None:
    for checked in found:
        seen = checked.finding
        print(
            f"{status_glyph(seen.level)} {seen.level:5} {checked.step:10} {seen.title}"
            + (f" ({seen.detail})" if seen.detail else "")
        )
        if seen.fix:
            print(f"{'':18} fix: {seen.fix}")
    count = len(blocking(found))
    print(f"{count} of {len(found)} block" if count else f"nothing blocks; {len(found)} checked")
