"""`checkpoints`: lists the checkpoints on Lustre with completeness and size."""

from __future__ import annotations

import argparse
import asyncio

from grpo_wizard.steps.jobs.checkpoints import list_checkpoints
from grpo_wizard.steps.training.checkpoints import CheckpointListing
from grpo_wizard.tui.commands._output import print_json, status_glyph
from grpo_wizard.tui.commands._session import open_session


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    listing = asyncio.run(list_checkpoints(session))
    if args.json:
        print_json(session.deployment.mode, session.deployment.name, listing.to_json())
    else:
        _print_checkpoints(listing)
    return 0


def _print_checkpoints(listing: CheckpointListing) -> None:
    if not listing.rows:
        print("No checkpoints yet.")
    for row in listing.rows:
        print(
            f"{status_glyph('pass' if row.complete else 'warn')} {row.name:16}{row.state:13}{row.size_bytes / 1e9:10.3f} GB  {row.note or row.path}"
        )
    if listing.resume_step is not None:
        print(f"A restarted job will resume from step_{listing.resume_step}.")
    if listing.warning:
        print(f"{status_glyph('warn')} {listing.warning}")
