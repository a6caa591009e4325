"""Plain mode's ways in and out: who may ask for it, what it says without a terminal, how to go on, and where its lines end."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import ANSWERS, clean_environment
from emulator_server import EmulatorServer
from plain_terminal import PlainTerminal

from grpo_wizard.state.home import Home
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.emulator.drills import client
from grpo_wizard.steps.registry import STEP_NAMES
from grpo_wizard.tui.commands._events import EventRenderer

COLUMNS = 80


@pytest.fixture
def server(shared_rehearsal: EmulatorServer) -> Iterator[dict[str, str]]:
    """The environment that joins the module's rehearsal."""
    yield {k: v for k, v in shared_rehearsal.address.env.items() if k.startswith("GRPO_WIZARD_REHEARSAL")}


def alone(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "grpo_wizard", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        env=clean_environment(**environment),
    )


@pytest.mark.parametrize(
    ("words", "environment", "what", "command"),
    [
        (("--plain",), {"TERM": "xterm"}, "Plain mode", "grpo-wizard init --help"),
        (("--plain", "--rehearse"), {"TERM": "xterm"}, "Plain mode", "grpo-wizard rehearse"),
        ((), {"TERM": "dumb"}, "Plain mode", "grpo-wizard init --help"),
        (("--rehearse",), {"TERM": "xterm"}, "The full-screen wizard", "grpo-wizard rehearse"),
    ],
)
def test_without_a_terminal_it_names_itself_and_a_command_that_works(
    words: tuple[str, ...], environment: dict[str, str], what: str, command: str, tmp_path: Path
) -> None:
    done = alone(*words, GRPO_WIZARD_HOME=str(tmp_path), HOME=str(tmp_path), **environment)
    assert done.returncode == 2 and done.stderr.startswith(f"Error: {what} requires a terminal\n")
    assert done.stderr.endswith(f"  Command: {command}\n")
    assert alone(*shlex.split(command)[1:], "--help").returncode == 0


def test_rehearse_takes_plain_on_either_side_of_its_name(tmp_path: Path, server: dict[str, str]) -> None:
    for words in (("rehearse", "--plain"), ("--plain", "rehearse")):
        with PlainTerminal(tmp_path, *words, TERM="xterm", **server) as terminal:
            terminal.wait_for("plain mode, enabled by --plain.")
            terminal.wait_for("Rehearsal. ")
            terminal.wait_for_prompt()
            terminal.interrupt()
            assert terminal.wait_for_exit() == 130


def test_leaving_by_key_and_by_ctrl_c_name_the_same_command_and_it_goes_on(
    tmp_path: Path, server: dict[str, str]
) -> None:
    home = tmp_path / "a home"
    StateStore(Home(home)).create("alpha", "rehearsal", {})
    said = []
    for way in ("l", "ctrl+c"):
        with PlainTerminal(home, "--deployment", "alpha", columns=COLUMNS, **server) as terminal:
            terminal.wait_for("Step 1 of 7")
            while "/l)" not in terminal.wait_for_prompt():
                terminal.send_line("!")
            if way == "l":
                terminal.send_line("l")
            else:
                terminal.interrupt()
            terminal.wait_for("To continue: ")
            assert terminal.wait_for_exit() == (0 if way == "l" else 130)
            said.append(re.findall(r"To continue: (.*?)\r\n", terminal.output)[-1])
    assert said[0] == said[1]
    words = shlex.split(said[0])
    assert words == ["grpo-wizard", "--plain", "--deployment", "alpha", "--home", str(home), "--rehearse", "--speed", "max"]  # fmt: skip
    with PlainTerminal(home, *words[1:], **server) as terminal:
        terminal.wait_for("Step 1 of 7")


def test_left_before_anything_is_open_the_command_names_home_and_rehearsal(tmp_path: Path) -> None:
    with PlainTerminal(tmp_path) as terminal:
        terminal.reply("leave", "l")
        terminal.wait_for(f"To continue: grpo-wizard --plain --home {tmp_path} --rehearse --speed max")
        assert terminal.wait_for_exit() == 0


