"""`rehearsal`: run, inspect and stop the emulator of Google Cloud, and switch its failure drills."""

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


def run(args: argparse.Namespace) -> int:
    home = Path(home_of(args).root)
    if args.drill and args.action != "serve":
        raise CommandUsageError(
            f"`rehearsal {args.action}` does not accept --drill",
            "Only `rehearsal serve` does.",
            "Start the drill by name instead.",
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
        }[args.action](home, args)
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
            f"Invalid fault file {args.faults}", str(error), "Correct the file."
        ) from error
    return 0


def _validate_numbers(args: argparse.Namespace) -> None:
    if not 0 <= args.port <= 65535:
        raise CommandUsageError(
            f"Invalid --port {args.port}",
            "A port is a number from 0 to 65535.",
            "Omit the option to use a free port.",
        )
    if not args.idle >= 0:
        raise CommandUsageError(
            f"Invalid --idle {args.idle:g}",
            "--idle must be 0 or more minutes.",
            "Use 0 to run until stopped.",
        )


def _file_error(args: argparse.Namespace, error: OSError) -> WizardError:
    """Translate a system error: wrong usage if it concerns a file named on the command line."""
    files = {"--faults": args.faults, "--env-file": args.env_file, "--record": args.record}
    reason = error.strerror or str(error)
    for option, given in files.items():
        if given is not None and Path(given) == Path(str(error.filename)):
            verb, fix = (
                ("read", "Specify a readable file.")
                if option == "--faults"
                else ("write", "Specify a file in an existing, writable folder.")
            )
            return CommandUsageError(f"Cannot {verb} {option} {given}", reason, fix)
    return WizardError("The emulator could not be started", str(error))


def _status(home: Path, args: argparse.Namespace) -> int:
    """Print text on a terminal, else JSON."""
    status = process.status(home)
    if args.json or not sys.stdout.isatty():
        print(json.dumps(status))
        return 0
    for line in format_status(status):
        print(line)
    stop, serve = (with_global_options(f"grpo-wizard rehearsal {verb}", args) for verb in ("stop", "serve"))
    print(
        f"Stop it with: {stop}"
        if status["running"]
        else f"Start it with: {serve}, or run any command with --rehearse"
    )
    return 0


def format_status(status: dict[str, Any]) -> list[str]:
    """Return the emulator's status as lines, without its token."""
    if not status["running"]:
        return ["The emulator is not running."]
    lines = [
        f"The emulator is running at {status['base_url']} (process {status['pid']}, speed {status['speed']}).",
        f"  requests:  {status['requests']}, the last {format_duration(status['idle_seconds'])} ago",
        f"  resources: {status['resources']}",
        f"  clusters:  {', '.join(status['kube_urls']) or 'none'}",
        f"  drills:    {', '.join(status['drills']) or 'none'}",
    ]
    return lines + ([f"  not saved: {status['unsaved']}"] if status.get("unsaved") else [])


def _stop(home: Path, args: argparse.Namespace) -> int:
    print("Stopped the emulator." if process.stop(home) else "The emulator was not running.")
    return 0


def _list_drills(home: Path, args: argparse.Namespace) -> int:
    from grpo_wizard.tui.commands import _drills

    return _drills.list_drills(home, args)


def _start_drills(home: Path, args: argparse.Namespace) -> int:
    from grpo_wizard.tui.commands import _drills

    return _drills.start_drills(home, args)


def _end_drills(home: Path, args: argparse.Namespace) -> int:
    from grpo_wizard.tui.commands import _drills

    return _drills.end_drills(home, args)
