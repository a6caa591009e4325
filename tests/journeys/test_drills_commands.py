"""Drills as a user types them: listed, begun, ended, with every command of a rehearsal, and never in the real cloud."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import ANSWERS, clean_environment
from forked_command import ForkedCommand
from plain_terminal import PlainTerminal

from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.emulator.drills import client
from grpo_wizard.steps.emulator.drills.catalog import DRILL_CATALOG, DRILL_NAMES

LOGIN = "gcloud auth application-default login"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home folder in which no rehearsal runs yet."""
    yield tmp_path / "home"
    process.stop(tmp_path / "home")


def typed(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    line = [words[0], "--home", str(home), *words[1:]]
    command = ForkedCommand(line, clean_environment(), home.parent)
    out = command.stdout.read()
    return subprocess.CompletedProcess(line, command.wait(60), out, command.stderr())


def test_drills_are_listed_without_a_server_and_begun_with_one_that_is_started(home: Path) -> None:
    listed = typed(home, "rehearsal", "drills")
    assert (
        listed.returncode == 0
        and "The emulator is not running." in listed.stdout
        and process.find_own(home) is None
    )
    for words in (*DRILL_NAMES, "Zone out of capacity", "no check can detect it earlier", "issues/2764"):
        assert words in " ".join(listed.stdout.split())  # however wide the terminal is
    assert typed(home, "rehearsal", "end-drill").stdout == "No drill was active.\n"
    begun = typed(home, "rehearsal", "drill", "stock-out", "head-lost", "--speed", "max")
    assert begun.returncode == 0 and "Started the emulator." in begun.stdout
    assert f"Started stock-out: {DRILL_CATALOG[0].title}" in begun.stdout
    assert client.active_drills(home) == ("stock-out", "head-lost")
    document = json.loads(typed(home, "rehearsal", "drills", "--json").stdout)
    assert (document["schema"], document["mode"], document["rehearsal_running"]) == (1, "rehearsal", True)
    assert [drill["name"] for drill in document["drills"] if drill["running"]] == ["stock-out", "head-lost"]
    assert "◐ active" in typed(home, "rehearsal", "drills").stdout.splitlines()[0]
    assert json.loads(typed(home, "rehearsal", "status").stdout)["drills"] == ["stock-out", "head-lost"]
    one = typed(home, "rehearsal", "end-drill", "head-lost", "image-gone").stdout
    assert "Ended head-lost." in one and "image-gone was not active" in one
    assert "Ended stock-out." in typed(home, "rehearsal", "end-drill").stdout
    assert client.active_drills(home) == ()


def test_a_drill_outlives_the_server_and_can_be_ended_when_none_runs(home: Path) -> None:
    typed(home, "rehearsal", "drill", "quota-short", "--speed", "max")
    process.stop(home)
    assert "resume when it starts" in typed(home, "rehearsal", "drills").stdout
    assert "Ended quota-short." in typed(home, "rehearsal", "end-drill", "--speed", "max").stdout


def test_a_server_that_is_gone_or_not_on_this_machine_is_not_asked(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.start(home, "max", ray="none", drills=("head-lost",))
    written = (home / "rehearsal" / "address.json").read_text()
    assert client.active_drills(home) == ("head-lost",)
    process.stop(home)
    (home / "rehearsal" / "address.json").write_text(written)  # as a kill leaves it
    assert client.active_drills(home) == ()
    monkeypatch.setenv(process.URL_ENV, "http://192.0.2.1:80")
    monkeypatch.setenv(process.TOKEN_ENV, "secret")
    assert client.active_drills(home) == ()
    monkeypatch.delenv(process.URL_ENV)


def test_any_command_of_a_rehearsal_begins_a_drill_and_says_that_it_runs(home: Path) -> None:
    typed(home, "init", "--rehearse", "--answers", str(ANSWERS))
    seen = typed(home, "check", "--rehearse", "--speed", "max", "--drill", "expired-credentials", "--json")
    assert seen.returncode == 1 and "Active drill: expired-credentials." in seen.stderr
    blocks = [row for row in json.loads(seen.stdout)["checks"] if row["level"] == "block"]
    assert [("sign-in has expired" in row["detail"], row["fix"]) for row in blocks] == [(True, LOGIN)]


def test_the_emulators_readme_names_every_drill_and_no_other() -> None:
    readme = Path(__file__).parents[2] / "steps" / "emulator" / "README.md"
    listed = readme.read_text(encoding="utf-8").partition("switch on by name: ")[2].partition(".")[0]
    assert set(re.findall(r"`([a-z-]+)`", listed)) == set(DRILL_NAMES)


def test_plain_mode_has_them_in_its_menu_and_says_which_run(home: Path) -> None:
    process.start(home, "max", ray="none")
    with PlainTerminal(home) as terminal:
        terminal.reply("x for drills", "x")
        terminal.wait_for("1. stock-out: Zone out of capacity.")
        terminal.reply("start or end a drill", "?1")
        terminal.wait_for("Source: https://github.com/NVIDIA/aicr/issues/2764")
        terminal.reply("start or end a drill", "99")
        terminal.wait_for("Invalid: type a number from 1 to")
        terminal.reply("start or end a drill", "1")
        terminal.wait_for("Started: stock-out")
        assert client.active_drills(home) == ("stock-out",)
        terminal.reply("start or end a drill", "")
        terminal.reply("x for drills", "x")
        terminal.wait_for("Rehearsal. Active drill: stock-out. Drills.")
        terminal.reply("start or end a drill", "stock-out")
        terminal.wait_for("Ended: stock-out")
        assert client.active_drills(home) == ()


@pytest.mark.parametrize(
    "words, said",
    [
        (("check", "--drill", "stock-out"), "Add --rehearse"),
        (("rehearsal", "drill"), "No drill specified"),
        (("rehearsal", "drill", "stok-out"), "did you mean stock-out?"),
        (("check", "--rehearse", "--drill", "stok-out"), "did you mean stock-out?"),
        (("rehearsal", "end-drill", "spoons"), "Available drills: stock-out"),
        (("rehearsal", "stop", "stock-out"), "unrecognized arguments: stock-out"),
        (("rehearsal", "status", "--drill", "stock-out"), "grpo-wizard rehearsal drill NAME"),
    ],
)
def test_what_is_typed_wrongly_is_told_and_starts_nothing(
    home: Path, words: tuple[str, ...], said: str
) -> None:
    refused = typed(home, *words)
    assert refused.returncode == 2 and said in refused.stderr
    assert process.find_own(home) is None
