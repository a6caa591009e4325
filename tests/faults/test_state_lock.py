"""The lock, between real processes: one holder, named; none left by kill -9."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grpo_wizard.state.errors import LockHeld
from grpo_wizard.state.home import Home
from grpo_wizard.state.lock import Lock, lock_owner

NAME = "nemo-cluster"
HOLD = """
import os, subprocess, sys, time
from pathlib import Path
from grpo_wizard.state.home import Home
from grpo_wizard.state.lock import Lock
with Lock(Home(Path(sys.argv[1])), "nemo-cluster", "grpo-wizard apply --yes"):
    heir = 0
    if sys.argv[2] == "fork":
        heir = os.fork()
        if not heir:
            time.sleep(60)
            os._exit(0)
    if sys.argv[2] == "spawn":
        heir = subprocess.Popen(["sleep", "60"]).pid
    print(heir, flush=True)
    time.sleep(60)
"""


def _hold(home: Home, heir: str = "none") -> tuple["subprocess.Popen[str]", int]:
    command = [sys.executable, "-c", HOLD, str(home.root), heir]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    return child, int(child.stdout.readline())


def _end(child: "subprocess.Popen[str]") -> None:
    child.kill()
    child.wait()
    if child.stdout:
        child.stdout.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.choose(str(tmp_path / "home"))


def test_a_second_process_is_refused_with_pid_host_command_and_since_when(home: Home) -> None:
    child, _ = _hold(home)
    try:
        with pytest.raises(LockHeld) as caught, Lock(home, NAME, "destroy"):
            pass
        error = caught.value
        assert (error.pid, error.host, error.owner_command) == (
            child.pid,
            socket.gethostname(),
            "grpo-wizard apply --yes",
        )
        assert all(part in error.detail for part in (str(child.pid), error.since, "grpo-wizard apply --yes"))
        seen = lock_owner(home, NAME)
        assert seen is not None and seen.pid == child.pid and seen.since == error.since
    finally:
        _end(child)


@pytest.mark.parametrize("heir", ["none", "spawn", "fork"])
def test_kill_9_leaves_no_lock_not_even_with_a_child_that_lives_on(home: Home, heir: str) -> None:
    child, heir_pid = _hold(home, heir)
    try:
        _end(child)
        if heir_pid:
            os.kill(heir_pid, 0)
        with Lock(home, NAME, "destroy"):
            seen = lock_owner(home, NAME)
            assert seen is not None and (seen.pid, seen.command) == (os.getpid(), "destroy")
        assert lock_owner(home, NAME) is None
    finally:
        if heir_pid:
            os.kill(heir_pid, signal.SIGKILL)


def test_a_second_lock_of_the_same_process_is_refused_too(home: Home) -> None:
    with Lock(home, NAME, "a"), pytest.raises(LockHeld), Lock(home, NAME, "b"):
        pass
    with Lock(home, NAME, "c"):
        pass


def test_a_look_makes_nothing_and_keeps_nobody_out(home: Home) -> None:
    assert lock_owner(home, NAME) is None
    assert not home.folder(NAME).exists()
    with Lock(home, NAME, "a"):
        pass
    looker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import sys; from pathlib import Path; from grpo_wizard.state.home import Home\n"
                "from grpo_wizard.state.lock import lock_owner\n"
                "print(flush=True)\n"
                "while True: lock_owner(Home(Path(sys.argv[1])), 'nemo-cluster')"
            ),
            str(home.root),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert looker.stdout is not None and looker.stdout.readline()
        until = time.monotonic() + 1
        while time.monotonic() < until:
            with Lock(home, NAME, "a"):
                pass
    finally:
        _end(looker)


def test_a_lock_with_a_damaged_signature_is_still_held(home: Home) -> None:
    with Lock(home, NAME, "a"):
        home.lock_file(NAME).write_text("{")
        with pytest.raises(LockHeld) as caught, Lock(home, NAME, "b"):
            pass
        assert caught.value.pid == 0 and "owner is unknown" in caught.value.detail
        assert lock_owner(home, NAME) is not None