def test_lines_on_a_terminal_end_between_words(tmp_path: Path, server: dict[str, str]) -> None:
    """The same conversation, wide and narrow: put together again, the narrow one is the wide one, word for word."""
    seen = []
    for columns in (COLUMNS, 2000):
        home = tmp_path / str(columns)
        StateStore(Home(home)).create("alpha", "rehearsal", {})
        with PlainTerminal(home, "--deployment", "alpha", columns=columns, **server) as terminal:
            terminal.wait_for("Step 1 of 7")
            for text in ("?", "Bad_Name", "!"):
                terminal.wait_for_prompt()
                terminal.send_line(text)
            terminal.wait_for_prompt()
            terminal.send_line("w")
            terminal.wait_for_prompt()
            terminal.interrupt()
            terminal.wait_for_exit()
        seen.append(terminal.output.replace(str(home), "HOME"))
    lines = [line for line in seen[0].replace("\r", "").split("\n") if "ommand: " not in line]
    assert max(len(line) for line in lines if " " in line.strip() and "To continue" not in line) <= COLUMNS
    assert seen[0].split() == seen[1].split()
    assert (
        max(map(len, seen[1].splitlines())) > COLUMNS < max(map(len, seen[0].splitlines()))
    )  # commands stay whole


def test_drills_are_in_the_menu_of_a_step_and_e_says_what_it_ended(
    tmp_path: Path, server: dict[str, str]
) -> None:
    StateStore(Home(tmp_path)).create("alpha", "rehearsal", {})
    address = process.connect(server[process.URL_ENV], server[process.TOKEN_ENV])
    with PlainTerminal(tmp_path, "--deployment", "alpha", **server) as terminal:
        terminal.wait_for("Step 1 of 7")
        while "/x/" not in terminal.wait_for_prompt():
            terminal.send_line("!")
        terminal.send_line("x")
        terminal.reply("start or end a drill", "stock-out")
        terminal.wait_for("Started: stock-out")
        terminal.reply("start or end a drill", "e")
        terminal.wait_for("Ended: stock-out. No drill is active now.")
        assert not any(drill["running"] for drill in client.list_drills(address))
        terminal.reply("start or end a drill", "e")
        terminal.wait_for("No drill is active.")
        terminal.reply("start or end a drill", "")
        assert "/x/" in terminal.wait_for_prompt()  # the step's menu again, after its checks
        terminal.send_line("l")
        assert terminal.wait_for_exit() == 0


def test_a_command_that_leans_on_a_file_comes_with_the_one_that_writes_it(
    tmp_path: Path, server: dict[str, str]
) -> None:
    store = StateStore(Home(tmp_path))
    answers = {name: {} for name in STEP_NAMES} | {
        "project": {"project_id": "my-project"},
        "quotas": {"reservation": "nemo-res"},
    }
    deployment = store.create("alpha", "rehearsal", answers)
    deployment.place = "raycluster"
    store.save(deployment)
    with PlainTerminal(tmp_path, "--deployment", "alpha", **server) as terminal:
        terminal.wait_for("Step 6 of 7")
        while "/l)" not in terminal.wait_for_prompt():
            terminal.send_line("!")
        terminal.send_line("w")
        terminal.wait_for("kubectl apply -f secret.yaml")
        terminal.wait_for("Script: ")
        terminal.wait_for_prompt()
        written = re.findall(r"Script: (.*?)\r\n", terminal.output)[-1]
    made = alone(*shlex.split(written)[1:], **server)
    assert made.returncode == 0 and "kind: RayCluster" in made.stdout, made.stderr


@pytest.mark.parametrize("words", [("export",), ("export", "--answers"), ("plan",)])
def test_a_command_on_half_given_answers_says_which_are_missing(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    StateStore(Home(tmp_path)).create("alpha", "rehearsal", {"project": {}})
    done = alone(*words, "--rehearse", GRPO_WIZARD_HOME=str(tmp_path))
    assert done.returncode == 1 and done.stderr.startswith("Error: The settings for alpha are incomplete\n")
    assert "project.project_id: is required" in done.stderr


def test_the_next_command_that_init_names_finds_the_deployment_that_it_began(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    done = alone("init", "--rehearse", "--answers", str(ANSWERS), "--home", str(home))
    following = shlex.split(done.stdout.partition("Next: ")[2])
    assert following[:2] == ["grpo-wizard", "check"]
    exported = alone("export", *following[2:])
    assert exported.returncode == 0, exported.stderr


def test_the_end_of_a_run_names_commands_with_the_home_that_was_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = dict.fromkeys(("created", "adopted", "kept", "deleted"), 0)
    rest = {"failed": [], "seconds": 0.0, "usd_per_hour": 0.0, "next": "status"}
    for ok in (True, False):
        summary = Event("summary", None, {"ok": ok, **counts, **rest})
        EventRenderer("rehearsal", "alpha", as_json=False, home="/a home").show(summary)
        assert "grpo-wizard status --rehearse --deployment alpha --home '/a home'" in capsys.readouterr().out
