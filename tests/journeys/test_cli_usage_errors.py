"""How commands are called wrongly, cut short, or met by others: what they say, and what they end with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import ANSWERS, NAME, CliHarness, clean_environment, cli_harness, fault

from grpo_wizard.state.home import Home
from grpo_wizard.state.lock import Lock
from grpo_wizard.tui.commands._arguments import COMMANDS

TUTORIAL = {
    "PROJECT_ID": "my-project",
    "CONTROL_PLANE_REGION": "us-central1",
    "NODE_ZONE": "us-central1-b",
    "GPU_TYPE": "nvidia-b200",
    "MACHINE_TYPE": "a4-highgpu-8g",
    "RESERVATION": "nemo-res",
    "REPLICA_COUNT": "2",
    "NETWORK": "vpc-of-mine",
    "GVNIC_NETWORK_PREFIX": "mine-gvnic",
    "RDMA_NETWORK_PREFIX": "mine-rdma",
    "CLUSTER_NAME": "mine",
    "LUSTRE_NAME": "my-lustre",
    "NAMESPACE": "training",
    "HF_TOKEN": "hf_" + "a" * 34,
}


def wizard(
    home: Path, *words: str, stdin: int = subprocess.DEVNULL, **environment: str
) -> subprocess.CompletedProcess[str]:
    """One command on a home that needs no server."""
    return subprocess.run(
        [sys.executable, "-m", "grpo_wizard", *words],
        capture_output=True,
        text=True,
        stdin=stdin,
        timeout=120,
        env=clean_environment(GRPO_WIZARD_HOME=str(home), **environment),
        encoding="utf-8",
    )


def begun(home: Path, *words: str) -> Path:
    done = wizard(home, "init", "--rehearse", "--answers", str(ANSWERS), *words)
    assert done.returncode == 0, done.stderr
    return home


def deployments(home: Path) -> list[str]:
    return Home(home).deployments()


def test_every_refused_value_is_named_at_once_with_its_rule_and_nothing_is_written(tmp_path: Path) -> None:
    done = wizard(
        tmp_path,
        "init",
        "--set",
        "networks.network=Nemo_Net",
        "--set",
        "lustre.capacity_gib=many",
        "--set",
        "cluster.cluster_name=Not_A_Name",
        "--set",
        "project.zone=moon",
    )
    assert done.returncode == 1 and done.stdout == ""
    for field in (
        "networks.network",
        "lustre.capacity_gib",
        "cluster.cluster_name",
        "project.zone",
        "project.project_id",
    ):
        assert field in done.stderr
    assert re.search("lowercase letters, digits and hyphens", done.stderr)
    assert deployments(tmp_path) == []


def test_one_refused_value_names_field_and_rule(tmp_path: Path) -> None:
    done = wizard(tmp_path, "init", "--answers", str(ANSWERS), "--set", "networks.network=Nemo_Net")
    assert done.returncode == 1 and "networks.network: must contain only lowercase letters" in done.stderr
    assert deployments(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[networks]\nnetwrk = 'x'\n", "networks.netwrk"),
        ("network = 'x'\n", "Unknown key network"),
        ("[networks\n", "is not valid TOML"),
        ("\xff\xfe", "Cannot read"),
        (None, "Cannot read"),
        ("[nowhere]\nx = 1\n", "nowhere.x"),
    ],
)
def test_an_answer_file_that_cannot_be_meant_is_wrong_usage(
    tmp_path: Path, text: str | None, said: str
) -> None:
    file = tmp_path / "answers.toml"
    if text is not None:
        file.write_bytes(text.encode("latin-1"))
    done = wizard(tmp_path / "home", "init", "--answers", str(file))
    assert done.returncode == 2 and said in done.stderr
    assert "Traceback" not in done.stderr and deployments(tmp_path / "home") == []


@pytest.mark.parametrize(
    "words",
    [
        ["--unknown"],
        ["aply"],
        ["init", "--set", "no-equals"],
        ["apply"],
        ["apply", "--yes", "--until", "moon"],
        ["destroy"],
        ["apply", "--detac", "--yes"],
    ],
    ids=" ".join,
)
def test_wrong_options_end_with_2_before_anything_is_looked_at(tmp_path: Path, words: list[str]) -> None:
    done = wizard(begun(tmp_path) if "init" not in words else tmp_path, *words)
    assert done.returncode == 2 and done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check", "plan", "status", "destroy", "export"])
def test_without_a_deployment_a_command_ends_with_2_and_names_init(tmp_path: Path, command: str) -> None:
    done = wizard(tmp_path, command)
    assert done.returncode == 2 and "init" in done.stderr


def test_of_two_deployments_one_must_be_named(tmp_path: Path) -> None:
    begun(begun(tmp_path), "--deployment", "other")
    done = wizard(tmp_path, "plan", "--rehearse")
    assert (
        done.returncode == 2
        and NAME in done.stderr
        and "other" in done.stderr
        and "--deployment" in done.stderr
    )


def test_a_rehearsal_is_not_taken_for_real_nor_the_other_way_round(tmp_path: Path) -> None:
    done = wizard(begun(tmp_path / "a"), "plan")
    assert (
        done.returncode == 2 and f"{NAME} is a rehearsal" in done.stderr and "Add --rehearse" in done.stderr
    )
    real = wizard(tmp_path / "b", "init", "--answers", str(ANSWERS))
    assert real.returncode == 0
    done = wizard(tmp_path / "b", "plan", "--rehearse")
    assert done.returncode == 2 and "Omit --rehearse" in done.stderr


def test_without_a_terminal_the_wizard_says_at_once_which_command_to_use(tmp_path: Path) -> None:
    began = time.monotonic()
    done = wizard(tmp_path)
    assert done.returncode == 2 and "init" in done.stderr and "rehearse" in done.stderr
    assert time.monotonic() - began < 20


def test_the_tutorials_own_variables_are_answers_and_its_token_is_none(tmp_path: Path) -> None:
    done = wizard(tmp_path, "init", "--rehearse", "--from-env", **TUTORIAL)
    assert done.returncode == 0, done.stderr
    state = (tmp_path / "deployments" / "mine" / "state.json").read_text()
    answers = json.loads(state)["answers"]
    taken = [
        ("project", "project_id"),
        ("project", "region"),
        ("project", "zone"),
        ("quotas", "gpu_type"),
        ("quotas", "machine_type"),
        ("quotas", "reservation"),
        ("quotas", "gpu_nodes"),
        ("networks", "network"),
        ("networks", "gvnic_prefix"),
        ("networks", "rdma_prefix"),
        ("cluster", "cluster_name"),
        ("lustre", "lustre_name"),
        ("raycluster", "namespace"),
    ]
    assert [str(answers[step][field]) for step, field in taken] == [
        v for k, v in TUTORIAL.items() if k != "HF_TOKEN"
    ]
    assert TUTORIAL["HF_TOKEN"] not in state


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_names_the_options_that_the_command_takes(tmp_path: Path, command: str | None) -> None:
    done = wizard(tmp_path, *([command] if command else []), "--help")
    assert done.returncode == 0 and "exit codes: 0 success" in done.stdout
    for option in ("--rehearse", "--speed", "--deployment", "--home"):
        assert option in done.stdout
    assert not list(tmp_path.iterdir()), "help writes nothing"


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["aply"], "grpo-wizard --help"),
        (["apply", "--detac", "--yes"], "grpo-wizard apply --help"),
        (["rehearsal"], "grpo-wizard rehearsal --help"),
        (["rehearsal", "stop", "--json"], "grpo-wizard rehearsal stop --help"),
    ],
    ids=" ".join,
)
def test_wrong_usage_names_the_help_of_the_command_that_was_meant(
    tmp_path: Path, words: list[str], command: str
) -> None:
    done = wizard(tmp_path, *words)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("Error: ")
    assert done.stderr.endswith(f"\n  Command: {command}\n")


def test_help_is_printed_on_a_terminal_of_ascii(tmp_path: Path) -> None:
    done = wizard(tmp_path, "init", "--help", PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == 0 and done.stdout.isascii() and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("serve", {"--port", "--faults", "--env-file", "--record", "--ray", "--idle", "--speed", "--drill"}),
        ("status", {"--json"}),
        ("stop", set()),
        ("drills", {"--json"}),
        ("drill", {"--json", "--speed"}),
        ("end-drill", {"--json", "--speed"}),
    ],
)
def test_help_of_a_rehearsal_command_lists_only_what_affects_it(
    tmp_path: Path, verb: str, options: set[str]
) -> None:
    shown = wizard(tmp_path, "rehearsal", verb, "--help").stdout
    assert set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", shown, re.M)) == options | {"--help", "--home"}


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliHarness]:
    """A slow cloud: what is started takes long enough to be met in the middle."""
    with cli_harness(
        tmp_path_factory.mktemp("usage") / "home",
        [fault("compute.googleapis.com", "POST", "*/networks", 3, delay_s=4)],
    ) as walk:
        walk.init()
        yield walk


def test_output_that_nobody_reads_to_the_end_ends_quietly(walk: CliHarness) -> None:
    process = walk.start("plan")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(60) == 0


def test_a_terminal_of_ascii_is_no_reason_to_fall(walk: CliHarness) -> None:
    done = walk.run("check", PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() and "Nothing blocks apply: " in done.stdout


def test_an_api_that_is_off_is_told_with_the_project_by_the_id_that_was_typed(tmp_path: Path) -> None:
    with cli_harness(tmp_path / "home") as walk:
        walk.init()
        done = walk.run("metrics")
    assert done.returncode == 1 and "is not enabled yet" in done.stderr
    assert "gcloud services enable container.googleapis.com --project=my-project" in done.stderr
    assert "in project my-project before" in done.stderr and not re.search(r"project[ =]\d", done.stderr)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_letters_beyond_ascii_are_neither_refused_nor_changed_whatever_the_locale(
    encoding: str, tmp_path: Path
) -> None:
    folder = "/data/\u00fc\u65e5\u672c"

    def said(*words: str) -> str:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "grpo_wizard",
                words[0],
                "--home",
                str(tmp_path),
                "--rehearse",
                *words[1:],
            ],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=clean_environment(
                PYTHONIOENCODING=encoding, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
            ),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    said("init", "--answers", str(ANSWERS), "--set", f"grpo.checkpoint_dir={folder}")
    assert (
        json.loads((tmp_path / "deployments" / NAME / "state.json").read_text("utf-8"))["answers"]["grpo"][
            "checkpoint_dir"
        ]
        == folder
    )
    assert tomllib.loads(said("export", "--answers"))["grpo"]["checkpoint_dir"] == folder
    assert folder in said("export")


def test_a_price_above_the_limit_is_refused_before_anything_is_made(walk: CliHarness) -> None:
    before = len(walk.mutating_requests())
    ended = walk.events("apply", "--yes", "--max-usd-per-hour", "1", "--json", code=1)[-1]
    assert (
        "exceeds the limit of 1.00 USD/h" in ended["failed"][0]["title"]
        and "--max-usd-per-hour" in ended["failed"][0]["fix"]
    )
    assert walk.mutating_requests()[before:] == []


def test_while_one_works_another_is_refused_with_pid_command_and_since(walk: CliHarness) -> None:
    with Lock(Home(walk.home), NAME, "grpo-wizard apply --yes"):
        done = walk.run("destroy", "--confirm", NAME)
    assert done.returncode == 1
    assert f"pid {os.getpid()}" in done.stderr and "grpo-wizard apply --yes" in done.stderr
    assert re.search(r"since 20\d\d-\d\d-\d\dT", done.stderr)


def test_ctrl_c_ends_with_130_and_says_what_goes_on_and_how_to_resume(walk: CliHarness) -> None:
    process = walk.start("apply", "--yes", "--until", "networks", "--json")
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        if '"resource_started"' in line and ".network." in line:
            process.send_signal(signal.SIGINT)
            break
    process.stdout.read()
    said = process.stderr.read()
    assert process.wait(60) == 130, said
    assert (
        "Operations already started in the cloud will finish. To continue: grpo-wizard apply --home" in said
    )
    assert "Traceback" not in said
    assert walk.events("apply", "--yes", "--until", "networks", "--json")[-1]["ok"]


UNTIL = {"project": {"api"}, "quotas": set(), "networks": {"network", "subnet", "firewall"}}


def test_until_makes_everything_up_to_and_with_that_step_and_no_more(walk: CliHarness) -> None:
    assert walk.events("destroy", "--confirm", NAME, "--json")[-1]["ok"]
    steps: set[str] = set()
    for step, kinds in UNTIL.items():
        steps.add(step)
        events = walk.events("apply", "--yes", "--until", step, "--json")
        assert events[-1]["ok"]
        assert {row["id"].partition(".")[0] for row in events[0]["resources"]} <= steps
        there = {row["kind"] for row in walk.server.cloud_resources() if not row["derived"]}
        assert there == {"api"} | kinds
