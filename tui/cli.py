"""The command line. Only argparse is imported, so that `--help` stays fast; a command's module is imported when it runs."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NoReturn

from grpo_wizard.tui.commands._arguments import (
    COMMANDS,
    REHEARSAL_COMMANDS,
    CommandSpec,
    add_common_options,
    add_plain_option,
)

_PURPOSE = """Run GRPO training (NeMo RL on Ray on GKE) in your own Google Cloud project:
guided, monitored, resumable at every point, and fully removed afterwards.

Without a command, the wizard opens in the terminal. `grpo-wizard rehearse`
shows all of it on this machine, free and without an account."""

_REHEARSAL_PURPOSE = """Control the emulator that stands in for Google Cloud on this machine, and its
failure drills. Any command with --rehearse starts the emulator if necessary."""

_EXIT_CODES = """exit codes: 0 success; 1 invalid settings, a failed check or operation,
a conflict in the plan, or a health warning; 2 wrong usage; 130 interrupted"""

_MUTATING = ("apply", "destroy")


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage like any other error: what is wrong, and the command that helps."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"Error: {message}\n  Command: {self.prog} --help\n")


def _build_parser() -> _Parser:
    parser = _Parser(
        prog="grpo-wizard",
        description=_PURPOSE,
        epilog=_EXIT_CODES,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    add_plain_option(parser)
    commands = _add_commands(parser, "command", COMMANDS)
    add_common_options(parser)
    rehearsal = commands["rehearsal"]
    rehearsal.description = _REHEARSAL_PURPOSE
    _add_commands(rehearsal, "action", REHEARSAL_COMMANDS, required=True)
    return parser


def _add_commands(
    parser: _Parser, dest: str, table: Mapping[str, CommandSpec], *, required: bool = False
) -> dict[str, _Parser]:
    """Add a sub-parser for each row of `table`. Return them by name."""
    group = parser.add_subparsers(title="commands", dest=dest, metavar="COMMAND", required=required)
    added: dict[str, _Parser] = {}
    for name, spec in table.items():
        command = group.add_parser(
            name,
            help=spec.purpose,
            description=spec.purpose[0].upper() + spec.purpose[1:] + ".",
            epilog=_EXIT_CODES,
            allow_abbrev=False,
        )
        spec.add_options(command)
        add_common_options(command, is_subcommand=True, shown=spec.common_options)
        command.set_defaults(parser=command)
        added[name] = command
    return added


class _Version(argparse.Action):
    """Looks the version up only when it is asked for: importlib.metadata costs as much as argparse itself."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"grpo-wizard {version('grpo-wizard')}")
        parser.exit()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. Wrong usage exits with 2."""
    parser = _build_parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        command: argparse.ArgumentParser = getattr(arguments, "parser", parser)
        command.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


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
