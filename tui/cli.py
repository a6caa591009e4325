"""The command line. Only argparse is imported, so that `--help` stays fast; a command's module is imported when it runs."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module

from grpo_wizard.tui.commands._parser import parse

_MUTATING = ("apply", "destroy")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _set_stream_errors()
    arguments = parse(words)
    module = arguments.command or "wizard"
    try:
        _validate_speed(arguments.speed)
        _start_drills(arguments)
        code: int = import_module(f"grpo_wizard.tui.commands.{module}").run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(_interrupted_text(arguments.command, words), file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `| head` ends quietly
        return 0
    except Exception as error:
        return _print_error(error, arguments)


def _interrupted_text(command: str | None, words: Sequence[str]) -> str:
    pending = " Operations already started in the cloud will finish." if command in _MUTATING else ""
    return f"Interrupted.{pending} To continue: {shlex.join(['grpo-wizard', *words])}"


def _validate_speed(speed: str | None) -> None:
    if speed is not None:
        from grpo_wizard.state.errors import CommandUsageError
        from grpo_wizard.steps.emulator import process

        try:
            process.normalize_speed(speed)
        except process.EmulatorError as error:
            raise CommandUsageError(str(error)) from error


def _start_drills(arguments: argparse.Namespace) -> None:
    if arguments.drill and arguments.command != "rehearsal":
        from grpo_wizard.tui.controllers.drills import start_requested_drills

        start_requested_drills(arguments)


def _set_stream_errors() -> None:
    """Keep text outside the terminal's encoding from raising: output shows `?`, input is validated where it is used."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="surrogateescape")


def _print_error(error: Exception, args: argparse.Namespace) -> int:
    """Print a foreseen error and return its exit code. Re-raise any other, with its traceback."""
    from grpo_wizard.state.errors import WizardError

    if not isinstance(error, WizardError):
        raise error
    from grpo_wizard.tui.commands._output import print_error

    print_error(error, args)
    return error.exit_code
