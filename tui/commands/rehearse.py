"""`rehearse`: the tutorial's own deployment from start to end, free and with no account. As lines without a terminal."""

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
    """On a terminal the wizard with the tutorial's values filled in; without one the whole road as lines."""
    from grpo_wizard.tui.commands.wizard import is_interactive, open_app

    if is_interactive() and not args.json:
        return open_app(args, args.deployment or _NAME, rehearse=True)
    return _run_stages(args)


def _run_stages(args: argparse.Namespace) -> int:
    """init, check, apply --wait, metrics, health, destroy; 0 when all held. The first that fails ends it, and what stands stays to be looked at."""
    stages = demo_stages(args)
    for number, (title, words) in enumerate(stages, 1):
        if not args.json:
            print(f"\n{number}/{len(stages)} {title}: grpo-wizard {shlex.join(words)}", flush=True)
        code = _run_stage(args, words)
        if code:
            return code
    process.stop(Path(home_of(args).root))
    return 0


def demo_stages(args: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """(title, the command's own words) of each stage: what anybody could type."""
    name = args.deployment or _NAME
    same = ["--rehearse", "--deployment", name]
    stages = [
        ("the tutorial's answers", ["init", "--answers", _answers_file()]),
        ("can it work?", ["check"]),
        ("what will be made", ["plan"]),
        ("making it, and training", ["apply", "--yes", "--wait"]),
        ("what the training says", ["metrics"]),
        ("how it is", ["health"]),
        ("taking it down", ["destroy", "--confirm", name]),
    ]
    return [(title, [*words, *same]) for title, words in stages]


def _run_stage(args: argparse.Namespace, arguments: list[str]) -> int:
    """One stage in this process, through the parser as if it had been typed."""
    typed = parse(arguments)
    typed.home, typed.speed = args.home, args.speed
    if hasattr(typed, "json"):
        typed.json = args.json
    code: int = import_module(f"grpo_wizard.tui.commands.{typed.command}").run(typed)
    return code


def _answers_file() -> str:
    return str(files("grpo_wizard.assets").joinpath("answers-tutorial.toml"))
