"""`check`: preflight only; creates nothing."""

from __future__ import annotations

import argparse
import asyncio

from grpo_wizard.steps.clients.queries.cached import LiveWorld
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.preflight import Checked, blocking, run_checks
from grpo_wizard.steps.registry import STEPS
from grpo_wizard.tui.commands._output import glyph, print_json
from grpo_wizard.tui.commands._session import open_session


def look(session: Session) -> list[Checked]:
    """Every check of every step."""
    return asyncio.run(
        run_checks(STEPS, session.answers, LiveWorld(session.cloud, session.deployment.lineage))
    )


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    found = look(session)
    ok = not blocking(found)
    if args.json:
        print_json(
            session.deployment.mode,
            session.deployment.name,
            {"ok": ok, "checks": [checked.document() for checked in found]},
        )
    else:
        show(found)
    return 0 if ok else 1


def show(found: list[Checked]) -> None:
    for checked in found:
        seen = checked.finding
        print(
            f"{glyph(seen.level)} {seen.level:5} {checked.step:10} {seen.title}"
            + (f" ({seen.detail})" if seen.detail else "")
        )
        if seen.fix:
            print(f"{'':18} fix: {seen.fix}")
    count = len(blocking(found))
    print(f"{count} of {len(found)} block" if count else f"nothing blocks; {len(found)} checked")
