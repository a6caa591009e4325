"""A state that can no longer be read, and a disk that is full: nothing is taken for gone, and nothing more is begun."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import ANSWERS, DESTROY, NAME, CliHarness, cli_harness, fault, remaining_resources

COMMANDS = (
    ("status",),
    ("plan",),
    ("apply", "--yes"),
    ("destroy", "--confirm", NAME),
    ("init", "--answers", str(ANSWERS)),
)
AGAIN = ("init", "--answers", str(ANSWERS), "--deployment", NAME, "--take-over")


@pytest.fixture
def networks(tmp_path: Path) -> Iterator[CliHarness]:
    """A deployment that stands up to its networks."""
    with cli_harness(tmp_path / "home") as walk:
        walk.init()
        assert walk.events("apply", "--yes", "--until", "networks", "--json")[-1]["ok"]
        yield walk


def test_a_state_without_a_good_backup_is_found_again_in_the_cloud_by_the_command_that_is_named(
    networks: CliHarness,
) -> None:
    file = networks.home / "deployments" / NAME / "state.json"
    mark, backup = networks.state()["lineage"], file.with_name("state.json.bak")
    cut = file.read_bytes()[:75]
    file.write_bytes(b"")
    refused = networks.run(*AGAIN)
    assert refused.returncode == 1 and f"cp {backup} {file}" in refused.stderr, (
        "a good backup is not given up"
    )
    backup.write_bytes(cut)
    for words in COMMANDS:
        done = networks.run(*words)
        assert done.returncode == 1 and str(file) in done.stderr, words
        assert f"grpo-wizard init --take-over --deployment {NAME}" in done.stderr
        assert (file.read_bytes(), backup.read_bytes()) == (b"", cut)
    again = networks.run(*AGAIN)
    assert again.returncode == 0 and networks.state()["lineage"] == mark, again.stderr
    aside = sorted(path.read_bytes() for path in file.parent.glob("*.aside-*"))
    assert aside == [b"", cut], "what could not be read is kept"
    assert (
        networks.events(*DESTROY)[-1]["ok"] and remaining_resources(networks.server.cloud_resources()) == []
    )


@pytest.fixture
def small(tmp_path: Path) -> Iterator[CliHarness]:
    """Its states lie on a disk of 1 MiB; each network takes three seconds to answer."""
    disk = tmp_path / "home" / "deployments"
    disk.mkdir(parents=True)
    able = os.geteuid() == 0 and shutil.which("mount")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if not able or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        with cli_harness(
            tmp_path / "home", [fault("compute.googleapis.com", "POST", "*/networks", delay_s=3)]
        ) as it:
            yield it
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_on_a_full_disk_nothing_more_is_begun_until_saving_works(small: CliHarness) -> None:
    small.init()
    state = small.home / "deployments" / NAME / "state.json"
    process = small.start("apply", "--yes", "--until", "cluster", "--json")
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        document = json.loads(line)
        if (document.get("event"), document.get("id")) == ("resource_started", "networks.network.nemo-net"):
            break
    filler, before = fill(state.parents[1]), state.read_bytes()
    said = process.stdout.read() + process.stderr.read()
    assert process.wait(60) == 1 and "could not be saved" in said and "No space left" in said
    assert state.read_bytes() == before and not list(state.parent.glob("*.tmp*"))
    posted = {
        row["path"].rpartition("/")[2]
        for row in small.mutating_requests()
        if row["service"] != "serviceusage.googleapis.com"
    }
    assert posted <= {"networks"}, "only what was under way before"
    filler.unlink()
    assert small.events("apply", "--yes", "--until", "networks", "--json")[-1]["ok"]


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler
