"""No command: the wizard itself. Without a terminal it says at once which command does the same."""

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
            f"{'plain mode' if plain else 'the full-screen wizard'} needs a terminal",
            "there is none here" + (f"; plain mode was chosen by {plain}" if plain else ""),
            "use the commands: init, check, plan, apply; or rehearse for the whole road",
            "grpo-wizard rehearse" if args.rehearse else "grpo-wizard init --help",
        )
    return open_app(args, args.deployment)


def is_interactive() -> bool:
    """Textual would paint to stderr and wait for keys that cannot come."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def open_app(args: argparse.Namespace, start: str | None, rehearse: bool = False) -> int:
    """The screens, or plain mode, until they are left. `start` is the deployment to open first; `rehearse` begins it when it is not there."""
    from grpo_wizard.state.home import Home

    home = Home.choose(args.home)
    because = plain_mode_trigger(args.plain, os.environ)
    if because:
        from grpo_wizard.tui.plain import app as plain_app

        return plain_app.run(
            home, because, start=start, create=rehearse, rehearse=args.rehearse or rehearse, speed=args.speed
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
