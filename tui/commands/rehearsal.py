"""`rehearsal`: the stand-in for Google Cloud as a process of its own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from grpo_wizard.state.errors import WrongUsage
from grpo_wizard.steps.rehearsal import life
from grpo_wizard.tui.opening import home_of


def run(args: argparse.Namespace) -> int:
    home = Path(home_of(args).root)
    try:
        return {"serve": _serve, "status": _status, "stop": _stop}[args.what](home, args)
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
    for name in args.drill:
        words += ["--drill", name]
    return main(words)


def _status(home: Path, args: argparse.Namespace) -> int:
    print(json.dumps(life.status(home)))
    return 0


def _stop(home: Path, args: argparse.Namespace) -> int:
    print("stopped" if life.stop(home) else "no rehearsal was running")
    return 0
