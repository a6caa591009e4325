"""`rehearsal serve`, `status` and their help as somebody at a terminal meets them; programs get what they always got."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import clean_environment
from emulator_server import EmulatorServer

from grpo_wizard.tui.commands.rehearsal import format_status

WIZARD = [sys.executable, "-m", "grpo_wizard", "rehearsal"]


def ran(home: Path, *words: str, on_terminal: bool = False) -> subprocess.CompletedProcess[str]:
    """One command; `on_terminal`: its stdout is one."""
    environment = clean_environment(GRPO_WIZARD_HOME=str(home), LANG="C.UTF-8")
    if not on_terminal:
        return subprocess.run(
            [*WIZARD, *words], capture_output=True, text=True, timeout=60, env=environment, check=False
        )
    ours, its = pty.openpty()
    with subprocess.Popen(
        [*WIZARD, *words], stdout=its, stderr=subprocess.PIPE, text=True, env=environment
    ) as run:
        os.close(its)
        errors = run.communicate(timeout=60)[1]
    return subprocess.CompletedProcess(run.args, run.returncode, _all_of(ours), errors)


def _all_of(terminal: int) -> str:
    said = b""
    try:
        while more := os.read(terminal, 65536):
            said += more
    except OSError:  # the other side is closed
        pass
    os.close(terminal)
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("with_file", [True, False])
def test_serve_on_a_terminal_says_how_to_use_it_and_how_to_end_it(tmp_path: Path, with_file: bool) -> None:
    env_file = tmp_path / "my env.sh"
    words = [
        "serve",
        "--speed",
        "max",
        "--ray",
        "none",
        *(["--env-file", str(env_file)] if with_file else []),
    ]
    ours, its = pty.openpty()
    environment = clean_environment(GRPO_WIZARD_HOME=str(tmp_path))
    with subprocess.Popen(
        [*WIZARD, *words], stdout=its, stderr=subprocess.PIPE, text=True, env=environment
    ) as run:
        os.close(its)
        assert run.stderr is not None
        ready = run.stderr.readline()
        run.send_signal(signal.SIGINT)
        assert run.wait(20) == 0
    said = _all_of(ours)
    assert said.count("\n") == 1 and json.loads(said)["base_url"]
    how = (
        f"run `. {shlex.quote(str(env_file))}` in another shell to use the emulator with"
        if with_file
        else "restart it with --env-file FILE to use the emulator with"
    )
    assert ready == f"Ready: {how} gcloud, kubectl and grpo-wizard --rehearse. Press Ctrl+C to stop it.\n"


@pytest.mark.parametrize(
    ("words", "title", "why"),
    [
        (
            ("--env-file", "/no/such/dir/x"),
            "Cannot write --env-file /no/such/dir/x",
            "folder /no/such/dir does not exist",
        ),
        (("--env-file", "/"), "Cannot write --env-file /", "is a folder"),
        (
            ("--record", "/no/such/dir/x"),
            "Cannot write --record /no/such/dir/x",
            "folder /no/such/dir does not exist",
        ),
        (("--faults", "/no/such/x"), "Cannot read --faults /no/such/x", "No such file or directory"),
        (("--faults", "/dev/null"), "Invalid fault file /dev/null", "Expecting value"),
        (("--port", "70000"), "Invalid --port 70000", "0 to 65535"),
        (("--idle", "nan"), "Invalid --idle nan", "0 or more"),
        (("--drill", "stok-out"), "", "rehearsal drills"),
    ],
)
def test_what_serve_cannot_use_is_refused_with_why_and_fix(
    tmp_path: Path, words: tuple[str, ...], title: str, why: str
) -> None:
    done = ran(tmp_path, "serve", "--ray", "none", *words)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"Error: {title}") and "  Fix: " in done.stderr and why in done.stderr


def test_a_second_server_is_refused_in_the_usual_form(rehearsal: EmulatorServer) -> None:
    done = ran(rehearsal.home, "serve", "--ray", "none")
    assert done.returncode == 1 and done.stderr.startswith("Error: An emulator is already running")


def test_status_is_lines_on_a_terminal_and_json_for_programs(rehearsal: EmulatorServer) -> None:
    home = rehearsal.home
    for document in (ran(home, "status").stdout, ran(home, "status", "--json", on_terminal=True).stdout):
        assert json.loads(document)["base_url"] == rehearsal.base_url
    shown = ran(home, "status", on_terminal=True)
    assert shown.returncode == 0
    assert (
        f"The emulator is running at {rehearsal.base_url} (process {rehearsal.address.pid}, speed max).\n"
        in shown.stdout
    )
    assert (
        "  drills:    none\n" in shown.stdout and "Stop it with: grpo-wizard rehearsal stop\n" in shown.stdout
    )
    assert rehearsal.token not in shown.stdout


def test_status_without_a_rehearsal_says_how_one_begins(tmp_path: Path) -> None:
    assert json.loads(ran(tmp_path, "status").stdout) == {"running": False}
    shown = ran(tmp_path, "status", on_terminal=True).stdout
    assert shown == (
        "The emulator is not running.\n"
        "Start it with: grpo-wizard rehearsal serve, or run any command with --rehearse\n"
    )


def test_status_names_clusters_and_drills() -> None:
    found = {
        "running": True, "base_url": "http://127.0.0.1:1", "pid": 2, "speed": "60", "requests": 3, "idle_seconds": 4.0,
        "resources": 5, "kube_urls": {"nemo": "https://127.0.0.1:6"}, "drills": ["stock-out"], "unsaved": "disk full",
    }  # fmt: skip
    lines = "\n".join(format_status(found))
    for words in ("clusters:  nemo", "drills:    stock-out", "not saved: disk full", "the last 4 s ago"):
        assert words in lines


def test_help_lists_each_command_and_serve_explains_its_environment_file(tmp_path: Path) -> None:
    listed = ran(tmp_path, "--help").stdout
    for verb in ("serve", "status", "stop", "drills", "drill", "end-drill"):
        assert any(line.startswith(f"    {verb} ") and len(line) > 20 for line in listed.splitlines()), verb
    serve = " ".join(ran(tmp_path, "serve", "--help").stdout.split())
    assert "--rehearse" in serve.partition("--env-file FILE write")[2].partition("--record")[0]
