"""A shell that points at a rehearsal, and real deployments in it: said each time, told apart, and got rid of again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from cli_harness import ANSWERS, NAME, clean_environment
from forked_command import ForkedCommand
from plain_terminal import PlainTerminal

from grpo_wizard.state.home import Home
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.model import ResourceRecord
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.emulator import process

NOTE = (
    "Warning: This shell is configured for the emulator (GRPO_WIZARD_REHEARSAL_URL is set), "
    "but this deployment is real. Add --rehearse to use the emulator.\n"
)
POINTS = {process.URL_ENV: "http://127.0.0.1:9", process.TOKEN_ENV: "a-token"}


def typed(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One command; no Google credentials can be found."""
    line = [words[0], "--home", str(home), *words[1:]]
    nowhere = {
        "GOOGLE_APPLICATION_CREDENTIALS": str(home / "none.json"),
        "CLOUDSDK_CONFIG": str(home / "none"),
    }
    command = ForkedCommand(line, clean_environment(**nowhere, **environment), home.parent)
    out = command.stdout.read()
    return subprocess.CompletedProcess(line, command.wait(60), out, command.stderr())


def begun(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = typed(home, "init", "--answers", str(ANSWERS), *words, **environment)
    assert done.returncode == 0, done.stderr
    return done


def test_a_real_deployment_is_named_as_one_where_the_shell_points_at_a_rehearsal(tmp_path: Path) -> None:
    assert begun(tmp_path, **POINTS).stderr == NOTE
    assert begun(tmp_path).stderr == ""
    assert typed(tmp_path, "export", **POINTS).stderr == NOTE
    assert typed(tmp_path, "plan", **POINTS).stderr.startswith(NOTE)
    assert NOTE not in typed(tmp_path, "plan").stderr
    assert begun(tmp_path, "--rehearse", "--deployment", "other", **POINTS).stderr == ""


@pytest.mark.parametrize(("first", "then"), [((), ("--rehearse",)), (("--rehearse",), ())])
def test_the_wrong_kind_is_refused_with_both_ways_out(
    tmp_path: Path, first: tuple[str, ...], then: tuple[str, ...]
) -> None:
    begun(tmp_path, *first)
    for words in (("init", "--answers", str(ANSWERS)), ("check",), ("apply", "--yes", "--detach")):
        done = typed(tmp_path, *words, *then, "--deployment", NAME)
        assert done.returncode == 2
        fix = next(line for line in done.stderr.splitlines() if line.startswith("  Fix: "))
        assert "--rehearse" in fix and "--deployment NAME" in fix


def test_a_deployment_that_made_nothing_is_removed_without_credentials(tmp_path: Path) -> None:
    begun(tmp_path)
    assert typed(tmp_path, "destroy").returncode == 2
    gone = typed(tmp_path, "destroy", "--confirm", NAME)
    assert gone.returncode == 0, gone.stderr
    assert gone.stdout.endswith("No resources of this deployment remain.\n")
    assert "without contacting the cloud" in gone.stdout
    kept = Path(gone.stdout.partition("saved in ")[2].splitlines()[0])
    assert json.loads(kept.read_text())["answers"]["project"]
    assert Home(tmp_path).deployments() == []
    begun(tmp_path, "--rehearse")  # the name is free
    last = json.loads(
        typed(tmp_path, "destroy", "--rehearse", "--confirm", NAME, "--json").stdout.splitlines()[-1]
    )
    assert (last["event"], last["ok"], last["next"], last["mode"]) == (
        "summary",
        True,
        "nothing left",
        "rehearsal",
    )


@pytest.mark.parametrize("trace", ["record", "journal", "audit"])
def test_one_that_left_any_trace_is_not_called_gone_without_a_look(tmp_path: Path, trace: str) -> None:
    begun(tmp_path)
    store = StateStore(Home(tmp_path))
    if trace == "record":
        deployment = store.load(NAME)
        deployment.resources["project.api.x"] = ResourceRecord(kind="api", name="x", step="project")
        store.save(deployment)
    elif trace == "journal":
        Journal(store.home.journal_file(NAME)).append({"event": "notice", "detail": "x"})
    else:
        store.home.audit_file(NAME).write_text("{}\n")
    tried = typed(tmp_path, "destroy", "--confirm", NAME)
    assert tried.returncode == 1 and "remain" not in tried.stdout + tried.stderr
    assert Home(tmp_path).deployments() == [NAME]


def test_plain_mode_says_it_too(tmp_path: Path) -> None:
    begun(tmp_path)
    with PlainTerminal(tmp_path, "--deployment", NAME, **POINTS) as terminal:
        terminal.wait_for(NOTE.partition(" ")[2].strip())
