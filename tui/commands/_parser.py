"""The parser of the command line, built from the tables of `_arguments`. Imports nothing but argparse."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
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

Without a command, grpo-wizard opens the wizard in the terminal.
`grpo-wizard rehearse` runs the entire workflow on this machine, free of charge
and without an account."""

_REHEARSAL_PURPOSE = """Control the emulator that stands in for Google Cloud on this machine, and its
failure drills. Any command with --rehearse starts the emulator if necessary."""

_EXIT_CODES = """exit codes: 0 success; 1 invalid settings, a failed check or operation,
a conflict in the plan, or a health warning; 2 usage error; 130 interrupted"""


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
