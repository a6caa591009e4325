"""`rehearsal drills`, `rehearsal drill NAME …` and `rehearsal end-drill [NAME …]`, as text or JSON."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import CommandUsageError
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.emulator.drills import client
from grpo_wizard.steps.emulator.drills.catalog import DRILL_CATALOG, DRILL_NAMES
from grpo_wizard.tui.commands._output import print_json, status_glyph
from grpo_wizard.tui.controllers.drills import END_DRILLS_COMMAND, update_drills, validate_drill_names

JSON = dict[str, Any]


def list_drills(home: Path, args: argparse.Namespace) -> int:
    """Print every drill, marking the active ones. Does not start the emulator."""
    address = process.find(home)
    drills = (
        client.list_drills(address)
        if address
        else [{**drill.to_json(), "running": False, "since": None} for drill in DRILL_CATALOG]
    )
    if args.json:
        return _print_document(drills, address is not None)
    for drill in drills:
        _print_drill(drill)
    if address is None:
        print("The emulator is not running. Active drills will resume when it starts.")
    print(f"Start: grpo-wizard rehearsal drill NAME    End: {END_DRILLS_COMMAND} [NAME]")
    return 0


def start_drills(home: Path, args: argparse.Namespace) -> int:
    """Start the named drills, and this home's emulator if it is not running."""
    if not args.names:
        raise CommandUsageError(
            "No drill specified",
            f"Available drills: {', '.join(DRILL_NAMES)}.",
            "Specify at least one drill.",
            "grpo-wizard rehearsal drills",
        )
    validate_drill_names(args.names)
    was_running = process.find(home) is not None
    drills = update_drills(home, args.speed, begin=args.names)
    if args.json:
        return _print_document(drills, True)
    if not was_running:
        print("Started the emulator.")
    for drill in drills:
        if drill["name"] in args.names:
            print(f"Started {drill['name']}: {drill['title']}")
            print(_wrap("When", drill["felt"]))
    print(f"To end {'it' if len(args.names) == 1 else 'them'}: {END_DRILLS_COMMAND} {' '.join(args.names)}")
    return 0


def end_drills(home: Path, args: argparse.Namespace) -> int:
    """End the named drills, or all active ones. Starts the emulator only if its saved state may hold some."""
    validate_drill_names(args.names)
    before = [drill for drill in _current_drills(home, args) if drill["running"]]
    wanted = args.names or [drill["name"] for drill in before]
    ended = [drill for drill in before if drill["name"] in wanted]
    drills = update_drills(home, args.speed, end=wanted) if ended else _current_drills(home, args)
    if args.json:
        return _print_document(drills, bool(drills))
    for drill in ended:
        print(f"Ended {drill['name']}.")
        print(_wrap("Recovery", drill["mends"]))
    for name in args.names:
        if name not in [drill["name"] for drill in ended]:
            print(f"{name} was not active.")
    if not args.names and not ended:
        print("No drill was active.")
    return 0


def _current_drills(home: Path, args: argparse.Namespace) -> list[JSON]:
    """Return the emulator's drills, starting it if it left saved state. Empty if it never ran in this home."""
    has_state = (process.server_folder(home) / "world.json").exists()
    return update_drills(home, args.speed) if has_state or process.find(home) else []


def _print_document(drills: list[JSON], running: bool) -> int:
    print_json("rehearsal", None, {"rehearsal_running": running, "drills": drills})
    return 0


def _print_drill(drill: JSON) -> None:
    active = f"{status_glyph('work')} active" if drill["running"] else ""
    print(f"{drill['name']:20} {drill['title']}  {active}".rstrip())
    for label, key in (("Effect", "happens"), ("When", "felt"), ("Recovery", "mends"), ("Source", "source")):
        print(_wrap(label, drill[key]))
    if drill["inferred"]:
        print(_wrap("Assumed", drill["inferred"]))


def _wrap(label: str, text: str) -> str:
    """Return a labelled paragraph, indented and as wide as the terminal."""
    first = f"    {label + ':':10}"
    width = max(60, min(120, shutil.get_terminal_size((110, 24)).columns))
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip
