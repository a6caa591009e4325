"""`rehearsal`: the stand-in for Google Cloud as a process of its own, and what goes wrong in it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import CommandUsageError, WizardError
from grpo_wizard.steps.core.durations import format_duration
from grpo_wizard.steps.emulator import process
from grpo_wizard.tui.commands._output import with_global_options
from grpo_wizard.tui.commands._session import home_of

_ACTIONS_WITH_NAMES = ("drill", "end-drill")


def run(args: argparse.Namespace) -> int:
    """One of WHATS."""
    home = Path(home_of(args).root)
    if args.names and args.what not in _ACTIONS_WITH_NAMES:
        raise CommandUsageError(f"rehearsal {args.what} takes no name", " ".join(args.names))
    if args.drill and args.what != "serve":
        raise CommandUsageError(
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
            "drills": _list_drills,
            "drill": _start_drills,
            "end-drill": _end_drills,
        }[args.what](home, args)
    except process.EmulatorError as error:
        raise CommandUsageError(str(error)) from error


def _serve(home: Path, args: argparse.Namespace) -> int:
    from grpo_wizard.steps.emulator.__main__ import serve
    from grpo_wizard.steps.emulator.server.serve import ServerOptions
    from grpo_wizard.tui.controllers.drills import validate_drill_names

    _validate_numbers(args)
    validate_drill_names(args.drill or ())
    faults, record, env_file = (
        Path(given) if given else None for given in (args.faults, args.record, args.env_file)
    )
    speed = args.speed or process.DEFAULT_SPEED
    options = ServerOptions(
        home, speed, args.port, faults, record, env_file, args.ray, args.idle, drills=tuple(args.drill or ())
    )
    try:
        serve(options)
    except process.EmulatorError as error:
        raise WizardError(str(error)) from error
    except OSError as error:
        raise _file_error(args, error) from error
    except ValueError as error:
        raise CommandUsageError(
            f"--faults {args.faults} cannot be used", str(error), "correct the file"
        ) from error
    return 0


def _validate_numbers(args: argparse.Namespace) -> None:
    if not 0 <= args.port <= 65535:
        raise CommandUsageError(f"--port {args.port}", "a port is 0 to 65535", "leave it out for a free one")
    if not args.idle >= 0:
        raise CommandUsageError(
            f"--idle {args.idle:g}", "minutes are 0 or more", "0: it never ends by itself"
        )


def _file_error(args: argparse.Namespace, error: OSError) -> WizardError:
    """Of a file that was named on the command line; of anything else what the system says."""
    files = {"--faults": args.faults, "--env-file": args.env_file, "--record": args.record}
    why = error.strerror or str(error)
    for flag, given in files.items():
        if given is not None and Path(given) == Path(str(error.filename)):
            verb, fix = (
                ("read", "name a file that can be read")
                if flag == "--faults"
                else ("written", "name a file in a folder that is there and can be written")
            )
            return CommandUsageError(f"{flag} {given} cannot be {verb}", why, fix)
    return WizardError("the rehearsal cannot be served", str(error))


def _status(home: Path, args: argparse.Namespace) -> int:
    """JSON for programs, as ever; lines for people at a terminal."""
    found = process.status(home)
    if args.json or not sys.stdout.isatty():
        print(json.dumps(found))
        return 0
    for line in format_status(found):
        print(line)
    stop, serve = (with_global_options(f"grpo-wizard rehearsal {what}", args) for what in ("stop", "serve"))
    print(f"end it: {stop}" if found["running"] else f"begin:  {serve}, or any command with --rehearse")
    return 0


def format_status(found: dict[str, Any]) -> list[str]:
    """What the server says of itself, without its token."""
    if not found["running"]:
        return ["no rehearsal runs"]
    lines = [
        f"a rehearsal runs at {found['base_url']}, process {found['pid']}, speed {found['speed']}",
        f"  requests: {found['requests']}, the last {format_duration(found['idle_seconds'])} ago",
        f"  things in its cloud: {found['resources']}",
        f"  clusters: {', '.join(found['kube_urls']) or 'none'}",
        f"  drills: {', '.join(found['drills']) or 'none'}",
    ]
    return lines + ([f"  not saved: {found['unsaved']}"] if found.get("unsaved") else [])


def _stop(home: Path, args: argparse.Namespace) -> int:
    print("stopped" if process.stop(home) else "no rehearsal was running")
    return 0


def _list_drills(home: Path, args: argparse.Namespace) -> int:
    """All of them; what runs is asked of the server, which is not started for it."""
    from grpo_wizard.tui.commands import _drills

    return _drills.list_drills(home, args)


def _start_drills(home: Path, args: argparse.Namespace) -> int:
    from grpo_wizard.tui.commands import _drills

    return _drills.start_drills(home, args)


def _end_drills(home: Path, args: argparse.Namespace) -> int:
    from grpo_wizard.tui.commands import _drills

    return _drills.end_drills(home, args)
