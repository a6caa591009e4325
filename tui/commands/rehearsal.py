"""`rehearsal`: the stand-in for Google Cloud as a process of its own, and what goes wrong in it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from grpo_wizard.state.errors import WrongUsage
from grpo_wizard.steps.rehearsal import life
from grpo_wizard.tui.opening import home_of

_NAMED = ("drill", "end-drill")


def run(args: argparse.Namespace) -> int:
    """One of WHATS."""
    home = Path(home_of(args).root)
    if args.names and args.what not in _NAMED:
        raise WrongUsage(f"rehearsal {args.what} takes no name", " ".join(args.names))
    if args.drill and args.what != "serve":
        raise WrongUsage(
            f"rehearsal {args.what} takes no --drill",
            "it goes with serve",
            "name the drill",
            "grpo-wizard rehearsal drill NAME",
        )
    try:
        return {
            "serve": _serve,
            "status": _status,
            "stop": _stop,
            "drills": _drills,
            "drill": _begin,
            "end-drill": _end,
        }[args.what](home, args)
    except life.RehearsalError as error:
        raise WrongUsage(str(error)) from error


def _serve(home: Path, args: argparse.Namespace) -> int:
    from grpo_wizard.steps.rehearsal.__main__ import main

    words = [
        "serve",
        "--home",
        str(home),
        "--port",
        str(args.port),
        "--speed",
        args.speed or life.DEFAULT_SPEED,
        "--ray",
        args.ray,
        "--idle",
        f"{args.idle:g}",
    ]
    for flag, value in (("--faults", args.faults), ("--env-file", args.env_file), ("--record", args.record)):
        words += [flag, value] if value else []
    for name in args.drill or ():
        words += ["--drill", name]
    return main(words)


def _status(home: Path, args: argparse.Namespace) -> int:
    print(json.dumps(life.status(home)))
    return 0


def _stop(home: Path, args: argparse.Namespace) -> int:
    print("stopped" if life.stop(home) else "no rehearsal was running")
    return 0


def _drills(home: Path, args: argparse.Namespace) -> int:
    """All of them; what runs is asked of the server, which is not started for it."""
    from grpo_wizard.tui.commands import drill_lines

    return drill_lines.show(home, args)


def _begin(home: Path, args: argparse.Namespace) -> int:
    from grpo_wizard.tui.commands import drill_lines

    return drill_lines.begin(home, args)


def _end(home: Path, args: argparse.Namespace) -> int:
    from grpo_wizard.tui.commands import drill_lines

    return drill_lines.end(home, args)
