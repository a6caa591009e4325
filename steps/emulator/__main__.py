"""`python -m grpo_wizard.steps.emulator serve | status | stop`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_wizard.steps.emulator import process

if TYPE_CHECKING:
    from grpo_wizard.steps.emulator.server.serve import ServerOptions


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m grpo_wizard.steps.emulator",
        description="Local Google Cloud emulator on the loopback interface.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("serve", "status", "stop"):
        command = commands.add_parser(name)
        command.add_argument(
            "--home",
            type=Path,
            help="home folder (default: GRPO_WIZARD_HOME, or the platform's user state folder)",
        )
        if name == "serve":
            _add_serve_options(command)
    return parser


def _add_serve_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 picks a free one")
    parser.add_argument(
        "--speed",
        default=process.DEFAULT_SPEED,
        help="factor by which durations are shortened; max skips them (default: %(default)s)",
    )
    parser.add_argument("--faults", type=Path, help="file with a JSON list of requests that should fail")
    parser.add_argument("--record", type=Path, help="file to which each request is appended as a JSON line")
    parser.add_argument("--drill", action="append", default=[], help="start this drill; can be repeated")
    parser.add_argument(
        "--env-file", type=Path, help="write the environment variables to this file as shell exports"
    )
    parser.add_argument("--ray", choices=("real", "none"), default="real")
    parser.add_argument(
        "--idle",
        type=float,
        default=30.0,
        help="minutes without a request before the server exits; 0 disables (default: %(default)g)",
    )
    parser.add_argument(
        "--check-answers",
        action="store_true",
        help="validate every response against the discovery documents (see /_rehearsal/answers)",
    )


def resolve_home(home: Path | None) -> Path:
    """Return the home folder to use."""
    if home is not None or os.environ.get("GRPO_WIZARD_HOME"):
        return (home or Path(os.environ["GRPO_WIZARD_HOME"])).absolute()
    from platformdirs import user_state_path

    return user_state_path("grpo-wizard")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return 0, or 1 with an error on stderr."""
    args = _parser().parse_args(argv)
    home = resolve_home(args.home)
    try:
        if args.command == "serve":
            return _serve(args, home)
        if args.command == "status":
            print(json.dumps(process.status(home)))
        else:
            print(json.dumps({"stopped": process.stop(home)}))
    except (process.EmulatorError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _serve(args: argparse.Namespace, home: Path) -> int:
    from grpo_wizard.steps.emulator.server.serve import ServerOptions

    serve(
        ServerOptions(
            home,
            args.speed,
            args.port,
            args.faults,
            args.record,
            args.env_file,
            args.ray,
            args.idle,
            args.check_answers,
            tuple(args.drill),
        )
    )
    return 0


def serve(options: ServerOptions) -> None:
    """Run the server in this process until it ends: its address on stdout, its log on stderr.

    Raises what `serve.run_server` raises.
    """
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    from grpo_wizard.steps.emulator.server.serve import run_server

    run_server(options, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
