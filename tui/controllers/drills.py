"""Drills for the front ends: start them by option, turn them on and off in a running emulator, warn about active ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import CommandUsageError
from grpo_wizard.state.home import Home
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.emulator.drills import client
from grpo_wizard.steps.emulator.drills.catalog import unknown_drill_error
from grpo_wizard.tui.style.i18n import _, ngettext

JSON = dict[str, Any]
END_DRILLS_COMMAND = "grpo-wizard rehearsal end-drill"


def start_requested_drills(args: argparse.Namespace) -> None:
    """Start the drills of `--drill NAME` before the command runs. Raises CommandUsageError."""
    if not (args.rehearse or args.command == "rehearse"):
        raise CommandUsageError(
            "--drill requires a rehearsal", "Drills exist only in the emulator.", "Add --rehearse."
        )
    update_drills(Path(Home.choose(args.home).root), args.speed, begin=args.drill)


def validate_drill_names(names: Iterable[str]) -> None:
    """Raise CommandUsageError for an unknown drill."""
    if text := unknown_drill_error(names):
        raise CommandUsageError(text, "", "List the available drills.", "grpo-wizard rehearsal drills")


def update_drills(
    home: Path, speed: str | None, begin: Iterable[str] = (), end: Iterable[str] | None = None
) -> list[JSON]:
    """Turn drills on or off (`end=()`: all off) in this home's emulator, starting it if necessary; return all drills.

    Raises CommandUsageError.
    """
    validate_drill_names([*begin, *(end or ())])
    try:
        address = process.start(home, speed)
        if end is not None:
            return client.end(address, end)
        return client.begin(address, begin) if begin else client.list_drills(address)
    except process.EmulatorError as error:
        raise CommandUsageError(str(error)) from error


def warn_active_drills(home: Path) -> None:
    """Print the active drills on stderr: failures may be simulated."""
    if names := client.active_drills(home):
        print(
            format_active_drills(names)
            + " "
            + _("To turn off all drills, run: {command}").format(command=END_DRILLS_COMMAND),
            file=sys.stderr,
        )


def format_active_drills(names: Iterable[str]) -> str:
    """`Active drill: stock-out.` or `Active drills: head-lost, stock-out.`"""
    listed = list(names)
    return ngettext("Active drill: {names}.", "Active drills: {names}.", len(listed)).format(
        names=", ".join(listed)
    )
