"""The command line: argparse only, so that `--help` loads nothing heavy. Each command's room is imported when it is called."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

_PURPOSE = """From an empty Google Cloud project to a GRPO run that is provably learning, resumable at every point,
with nothing left behind and nothing spent by surprise.

Without a command the wizard opens on the terminal. `grpo-wizard rehearse` shows it all, free and with no account."""

_EXIT_CODES = """exit codes: 0 done; 1 a value was refused, a check blocks, the plan holds a conflict, an operation failed, or
health is warning or critical; 2 wrong usage; 130 interrupted"""

AddArguments = Callable[[argparse.ArgumentParser], None]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grpo-wizard",
        description=_PURPOSE,
        epilog=_EXIT_CODES,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    _add_plain_option(parser)
    _add_common_options(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (purpose, add) in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=purpose,
            description=purpose[0].upper() + purpose[1:] + ".",
            epilog=_EXIT_CODES,
            allow_abbrev=False,
        )
        _add_common_options(command, again=True)
        add(command)
    return parser


class _Version(argparse.Action):
    """Asks for the version only when it is wanted: importlib.metadata costs as much as argparse itself."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"grpo-wizard {version('grpo-wizard')}")
        parser.exit()


def _add_plain_option(parser: argparse.ArgumentParser, again: bool = False) -> None:
    """Of what opens the wizard; given before or after the command's name."""
    parser.add_argument(
        "--plain",
        action="store_true",
        default=argparse.SUPPRESS if again else False,
        help="questions and lines instead of the full screen (screen readers, serial lines)",
    )


def _add_common_options(parser: argparse.ArgumentParser, again: bool = False) -> None:
    """Options of every command; given before or after the command's name."""
    default = argparse.SUPPRESS if again else None
    parser.add_argument(
        "--rehearse",
        action="store_true",
        default=argparse.SUPPRESS if again else False,
        help="talk to the rehearsal on this machine instead of Google Cloud",
    )
    parser.add_argument(
        "--speed",
        metavar="X",
        default=default,
        help="how many times faster than real life a rehearsal runs, or max (default 120)",
    )
    parser.add_argument(
        "--deployment",
        metavar="NAME",
        default=default,
        help="which deployment; may be left out where there is only one",
    )
    parser.add_argument(
        "--home",
        metavar="DIR",
        default=default,
        help="where state is kept (default: GRPO_WIZARD_HOME or the user's state folder)",
    )
    parser.add_argument(
        "--drill",
        metavar="NAME",
        action="append",
        default=default,
        help="in a rehearsal: begin with this trouble (`rehearsal drills` lists them); may be given again",
    )


def _add_json_option(parser: argparse.ArgumentParser, form: str = "one JSON document on stdout") -> None:
    parser.add_argument("--json", action="store_true", help=form)


def _init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--answers",
        metavar="FILE",
        action="append",
        default=[],
        help="answers as TOML; given again, the later file is laid over the earlier",
    )
    parser.add_argument(
        "--from-env",
        action="store_true",
        help="take the tutorial's own variables (PROJECT_ID, NODE_ZONE …) from the environment",
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="the state was lost: look at the cloud, and go on under the one mark that everything of these names bears",
    )
    parser.add_argument(
        "--keys", action="store_true", help="list every answer: its key, its default, what it means"
    )
    parser.add_argument(
        "--set",
        metavar="STEP.FIELD=VALUE",
        action="append",
        default=[],
        help="one answer; may be given again",
    )


def _apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="you have seen the plan and its price")
    parser.add_argument("--adopt", action="store_true", help="take over things of the same name that fit")
    parser.add_argument(
        "--replace",
        metavar="ID",
        action="append",
        default=[],
        help="delete and re-create this Lustre, cluster, PV or PVC",
    )
    parser.add_argument("--until", metavar="STEP", help="all resources up to and with this step")
    parser.add_argument("--wait", action="store_true", help="go on until the job has ended")
    parser.add_argument(
        "--detach", action="store_true", help="go on in the background; `status` and `logs` show it"
    )
    parser.add_argument(
        "--max-usd-per-hour", metavar="X", type=float, help="do not start what would cost more"
    )
    parser.add_argument(
        "--max-usd",
        metavar="X",
        type=float,
        help="start nothing more once so much is spent (default: the answer project.max_usd)",
    )
    parser.add_argument("--skip-checks", action="store_true", help="start although a check blocks")
    _add_json_option(parser, "one JSON object a line")


def _destroy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--confirm", metavar="NAME", help="the deployment's name")
    parser.add_argument(
        "--keep",
        metavar="STEP",
        action="append",
        default=[],
        choices=["lustre"],
        help="leave this step's things (lustre)",
    )
    parser.add_argument(
        "--delete-project",
        metavar="ID",
        help="delete this project too; only one that this deployment created",
    )
    _add_json_option(parser, "one JSON object a line")


def _metrics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="source", metavar="LOGFILE", help="of a saved log; - reads standard input"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="comma-separated values")
    _add_json_option(form)  # type: ignore[arg-type]


def _health(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="LOGFILE",
        nargs="?",
        help="a saved NeMo RL log instead of the job's; - reads standard input",
    )
    _add_json_option(parser)


