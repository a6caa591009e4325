"""No command: opens the wizard, or explains which commands to use without a terminal."""

from __future__ import annotations

import argparse
import os
import sys

from grpo_wizard.state.errors import CommandUsageError
from grpo_wizard.tui.plain.detect import plain_mode_trigger


def run(args: argparse.Namespace) -> int:
    if not is_interactive():
        plain = plain_mode_trigger(args.plain, os.environ)
        raise CommandUsageError(
            f"{'Plain mode' if plain else 'The full-screen wizard'} requires a terminal",
            "Standard input or output is not a terminal."
            + (f" Plain mode is enabled by {plain}." if plain else ""),
            "Use init, check, plan and apply, or `rehearse` for an end-to-end demo.",
            "grpo-wizard rehearse" if args.rehearse else "grpo-wizard init --help",
        )
    return open_app(args, args.deployment)


def is_interactive() -> bool:
    """Return whether input and output are a terminal: without one, Textual would wait for keys that cannot come."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def open_app(args: argparse.Namespace, start: str | None, rehearse: bool = False) -> int:
    """Run the screens or plain mode. `start` is the deployment to open first; `rehearse` creates it if it does not exist."""
    from grpo_wizard.state.home import Home

    home = Home.choose(args.home)
    plain = plain_mode_trigger(args.plain, os.environ)
    if plain:
        from grpo_wizard.tui.plain import app as plain_app

        return plain_app.run(
            home, plain, start=start, create=rehearse, rehearse=args.rehearse or rehearse, speed=args.speed
        )
    from grpo_wizard.tui.app import Wizard

    app = Wizard(
        home,
        rehearse=args.rehearse or rehearse,
        create=rehearse,
        speed=args.speed,
        start=start,
    )
    return app.run() or 0
