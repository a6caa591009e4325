"""The same command in a process of its own, which lives on when this terminal closes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_wizard.state.home import Home


def start_detached(
    home: Home, name: str, args: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[int, Path]:
    """Runs `grpo-wizard <words>` for a deployment. Returns its process id and the file that holds what it says."""
    log = home.folder(name) / "apply.log"
    with log.open("ab") as out:
        log.chmod(0o600)
        child = subprocess.Popen(
            [sys.executable, "-m", "grpo_wizard", *args],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=None if environment is None else dict(environment),
        )
    return child.pid, log
