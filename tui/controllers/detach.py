"""Running a command in a process of its own, which survives when this terminal closes."""

from __future__ import annotations

import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_wizard.state.home import Home
from grpo_wizard.steps.engine.options import ApplyOptions, RunOptions


def start_detached(
    home: Home, name: str, args: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[int, Path]:
    """Run `grpo-wizard ARGS` for a deployment. Returns its process id and the file that holds its output."""
    log = home.folder(name) / "apply.log"
    with log.open("ab") as out:
        log.chmod(0o600)
        child = subprocess.Popen(
            [sys.executable, "-m", __name__, *args],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=None if environment is None else dict(environment),
        )
    return child.pid, log


def run_args(options: RunOptions, deployment: str) -> list[str]:
    """The arguments of `grpo-wizard` that start the same run in another process."""
    if isinstance(options, ApplyOptions):
        return ["apply", "--yes", *_apply_args(options)]
    args = ["destroy", "--confirm", deployment]
    for step in sorted(options.keep):
        args += ["--keep", step]
    return args + (["--delete-project", options.delete_project] if options.delete_project else [])


def _apply_args(options: ApplyOptions) -> list[str]:
    args = ["--adopt"] if options.adopt else []
    for id in options.replace:
        args += ["--replace", id]
    args += ["--skip-checks"] if options.skip_checks else []
    valued = {
        "--until": options.until or None,
        "--max-usd-per-hour": options.max_usd_per_hour,
        "--max-usd": options.max_usd,
    }
    return args + [word for flag, value in valued.items() if value is not None for word in (flag, f"{value}")]


def _run_with_default_signals() -> None:
    """Run the command; SIGINT interrupts it even where the parent ignores SIGINT (a background job, some CI runners)."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runpy.run_module("grpo_wizard", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run_with_default_signals()
