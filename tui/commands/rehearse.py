"""`rehearse`: the tutorial's own deployment from start to end, free and with no account. As lines without a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from grpo_wizard.steps.rehearsal import life
from grpo_wizard.tui.opening import home_of

_NAME = "rehearsal"
Step = Callable[[argparse.Namespace], int]


def run(args: argparse.Namespace) -> int:
    """On a terminal the wizard with the tutorial's values filled in; without one the whole road as lines."""
    from grpo_wizard.tui.commands.wizard import on_a_terminal, open_app

    if on_a_terminal() and not args.json:
        return open_app(args, args.deployment or _NAME, rehearse=True)
    return _as_lines(args)


def _as_lines(args: argparse.Namespace) -> int:
    """init, check, apply --wait, metrics, health, destroy; 0 when all held. The first that fails ends it, and what stands stays to be looked at."""
    home = Path(home_of(args).root)
    road: list[tuple[str, str, dict[str, object]]] = [
        (
            "the tutorial's answers",
            "init",
            {"answers": _answers(), "from_env": False, "set": [], "take_over": False},
        ),
        ("can it work?", "check", {}),
        ("what will be made", "plan", {}),
        (
            "making it, and training",
            "apply",
            {
                "yes": True,
                "adopt": False,
                "replace": [],
                "until": None,
                "wait": True,
                "detach": False,
                "max_usd_per_hour": None,
                "skip_checks": False,
            },
        ),
        ("what the training says", "metrics", {"source": None, "csv": False}),
        ("how it is", "health", {"source": None}),
        (
            "taking it down",
            "destroy",
            {"confirm": args.deployment or _NAME, "keep": [], "delete_project": None},
        ),
    ]
    for number, (title, command, options) in enumerate(road, 1):
        if not args.json:
            print(f"\n{number}/{len(road)} {title}: grpo-wizard {command} --rehearse", flush=True)
        code = _one(args, command, options)
        if code:
            return code
    life.stop(home)
    return 0


def _one(args: argparse.Namespace, command: str, options: dict[str, object]) -> int:
    merged = {**vars(args), **options, "rehearse": True, "deployment": args.deployment or _NAME}
    code: int = import_module(f"grpo_wizard.tui.commands.{command}").run(argparse.Namespace(**merged))
    return code


def _answers() -> str:
    return str(files("grpo_wizard.assets").joinpath("answers-tutorial.toml"))
