"""The wizard in a real terminal (tmux) at 80 by 24, by keyboard, with resizes; and what the first paint imports."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from emulator_server import start_emulator

from grpo_wizard.steps.emulator import process

_HEAVY = ("google", "googleapiclient", "kubernetes", "ray", "aiohttp", "numpy")
_FIRST_PAINT = """
import asyncio, sys
from pathlib import Path
from grpo_wizard.state.home import Home
from grpo_wizard.tui.app import Wizard
class Seen(Wizard):
    def _load_clients(self):
        print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
        self.exit(0)
async def main():
    async with Seen(Home(Path(sys.argv[1]))).run_test() as pilot:
        await pilot.pause(0.3)
asyncio.run(main())
"""


def test_first_paint_comes_before_any_sdk_import(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_PAINT, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "textual" in loaded
    assert loaded & set(_HEAVY) == set()


class Terminal:
    """A tmux server of its own, the only one that is killed."""

    def __init__(self, name: str, command: str, env: dict[str, str]) -> None:
        self._tmux = ["tmux", "-L", name, "-f", "/dev/null"]
        bare = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "TMUX")}
        self._env = {**bare, **env, "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        settings = [f"-e{key}={value}" for key, value in env.items()]
        self._do("new-session", "-d", "-s", "wizard", "-x", "80", "-y", "24", *settings, command)
        self._do("set-option", "-g", "remain-on-exit", "on")

    def _do(self, *words: str) -> str:
        done = subprocess.run(
            [*self._tmux, *words], env=self._env, capture_output=True, text=True, timeout=20
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def keys(self, *names: str) -> None:
        self._do("send-keys", "-t", "wizard", *names)

    def text(self) -> str:
        return self._do("capture-pane", "-p", "-t", "wizard")

    def resize(self, width: int, height: int) -> None:
        self._do("resize-window", "-t", "wizard", "-x", str(width), "-y", str(height))

    def until(self, *words: str, patience: float = 60.0, gone: bool = False) -> str:
        """Wait until all words are on the screen, or with `gone` until none is."""
        end = time.monotonic() + patience
        while True:
            text = self.text()
            if all((word in text) != gone for word in words):
                return text
            assert time.monotonic() < end, f"waited for {words}; there is:\n{text}"
            time.sleep(0.1)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], env=self._env, capture_output=True, timeout=20)


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[[Path], Terminal]]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    opened: list[Terminal] = []

    def open_it(home: Path) -> Terminal:
        command = shlex.join(
            [sys.executable, "-m", "grpo_wizard", "rehearse", "--home", str(home), "--speed", "max"]
        )
        terminal = Terminal(f"wiz{os.getpid()}", command, {"HF_TOKEN": "", "GRPO_WIZARD_HOME": ""})
        opened.append(terminal)
        return terminal

    yield open_it
    for terminal in opened:
        terminal.close()


def test_keyboard_from_step_one_to_a_paused_run_with_resizes(
    open_terminal: Callable[[Path], Terminal], tmp_path: Path
) -> None:
    home = start_emulator(tmp_path / "home", ray="none").home
    try:
        terminal = open_terminal(home)
        terminal.until("REHEARSAL", "1 Project", "Step 1 of 7")
        for number, title in enumerate(("Quotas", "Networks", "Cluster", "Lustre"), 2):
            terminal.keys("Enter")
            terminal.until(f"Step {number} of 7: {title}")
        terminal.resize(120, 40)
        terminal.until("5 Lustre", "Review", "Monitor")
        terminal.keys("Enter")
        terminal.until("The name of the RayCluster in Kubernetes")
        terminal.resize(80, 24)
        terminal.until("Step 6 of 7: RayCluster")
        terminal.keys("Enter")
        terminal.until("Step 7 of 7: GRPO")
        terminal.keys("Enter")
        terminal.until("Review all answers", "Press l to launch", patience=120)
        terminal.keys("l")
        terminal.until("Deploying rehearsal", "working")
        terminal.resize(60, 20)
        terminal.until("Deploying rehearsal")
        terminal.resize(80, 24)
        terminal.until("cluster nemo-cluster", patience=120)
        terminal.keys("q")
        terminal.until("Continue in the background", "Pause")
        terminal.keys("Down", "Enter")
        text = terminal.until("rehearsal is paused", "Resume with", patience=120)
        assert "Traceback" not in text
    finally:
        process.stop(home)