def _wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", metavar="S", type=float, help="give up after so many seconds")
    _add_json_option(parser)


def _logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--follow", action="store_true", help="go on until the job has ended")


def _dashboard(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=8265, help="local port (default 8265)")


def _no_options(parser: argparse.ArgumentParser) -> None:
    """No option of its own."""


def _rehearse(parser: argparse.ArgumentParser) -> None:
    _add_plain_option(parser, again=True)
    _add_json_option(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", help="write there instead of to stdout")
    parser.add_argument(
        "--answers",
        action="store_true",
        help="the answer file that repeats this deployment, instead of the script",
    )


_REHEARSAL = """The stand-in for Google Cloud on this machine. Any command with --rehearse starts it where none runs.

  serve      run it in this terminal until Ctrl+C; one JSON line says where it is
  status     whether one runs, where, how fast, and which drills run
  stop       end it and all that it started; its world is kept
  drills     list what can go wrong in it: what happens, when it is felt, what it stands for
  drill      begin the drills that are named (rehearsal drill stock-out), and the rehearsal where none runs
  end-drill  end the drills that are named, or all of them

NAME is a drill's name, as `rehearsal drills` lists them."""


def _rehearsal(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.formatter_class = _REHEARSAL, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "what",
        choices=["serve", "status", "stop", "drills", "drill", "end-drill"],
        help="what to do; see above",
    )
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="drill: which drills to begin; end-drill: which to end (none: all)",
    )
    parser.add_argument("--port", type=int, default=0, help="serve: where it listens; 0 takes a free one")
    parser.add_argument("--faults", metavar="FILE", help="serve: JSON list of what shall go wrong")
    parser.add_argument(
        "--env-file",
        metavar="FILE",
        help="serve: write there what lets gcloud, kubectl and grpo-wizard --rehearse use it (`. FILE`); "
        "without --rehearse the wizard still works on the real Google Cloud",
    )
    parser.add_argument("--record", metavar="FILE", help="serve: write each request there as a JSON line")
    parser.add_argument(
        "--ray", choices=["real", "none"], default="real", help="serve: none: no Ray head is ever started"
    )
    parser.add_argument(
        "--idle",
        metavar="MINUTES",
        type=float,
        default=30.0,
        help="serve: end after so long without a request (default 30, 0: never)",
    )
    _add_json_option(parser, "status, drills: one JSON document on stdout (status without a terminal always)")


COMMANDS: dict[str, tuple[str, AddArguments]] = {
    "init": ("checkpoint answers; all that is wrong with them at once", _init),
    "check": ("look whether it can work, before anything is made", _add_json_option),
    "plan": ("what apply would do, its cost per hour and its expected time", _add_json_option),
    "apply": ("make what is missing; run it again to resume", _apply),
    "wait": (
        "wait until the job ends",
        _wait,
    ),
    "status": ("the cloud as it is, drift, and the job", _add_json_option),
    "logs": ("the job's log, raw", _logs),
    "metrics": ("one row a training step, of the job or of a saved log", _metrics),
    "health": ("a diagnosis of the job, or of a saved log", _health),
    "checkpoints": ("step_N with completeness and size", _add_json_option),
    "stop": ("stop the job and keep the machines", _add_json_option),
    "destroy": ("take down what this deployment made, and nothing else", _destroy),
    "export": (
        "the same deployment as a bash script of gcloud and kubectl commands, or as an answer file",
        _export,
    ),
    "credentials": ("write the kubeconfig entry that get-credentials would", _no_options),
    "dashboard": (
        "keep the Ray dashboard forwarded on loopback",
        _dashboard,
    ),
    "rehearse": ("the tutorial's own deployment, rehearsed from start to end", _rehearse),
    "rehearsal": (
        "the stand-in for Google Cloud: serve, status, stop; and what goes wrong in it: drills, drill, end-drill",
        _rehearsal,
    ),
}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """What a command line means."""
    return _parser().parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns its exit code; wrong usage ends with 2."""
    arguments = parse(sys.argv[1:] if argv is None else argv)
    _use_utf8()
    room = arguments.command or "wizard"
    try:
        _validate_speed(arguments.speed)
        _start_drills(arguments)
        code: int = import_module(f"grpo_wizard.tui.commands.{room}").run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        again = shlex.join(["grpo-wizard", *(sys.argv[1:] if argv is None else argv)])
        print(
            f"interrupted: what runs in the cloud goes on there; the same command goes on here: {again}",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `| head` ends quietly
        return 0
    except Exception as error:
        return _print_error(error, arguments)


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


def _use_utf8() -> None:
    """A terminal that cannot show a sign gets `?`, one that types another code page a refusal; neither gets a crash."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="surrogateescape")


def _print_error(error: Exception, args: argparse.Namespace) -> int:
    """What happened, why, the one fix; never a traceback for what was foreseen."""
    from grpo_wizard.state.errors import WizardError

    if not isinstance(error, WizardError):
        raise error
    from grpo_wizard.tui.commands._output import print_error

    print_error(error, args)
    return error.exit_code
