"""kill -9 during saves, with real processes: the state can always be read, and its serial never goes back."""

import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import StateChanged, StateMissing
from grpo_wizard.state.home import Home
from grpo_wizard.state.store import StateStore

NAME = "nemo-cluster"
SEED = 20260131
# Each victim is forked from a clean server process: a fresh interpreter for each of a hundred costs a minute,
# and a fork of the tests' own process carries the locks of whatever threads other tests have left.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["__main__", "grpo_wizard.state.store"])
EVENTS = {"open", "os.link", "os.rename", "os.remove"}


def _save_for_ever(home: Home, told: Connection) -> None:
    store = StateStore(home)
    deployment = store.load(NAME)
    while True:
        deployment.answers["grpo"] = {"padding": "x" * random.randrange(50_000)}
        told.send(store.save(deployment).serial)


def test_a_process_killed_at_seeded_moments_of_its_saves_loses_nothing_that_it_told(tmp_path: Path) -> None:
    home, chance = Home.choose(str(tmp_path)), random.Random(SEED)
    store = StateStore(home)
    reached = store.create(NAME, "real", {}).serial
    for _ in range(40):
        ear, mouth = FORK.Pipe(duplex=False)
        child = FORK.Process(target=_save_for_ever, args=(home, mouth))
        child.start()
        mouth.close()
        told = [ear.recv()]
        child.join(chance.uniform(0, 0.03))
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        told += _what_else(ear)
        serial = store.load(NAME).serial
        assert told == list(range(reached + 1, told[-1] + 1)), f"seed {SEED}"
        assert serial in (told[-1], told[-1] + 1), f"seed {SEED}"
        reached = serial
    store.save(store.load(NAME))
    assert _rests(home) == []


def _rests(home: Home) -> list[Path]:
    """Temporary files that were left."""
    return [path for path in home.folder(NAME).iterdir() if path.name.endswith(".new")]


def _what_else(ear: Connection) -> list[int]:
    told = []
    try:
        while True:
            told.append(ear.recv())
    except EOFError:
        return told


def _die_at(count: int, work: Callable[[Home], Any], home: Home) -> None:
    """Do the work; die by SIGKILL just before its `count`-th act on the file system."""
    left = count

    def hook(event: str, _: tuple[Any, ...]) -> None:
        nonlocal left
        if event in EVENTS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    work(home)


def _killed(count: int, work: Callable[[Home], Any], home: Home) -> bool:
    child = FORK.Process(target=_die_at, args=(count, work, home))
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


def test_a_save_killed_before_each_act_on_the_disk_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    home = Home.choose(str(tmp_path))
    store = StateStore(home)
    store.save(store.create(NAME, "real", {}))
    kills = 0
    while True:
        before = store.load(NAME)
        died = _killed(kills + 1, _save_once, home)
        after = store.load(NAME)
        assert after.serial in (before.serial, before.serial + 1)
        assert Home(tmp_path).backup_file(NAME).exists()
        if not died:
            break
        kills += 1
    assert kills >= 6
    assert after.serial == before.serial + 1
    assert _rests(home) == []


def test_a_create_killed_before_each_act_leaves_nothing_or_a_whole_state(tmp_path: Path) -> None:
    kills = 0
    while True:
        home = Home.choose(str(tmp_path / str(kills)))
        store = StateStore(home)
        died = _killed(kills + 1, _create, home)
        try:
            assert store.load(NAME).serial == 1
        except StateMissing:
            assert store.create(NAME, "real", {}).serial == 1
        if not died:
            break
        kills += 1
    assert kills >= 3


def _create(home: Home) -> None:
    StateStore(home).create(NAME, "real", {})


def _save_often(home: Home, times: int) -> None:
    for _ in range(times):
        _save_once(home)


def _save_once(home: Home) -> None:
    store = StateStore(home)
    while True:
        try:
            store.save(store.load(NAME))
            return
        except StateChanged:
            continue


def test_processes_that_save_at_once_without_a_lock_never_undo_each_other(tmp_path: Path) -> None:
    home = Home.choose(str(tmp_path))
    StateStore(home).create(NAME, "real", {})
    children = [FORK.Process(target=_save_often, args=(home, 15)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert StateStore(home).load(NAME).serial == 1 + 3 * 15
