"""No command: the wizard itself. Without a terminal it says at once which command does the same."""

from __future__ import annotations

import argparse
import sys

from grpo_wizard.state.errors import WrongUsage


def run(args: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUsage("the full-screen wizard needs a terminal", "there is none here",
                         "use the commands: init, check, plan, apply; or rehearse for the whole road", "grpo-wizard init --help")
    raise WrongUsage("the screens are not built yet", "", "use the commands: init, check, plan, apply", "grpo-wizard rehearse")
