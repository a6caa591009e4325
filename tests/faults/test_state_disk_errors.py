"""A full disk, a file size limit, a disk without hard links: the old state is intact, byte for byte."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_wizard.state.errors import StateNotSaved, StateUnreadable
from grpo_wizard.state.home import Home
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.store import StateStore

NAME = "nemo-cluster"
LIMIT = 8192


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    able = os.geteuid() == 0 and shutil.which("mount")
    if not able or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root; the file size limit is tested instead")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def _contents(home: Home) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.folder(NAME).iterdir()}


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            return


def test_a_full_disk_is_said_with_what_is_lost_and_the_old_state_stays(small_disk: Path) -> None:
    home = Home.choose(str(small_disk / "home"))
    store = StateStore(home)
    deployment = store.save(store.create(NAME, "real", {}))
    before = _contents(home)
    _fill(small_disk)
    deployment.answers["grpo"] = {"padding": "x" * 20_000}
    with pytest.raises(StateNotSaved, match="No space left") as caught:
        store.save(deployment)
    assert deployment.updated_at in caught.value.detail
    assert str(home.folder(NAME)) in caught.value.command
    assert _contents(home) == before
    assert deployment.serial == 2
    (small_disk / "filler").unlink()
    assert store.save(deployment).serial == 3
    assert store.load(NAME) == deployment


def test_a_journal_line_torn_by_a_full_disk_costs_that_line_only(small_disk: Path) -> None:
    journal = Journal(small_disk / "journal.jsonl")
    journal.append({"n": 1})
    _fill(small_disk)
    with pytest.raises(StateNotSaved, match="No space left"):
        journal.append({"padding": "x" * 20_000})
    assert journal.path.stat().st_size > 100, "the line was not torn: this test shows nothing"
    (small_disk / "filler").unlink()
    journal.append({"n": 2})
    assert journal.read()[0] == [{"n": 1}, {"n": 2}]


def test_damage_found_on_a_full_disk_is_said_without_a_copy(small_disk: Path) -> None:
    home = Home.choose(str(small_disk / "home"))
    store = StateStore(home)
    store.save(store.create(NAME, "real", {}))
    home.state_file(NAME).write_bytes(b"{" * 9000)
    before = _contents(home)
    _fill(small_disk)
    with pytest.raises(StateUnreadable) as caught:
        store.load(NAME)
    assert caught.value.copy is None and caught.value.backup == home.backup_file(NAME)
    assert _contents(home) == before


def _save_too_much(root: str) -> None:
    """Runs in a process of its own, because the limit holds for the whole process."""
    store = StateStore(Home(Path(root)))
    deployment = store.load(NAME)
    deployment.answers["grpo"] = {"padding": "x" * 4 * LIMIT}
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    try:
        store.save(deployment)
    except StateNotSaved as error:
        print(error, error.reason, deployment.serial)


def test_a_write_that_stops_half_way_leaves_the_old_state_and_no_rest(tmp_path: Path) -> None:
    home = Home.choose(str(tmp_path / "home"))
    store = StateStore(home)
    store.save(store.create(NAME, "real", {}))
    before = _contents(home)
    done = subprocess.run(
        [sys.executable, __file__, str(home.root)], capture_output=True, text=True, timeout=60, check=True
    )
    assert "File too large" in done.stdout and done.stdout.rstrip().endswith("2")
    assert _contents(home) == before


def test_a_file_system_without_hard_links_still_gets_its_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    home = Home.choose(str(tmp_path))
    store = StateStore(home)
    deployment = store.create(NAME, "real", {})
    before = home.state_file(NAME).read_bytes()
    store.save(deployment)
    assert home.backup_file(NAME).read_bytes() == before


if __name__ == "__main__":
    _save_too_much(sys.argv[1])
