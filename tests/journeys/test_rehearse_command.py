"""`grpo-wizard rehearse` without a terminal: the README's first command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cli_harness import clean_environment


def test_the_whole_road_goes_by_as_lines_and_ends_with_nothing_left(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "grpo_wizard", "rehearse", "--speed", "max", "--home", str(tmp_path / "home")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        env=clean_environment(),
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    assert "7/7 Delete the resources: grpo-wizard destroy" in done.stdout
    assert done.stdout.rstrip().endswith("No resources of this deployment remain.")
    assert "Health: healthy" in done.stdout
