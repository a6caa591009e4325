"""Driving plain mode as its users do: a terminal, lines in, lines out."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pexpect
from cli_harness import clean_environment

TIMEOUT_S = 60.0
PROMPT = re.compile(r"([^\r\n]*\): ?)$")


class PlainTerminal:
    """The real command on a pty. `seen` is all that it wrote, escape sequences and echoes too.

    As wide as a prompt is long: where lines end is no matter of the conversation.
    """

    def __init__(
        self, home: Path, *words: str, speed: str = "max", columns: int = 1000, **environment: str
    ) -> None:
        self.output = ""
        self._child: Any = pexpect.spawn(
            sys.executable,
            ["-m", "grpo_wizard", "--home", str(home), "--rehearse", "--speed", speed, *words],
            env=clean_environment(**{"TERM": "dumb", "LANG": "C.UTF-8", **environment}),
            encoding="utf-8",
            codec_errors="replace",
            timeout=TIMEOUT_S,
            dimensions=(24, columns),
        )
        self._child.delaybeforesend = None
        self._child.logfile_read = self

    def write(self, text: str) -> None:
        """What pexpect read."""
        self.output += text

    def flush(self) -> None:
        """Nothing is held back."""

    def wait_for(self, text: str, timeout: float = TIMEOUT_S) -> str:
        """Waits for this text; returns what came before it."""
        self._child.expect_exact(text, timeout=timeout)
        return str(self._child.before)

    def wait_for_prompt(self) -> str:
        """Waits for the next prompt; returns it."""
        self._child.expect(PROMPT)
        return str(self._child.match.group(1))

    def send_line(self, text: str) -> None:
        """Types a line."""
        self._child.sendline(text)

    def reply(self, prompt: str, text: str) -> None:
        """Waits for a prompt that holds this text, then types a line."""
        self.wait_for(prompt)
        self.wait_for_prompt()
        self.send_line(text)

    def interrupt(self) -> None:
        """ctrl+c"""
        self._child.sendintr()

    def wait_for_exit(self, timeout: float = TIMEOUT_S) -> int:
        """Waits for its end; the exit code."""
        self._child.expect(pexpect.EOF, timeout=timeout)
        self._child.close()
        return int(
            self._child.exitstatus if self._child.exitstatus is not None else -self._child.signalstatus
        )

    def kill(self) -> None:
        """Whatever it does."""
        self._child.close(force=True)

    def __enter__(self) -> PlainTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def accept_all_steps(terminal: PlainTerminal, keys: Sequence[str] = ("n", "g")) -> None:
    """All seven steps with the values that are there, up to Review."""
    for number in range(1, 8):
        terminal.wait_for(f"Step {number} of 7")
        while "/l)" not in (prompt := terminal.wait_for_prompt()):
            terminal.send_line("" if number == 1 else "!")
        terminal.send_line(keys[0] if "(n/" in prompt else keys[1])
    terminal.wait_for("Review.")
