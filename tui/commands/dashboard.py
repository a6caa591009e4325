"""`dashboard`: forwards the Ray dashboard to this machine until interrupted."""

from __future__ import annotations

import argparse
import asyncio

from grpo_wizard.steps.clients.ray.head import open_head
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.jobs.watch import job_resource
from grpo_wizard.tui.commands._session import open_session


def run(args: argparse.Namespace) -> int:
    asyncio.run(_forward_dashboard(open_session(args), args.port))
    return 0


async def _forward_dashboard(session: Session, port: int) -> None:
    """Forward until interrupted, reconnecting when the head's pod is replaced."""
    async with open_head(session.cloud, job_resource(session).parent, port) as head:
        await head.jobs.version()
        print(
            f"Ray dashboard: {head.dashboard_url} (reachable only from this machine). Press Ctrl+C to stop.",
            flush=True,
        )
        await asyncio.Event().wait()
