"""The whole road in plain mode on a terminal: from nothing to a deployment, left in the middle, gone on with, taken down."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import CliHarness, cli_harness, fault, remaining_resources
from emulator_server import stop_emulator
from plain_terminal import PlainTerminal, accept_all_steps

from grpo_wizard.state.home import Home
from grpo_wizard.state.store import StateStore

NAME = "alpha"


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[CliHarness]:
    with cli_harness(tmp_path / "home", ray="none") as made:
        yield made
        stop_emulator(made.server)


def _first_questions(terminal: PlainTerminal) -> None:
    """A new rehearsal, each step with the values that are there."""
    terminal.reply("leave", "r")
    terminal.reply("Name of the deployment (rehearsal-1", NAME)
    accept_all_steps(terminal)


def test_from_nothing_to_a_deployment_and_back(walk: CliHarness) -> None:
    """Review switches and asks for the word yes; ctrl+c says what goes on; a second terminal watches; nothing is left."""
    walk.server.enable("compute.googleapis.com")
    _reservation_by_its_number(walk)
    with PlainTerminal(walk.home) as terminal:
        _first_questions(terminal)
        _switch_mtu_off(terminal)
        terminal.reply("Launch, change", "go")
        terminal.reply("Type yes to launch alpha", "y")
        terminal.wait_for("Not launched.")
        terminal.reply("Launch, change", "go")
        terminal.reply("Type yes to launch alpha", "yes")
        terminal.wait_for("create: job")
        _watched_by_another(walk)
        terminal.interrupt()
        terminal.wait_for("Operations on these resources will finish: grpo.job.")
        terminal.wait_for(
            "To continue in the background: grpo-wizard apply --yes --detach --deployment alpha"
        )
        assert terminal.wait_for_exit() == 130
        assert "\x1b" not in terminal.output
    made = {row["kind"] for row in walk.server.cloud_resources()}
    assert {"network", "cluster", "node_pool", "lustre", "raycluster"} <= made
    _taken_down(walk)


def _reservation_by_its_number(walk: CliHarness) -> None:
    """`?` lists what the cloud holds, a number chooses of it, `<` goes to the question before."""
    store = StateStore(Home(walk.home))
    deployment = store.create("beta", "rehearsal", {"project": {}})
    with PlainTerminal(walk.home, "--deployment", "beta") as terminal:
        before = ""
        while not (prompt := terminal.wait_for_prompt()).startswith("Reservation, ? lists suggestions"):
            before = prompt
            terminal.send_line("")
        terminal.send_line("<")
        assert terminal.wait_for_prompt() == before
        terminal.send_line("")
        terminal.wait_for_prompt()
        terminal.send_line("?")
        line = terminal.wait_for(" a4-highgpu-8g free, READY").rpartition("\n")[2]
        assert line.strip().endswith(": nemo-res: 4 of 4")
        terminal.wait_for_prompt()
        terminal.send_line(line.strip().partition(":")[0])
        terminal.wait_for("Reservation nemo-res is READY")
        terminal.interrupt()
        assert terminal.wait_for_exit() == 130
    assert store.load("beta").answers["quotas"]["reservation"] == "nemo-res"
    shutil.rmtree(store.home.folder(deployment.name))


def _switch_mtu_off(terminal: PlainTerminal) -> None:
    before = terminal.wait_for("Ready to launch.")
    number = re.search(r"(\d+)\. MTU 8896.*: on:", before)
    assert number is not None, before
    terminal.reply("Launch, change", "c")
    terminal.reply("Which line", number.group(1))
    assert f"{number.group(1)}. MTU 8896 on the cluster's network: off:" in terminal.wait_for(
        "Ready to launch."
    )


def _watched_by_another(walk: CliHarness) -> None:
    """Somebody else looks on, and leaves without harm."""
    with PlainTerminal(walk.home, "--deployment", NAME) as other:
        other.wait_for("is running.")
        other.wait_for("The run has not finished")
        other.interrupt()
        other.wait_for("The other process is still running")
        assert other.wait_for_exit() == 130


def _taken_down(walk: CliHarness) -> None:
    """Opened again where it was left; the wrong name changes nothing, the right one leaves nothing."""
    with PlainTerminal(walk.home) as terminal:
        terminal.reply("leave", "1")
        terminal.wait_for("The run has not finished: either it is still running, or it was interrupted.")
        terminal.reply("Try again, review, destroy", "t")
        terminal.reply("Keep Lustre", "")
        terminal.wait_for("Delete: lustre nemo-lustre")
        terminal.wait_for("Keep: api compute.googleapis.com: ")
        terminal.reply("Type the deployment's name, alpha", "beta")
        terminal.wait_for("Nothing was changed.")
        terminal.reply("leave", "d")
        terminal.reply("Which one", "1")
        terminal.reply("Keep Lustre", "no")
        terminal.reply("Type the deployment's name, alpha", NAME)
        terminal.wait_for("No resources of this deployment remain.")
        terminal.wait_for("1. alpha, destroyed, no resources left")
        terminal.reply("leave", "l")
        assert terminal.wait_for_exit() == 0
        assert "\x1b" not in terminal.output
    assert remaining_resources(walk.server.cloud_resources()) == []


def test_a_failure_is_told_with_its_fix_and_can_be_tried_again(tmp_path: Path) -> None:
    """Google refuses a network once and for all: why and fix are lines of their own; the menu goes on."""
    refusal = {
        "error": {
            "code": 403,
            "message": "Required 'compute.networks.create' permission",
            "status": "PERMISSION_DENIED",
        }
    }
    faults = [fault("compute*", "POST", "*/networks", nth=n, status=403, body=refusal) for n in (1, 2, 3)]
    with cli_harness(tmp_path / "home", faults) as walk, PlainTerminal(walk.home) as terminal:
        _first_questions(terminal)
        terminal.reply("Launch, change", "go")
        terminal.reply("Type yes to launch", "yes")
        terminal.wait_for("Failed: network ")
        terminal.wait_for("Fix: ")
        terminal.reply("Try again", "a")
        terminal.wait_for("create: cluster nemo-cluster")
        terminal.interrupt()
        terminal.wait_for("To continue here: grpo-wizard --plain --deployment alpha")
        assert terminal.wait_for_exit() == 130


@pytest.mark.heavy
def test_through_the_training_to_the_end(tmp_path: Path) -> None:
    """A real GRPO run as lines: ten steps, a checkpoint, healthy, and back to nothing."""
    with cli_harness(tmp_path / "home", ray="real") as walk, PlainTerminal(walk.home) as terminal:
        _first_questions(terminal)
        terminal.reply("Launch, change", "go")
        terminal.reply("Type yes to launch", "yes")
        terminal.wait_for("Monitor.", 400)
        rewards = []
        for step in range(1, 11):
            terminal.wait_for(f"step {step} of 10: reward ", 200)
            rewards.append(float(terminal.wait_for(",").split()[0]))
        terminal.wait_for("SUCCEEDED", 120)
        assert sum(rewards[-3:]) >= 2 * sum(rewards[:3])
        terminal.reply("Job status: SUCCEEDED.", "t")
        terminal.reply("Keep Lustre", "")
        terminal.wait_for("checkpoint on Lustre will be deleted with it: step_10")
        terminal.reply("Type the deployment's name", NAME)
        terminal.wait_for("No resources of this deployment remain.", 200)
        terminal.interrupt()
        assert terminal.wait_for_exit() == 130
        assert "\x1b" not in terminal.output
        assert remaining_resources(walk.server.cloud_resources()) == []
