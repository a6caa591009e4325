"""`rehearsal drills`, `rehearsal drill NAME …` and `rehearsal end-drill [NAME …]`, as lines or as JSON."""

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
    """Every drill: what happens, when it is felt, what it stands for; those that run are marked."""
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
        print("No rehearsal runs. What ran when it ended runs again with it.")
    print(f"Begin: grpo-wizard rehearsal drill NAME    End: {END_DRILLS_COMMAND} [NAME]")
    return 0


def start_drills(home: Path, args: argparse.Namespace) -> int:
    """In the rehearsal of this home; it is started where none runs, as by any command with --rehearse."""
    if not args.names:
        raise CommandUsageError(
            "no drill was named",
            f"there are: {', '.join(DRILL_NAMES)}",
            "name one",
            "grpo-wizard rehearsal drills",
        )
    validate_drill_names(args.names)
    ran = process.find(home) is not None
    drills = update_drills(home, args.speed, begin=args.names)
    if args.json:
        return _print_document(drills, True)
    if not ran:
        print("started the rehearsal")
    for drill in drills:
        if drill["name"] in args.names:
            print(f"began {drill['name']}: {drill['title']}")
            print(f"  felt: {drill['felt']}")
    print(f"end:  {END_DRILLS_COMMAND} {' '.join(args.names)}")
    return 0


def end_drills(home: Path, args: argparse.Namespace) -> int:
    """Those that are named, or all. Without a server there is nothing to end unless a world was left with drills in it."""
    validate_drill_names(args.names)
    before = [drill for drill in _current_drills(home, args) if drill["running"]]
    wanted = args.names or [drill["name"] for drill in before]
    ended = [drill for drill in before if drill["name"] in wanted]
    drills = update_drills(home, args.speed, end=wanted) if ended else _current_drills(home, args)
    if args.json:
        return _print_document(drills, bool(drills))
    for drill in ended:
        print(f"ended {drill['name']}. {drill['mends']}")
    for name in args.names:
        if name not in [drill["name"] for drill in ended]:
            print(f"{name} was not running")
    if not args.names and not ended:
        print("no drill was running")
    return 0


def _current_drills(home: Path, args: argparse.Namespace) -> list[JSON]:
    """Of the server; a world that was left keeps its drills, so its server is started again. Empty where there never was one."""
    left = (process.server_folder(home) / "world.json").exists()
    return update_drills(home, args.speed) if left or process.find(home) else []


def _print_document(drills: list[JSON], running: bool) -> int:
    print_json("rehearsal", None, {"rehearsal_running": running, "drills": drills})
    return 0


def _print_drill(drill: JSON) -> None:
    mark = f"{status_glyph('work')} running" if drill["running"] else ""
    print(f"{drill['name']:20} {drill['title']}  {mark}".rstrip())
    for label, key in (("what", "happens"), ("felt", "felt"), ("after", "mends"), ("real", "source")):
        print(_wrap(label, drill[key]))
    if drill["inferred"]:
        print(_wrap("guess", drill["inferred"]))


def _wrap(label: str, text: str) -> str:
    head = f"    {label:6}"
    width = max(60, min(120, shutil.get_terminal_size((110, 24)).columns))
    return textwrap.fill(
        text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip
