"""The commands with their one-line help and their options. Only argparse is imported, so that `--help` stays fast."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import NamedTuple

AddArguments = Callable[[argparse.ArgumentParser], None]
_REPEATABLE = "can be repeated"
_STDIN = "- for standard input"

COMMON_OPTIONS = {
    "--rehearse": ("", "store_true", "use the emulator on this machine instead of Google Cloud"),
    "--speed": ("X", "store", "rehearsal speed as a multiple of real time, or max (default: 120)"),
    "--deployment": ("NAME", "store", "deployment to use; optional if there is only one"),
    "--home": (
        "DIR",
        "store",
        "folder for saved state (default: $GRPO_WIZARD_HOME, or the user's state folder)",
    ),
    "--drill": ("NAME", "append", f"start a failure drill (see `rehearsal drills`); {_REPEATABLE}"),
}
"""Option -> placeholder of its value, argparse action, help."""


class CommandSpec(NamedTuple):
    """A command: its one-line help, what adds its own options, and the common options that its help lists."""

    purpose: str
    add_options: AddArguments
    common_options: Collection[str] = COMMON_OPTIONS


def add_plain_option(parser: argparse.ArgumentParser, is_subcommand: bool = False) -> None:
    """Add `--plain`, which the wizard takes before and `rehearse` also after the command's name."""
    parser.add_argument(
        "--plain",
        action="store_true",
        default=argparse.SUPPRESS if is_subcommand else False,
        help="prompt line by line, for screen readers and serial consoles",
    )


def add_common_options(
    parser: argparse.ArgumentParser, is_subcommand: bool = False, shown: Collection[str] = COMMON_OPTIONS
) -> None:
    """Add the options of every command. They may precede or follow the command's name: the later one wins.

    Those that are not `shown` in its help do not affect the command, which accepts them all the same.
    """
    group = parser.add_argument_group("common options")
    for option, (metavar, action, help_text) in COMMON_OPTIONS.items():
        default = argparse.SUPPRESS if is_subcommand else False if action == "store_true" else None
        group.add_argument(
            option,
            action=action,
            default=default,
            help=help_text if option in shown else argparse.SUPPRESS,
            **({"metavar": metavar} if metavar else {}),  # type: ignore[arg-type]
        )


def _add_json_option(parser: argparse.ArgumentParser, help_text: str = "print one JSON document") -> None:
    parser.add_argument("--json", action="store_true", help=help_text)


def _add_json_lines_option(parser: argparse.ArgumentParser) -> None:
    _add_json_option(parser, "print one JSON object per line")


