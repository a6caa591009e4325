"""Drills as the front ends need them: begun by an option, told while they run, and switched in a running rehearsal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import CommandUsageError
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.emulator.drills import client
from grpo_wizard.steps.emulator.drills.catalog import unknown_drill_error
from grpo_wizard.tui.commands._session import home_of
from grpo_wizard.tui.style.i18n import _

JSON = dict[str, Any]
END_DRILLS_COMMAND = "grpo-wizard rehearsal end-drill"


def start_requested_drills(args: argparse.Namespace) -> None:
    """`--drill NAME` of a command that talks to the rehearsal: begun before anything else. Raises WrongUsage."""
    if not (args.rehearse or args.command == "rehearse"):
        raise CommandUsageError(
            "--drill is for a rehearsal", "the real Google Cloud is not made to fail", "add --rehearse"
        )
    update_drills(Path(home_of(args).root), args.speed, begin=args.drill)


def validate_drill_names(names: Iterable[str]) -> None:
    """Raises WrongUsage for a name that is no drill's."""
    if text := unknown_drill_error(names):
        raise CommandUsageError(text, "", "see what each does", "grpo-wizard rehearsal drills")


def update_drills(
    home: Path, speed: str | None, begin: Iterable[str] = (), end: Iterable[str] | None = None
) -> list[JSON]:
    """Begins or ends drills (`end=()`: all) in this home's rehearsal, which is started where none runs; then all as they stand.

    Raises WrongUsage.
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
    """On stderr, for whoever forgot: what fails now may be a drill."""
    if names := client.active_drills(home):
        print(
            format_active_drills(names) + " " + _("End it: {command}").format(command=END_DRILLS_COMMAND),
            file=sys.stderr,
        )


def format_active_drills(names: Iterable[str]) -> str:
    """`Drill: stock-out, head-lost.`"""
    return _("Drill: {names}.").format(names=", ".join(names))
