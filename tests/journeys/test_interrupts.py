"""SIGINT where the parent ignores it: a background job of a shell script, some CI runners."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
from cli_harness import clean_environment, cli_harness
from emulator_server import wait_until


def test_a_detached_apply_is_interrupted_where_its_parent_ignores_sigint(tmp_path: Path) -> None:
    with cli_harness(tmp_path / "home", speed="20") as harness:
        harness.init()
        command = [sys.executable, "-m", "grpo_wizard", *harness.cli_args("apply", "--yes", "--detach")]
        done = subprocess.run(
            ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command],
            capture_output=True,
            text=True,
            timeout=120,
            env=clean_environment(),
        )
        assert done.returncode == 0, done.stderr
        found = re.search(r"process (\d+)", done.stdout)
        assert found, done.stdout
        detached = psutil.Process(int(found[1]))
        wait_until(lambda: any(r["request_id"] for r in harness.state()["resources"].values()), 60)
        os.kill(detached.pid, signal.SIGINT)
        wait_until(lambda: not detached.is_running() or detached.status() == psutil.STATUS_ZOMBIE, 60)
        log = (harness.home / "deployments" / "nemo-cluster" / "apply.log").read_text()
        assert "interrupted" in log.lower() and "Traceback" not in log, log[-2000:]