def _no_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has common options only."""


def _init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--answers",
        metavar="FILE",
        action="append",
        default=[],
        help=f"TOML file with settings; {_REPEATABLE}, with later files overriding earlier ones",
    )
    parser.add_argument(
        "--from-env",
        action="store_true",
        help="read settings from the tutorial's environment variables (PROJECT_ID, NODE_ZONE, …)",
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="recover a lost state file from the ownership labels found in the project",
    )
    parser.add_argument(
        "--keys", action="store_true", help="list all settings with their defaults and descriptions"
    )
    parser.add_argument(
        "--set",
        metavar="STEP.FIELD=VALUE",
        action="append",
        default=[],
        help=f"value of one setting; {_REPEATABLE}",
    )


def _apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="confirm the plan and its price (required)")
    parser.add_argument(
        "--adopt", action="store_true", help="use existing resources that match the configuration"
    )
    parser.add_argument(
        "--replace",
        metavar="ID",
        action="append",
        default=[],
        help=f"delete and re-create this cluster, Lustre instance, PV or PVC; {_REPEATABLE}",
    )
    parser.add_argument("--until", metavar="STEP", help="stop after this step")
    parser.add_argument("--wait", action="store_true", help="wait until the job ends")
    parser.add_argument(
        "--detach", action="store_true", help="run in the background; follow the run with `status` and `logs`"
    )
    parser.add_argument(
        "--max-usd-per-hour",
        metavar="X",
        type=float,
        help="do not start if the hourly price would exceed this amount",
    )
    parser.add_argument(
        "--max-usd",
        metavar="X",
        type=float,
        help="stop creating resources once this much has been spent (default: project.max_usd)",
    )
    parser.add_argument("--skip-checks", action="store_true", help="proceed even if a preflight check fails")
    _add_json_lines_option(parser)


def _destroy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--confirm", metavar="NAME", help="name of the deployment to destroy (required)")
    parser.add_argument(
        "--keep",
        metavar="STEP",
        action="append",
        default=[],
        choices=["lustre"],
        help="keep this step's resources (lustre)",
    )
    parser.add_argument(
        "--delete-project", metavar="ID", help="delete this project too, if this deployment created it"
    )
    _add_json_lines_option(parser)


def _metrics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="source", metavar="LOGFILE", help=f"read a saved log instead of the job's ({_STDIN})"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print comma-separated values")
    _add_json_option(form)  # type: ignore[arg-type]


def _health(parser: argparse.ArgumentParser) -> None:
    parser.add_argument_group("arguments").add_argument(
        "source",
        metavar="LOGFILE",
        nargs="?",
        help=f"saved NeMo RL log to diagnose instead of the job's ({_STDIN})",
    )
    _add_json_option(parser)


def _wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", metavar="S", type=float, help="give up after this many seconds")
    _add_json_lines_option(parser)


def _logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--follow", action="store_true", help="keep printing new lines until the job ends")


def _dashboard(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=8265, help="local port (default: %(default)s)")


def _rehearse(parser: argparse.ArgumentParser) -> None:
    add_plain_option(parser, is_subcommand=True)
    _add_json_option(parser, "print each command's output as JSON instead of text")


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", help="write to this file instead of standard output")
    parser.add_argument("--answers", action="store_true", help="write an answer file instead of a script")


def _serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--faults", metavar="FILE", help="file with a JSON list of requests that should fail")
    parser.add_argument(
        "--env-file",
        metavar="FILE",
        help="write the environment variables for gcloud, kubectl and grpo-wizard --rehearse to this file "
        "(load it with `. FILE`); without --rehearse, the wizard still uses Google Cloud",
    )
    parser.add_argument("--record", metavar="FILE", help="append each request to this file as a JSON line")
    parser.add_argument(
        "--ray",
        choices=["real", "none"],
        default="real",
        help="whether to start Ray heads; none never starts one (default: real)",
    )
    parser.add_argument(
        "--idle",
        metavar="MINUTES",
        type=float,
        default=30.0,
        help="exit after this many minutes without a request; 0 means never (default: %(default)g)",
    )


def _drill(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("arguments")
    group.add_argument("names", metavar="NAME", nargs="*", help="drills to start (at least one)")
    _add_json_option(parser)


def _end_drill(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("arguments")
    group.add_argument("names", metavar="NAME", nargs="*", help="drills to end (default: all active ones)")
    _add_json_option(parser)


def _rehearsal_status(parser: argparse.ArgumentParser) -> None:
    _add_json_option(parser, "print one JSON document (default unless standard output is a terminal)")


COMMANDS: dict[str, CommandSpec] = {
    "init": CommandSpec("validate and save the settings; report all errors at once", _init),
    "check": CommandSpec("run preflight checks without creating anything", _add_json_option),
    "plan": CommandSpec(
        "show what apply would do, what it would cost and how long it would take", _add_json_option
    ),
    "apply": CommandSpec("create or update resources; safe to re-run", _apply),
    "wait": CommandSpec("wait until the job ends", _wait),
    "status": CommandSpec("show resources, drift and the job", _add_json_option),
    "logs": CommandSpec("print the job's log", _logs),
    "metrics": CommandSpec("print one row per training step, from the job or a saved log", _metrics),
    "health": CommandSpec("diagnose the job or a saved log", _health),
    "checkpoints": CommandSpec("list checkpoints with their size and completeness", _add_json_option),
    "stop": CommandSpec("stop the job but keep its nodes running", _add_json_option),
    "destroy": CommandSpec("delete what this deployment created, and nothing else", _destroy),
    "export": CommandSpec("write a script of gcloud and kubectl commands, or an answer file", _export),
    "credentials": CommandSpec("add the cluster to your kubeconfig", _no_options),
    "dashboard": CommandSpec("forward the Ray dashboard to this machine", _dashboard),
    "rehearse": CommandSpec("rehearse the tutorial's deployment from start to finish", _rehearse),
    "rehearsal": CommandSpec("control the emulator and its failure drills", _no_options),
}
"""The commands in the order of the help."""

REHEARSAL_COMMANDS: dict[str, CommandSpec] = {
    "serve": CommandSpec(
        "run the emulator in this terminal until Ctrl+C", _serve, ("--speed", "--home", "--drill")
    ),
    "status": CommandSpec("show whether the emulator is running, and where", _rehearsal_status, ("--home",)),
    "stop": CommandSpec("stop the emulator but keep its state", _no_options, ("--home",)),
    "drills": CommandSpec(
        "list the drills: what each one does, when it takes effect, and its source",
        _add_json_option,
        ("--home",),
    ),
    "drill": CommandSpec("start drills, and the emulator if necessary", _drill, ("--speed", "--home")),
    "end-drill": CommandSpec("end drills", _end_drill, ("--speed", "--home")),
}
"""The commands after `rehearsal`."""
