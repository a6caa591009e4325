"""`rehearse`: the tutorial's deployment from start to end on the emulator, in the wizard or without a terminal as text."""

from __future__ import annotations

import argparse
import shlex
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from grpo_wizard.steps.emulator import process
from grpo_wizard.tui.commands._parser import parse
from grpo_wizard.tui.commands._session import home_of

_NAME = "rehearsal"


def run(args: argparse.Namespace) -> int:
    """Open the wizard with the tutorial's values on a terminal; otherwise run all stages and print text."""
    from grpo_wizard.tui.commands.wizard import is_interactive, open_app

    if is_interactive() and not args.json:
        return open_app(args, args.deployment or _NAME, rehearse=True)
    return _run_stages(args)


def _run_stages(args: argparse.Namespace) -> int:
    """Run the stages until one fails. Return its exit code; its resources are kept for inspection."""
    stages = demo_stages(args)
    for number, (title, arguments) in enumerate(stages, 1):
        if not args.json:
            print(f"\n{number}/{len(stages)} {title}: grpo-wizard {shlex.join(arguments)}", flush=True)
        code = _run_stage(args, arguments)
        if code:
            return code
    process.stop(Path(home_of(args).root))
    return 0


def demo_stages(args: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """Return title and command line of each stage."""
    name = args.deployment or _NAME
    selection = ["--rehearse", "--deployment", name]
    stages = [
        ("Save the tutorial's settings", ["init", "--answers", _answers_file()]),
        ("Run the preflight checks", ["check"]),
        ("Show the plan", ["plan"]),
        ("Create the resources and train", ["apply", "--yes", "--wait"]),
        ("Show the training metrics", ["metrics"]),
        ("Diagnose the training run", ["health"]),
        ("Delete the resources", ["destroy", "--confirm", name]),
    ]
    return [(title, [*arguments, *selection]) for title, arguments in stages]


def _run_stage(args: argparse.Namespace, arguments: list[str]) -> int:
    """Run one stage in this process, parsed as if it were typed."""
    parsed = parse(arguments)
    parsed.home, parsed.speed = args.home, args.speed
    if hasattr(parsed, "json"):
        parsed.json = args.json
    code: int = import_module(f"grpo_wizard.tui.commands.{parsed.command}").run(parsed)
    return code


def _answers_file() -> str:
    return str(files("grpo_wizard.assets").joinpath("answers-tutorial.toml"))
