"""The emulator's store with many objects: cached encodings, saves in a thread, garbage collection."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.steps.emulator.context import Record
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.store import ObjectStore as Objects
from grpo_wizard.steps.emulator.store.gc_tuning import GcTuning
from grpo_wizard.steps.emulator.store.persistent_store import PersistentStore, ScaledClock

_CLOCK = ScaledClock(float("inf"))


def _record(name: str) -> Record:
    return Record(
        "compute.googleapis.com", "network", name, "p", "global", f"projects/p/{name}", {"name": name}
    )


def _names(path: Path) -> list[str]:
    return [record["name"] for record in msgspec.json.decode(path.read_bytes())["records"]]


def test_a_slow_write_of_an_older_world_does_not_come_after_a_newer_one(tmp_path: Path) -> None:
    async def play() -> list[str]:
        free = threading.Event()
        executor = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(executor)
        executor.submit(free.wait)  # the thread that shall write is held up
        world = PersistentStore(tmp_path / "world.json", _CLOCK)
        world.put(_record("old"))
        while world._dirty:  # until its encoded state waits for the thread
            await asyncio.sleep(0.01)
        assert not world.path.exists(), "the write waits in its thread, the world's own thread goes on"
        world.remove(_record("old"))
        world.put(_record("new"))
        world.save()
        free.set()
        executor.submit(int).result()  # what waited before it is done
        return _names(world.path)

    assert asyncio.run(play()) == ["new"]


def test_what_changes_while_the_file_is_written_is_saved_too(tmp_path: Path) -> None:
    async def play() -> list[str]:
        world = PersistentStore(tmp_path / "world.json", _CLOCK)
        for number in range(30):
            world.put(_record(f"n-{number}"))
            await asyncio.sleep(0.01)
        await asyncio.wait_for(world.wait_until_saved(), 20)
        return _names(world.path)

    assert asyncio.run(play()) == [f"n-{number}" for number in range(30)]


_STEPS = st.lists(
    st.tuples(st.sampled_from(["make", "change", "remove", "dump", "one", "freshen"]), st.integers(0, 4))
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(_STEPS)
def test_kept_encodings_are_those_of_the_objects_as_they_stand(steps: list[tuple[str, int]]) -> None:
    objects = Objects((kinds.CONFIG_MAP,), _CLOCK)
    for number, (what, which) in enumerate(steps):
        _play(objects, what, f"c-{which}", number)
        dumped = {q: msgspec.json.decode(msgspec.json.encode(rows)) for q, rows in objects.dump()["objects"]}
        stand = objects.list(kinds.CONFIG_MAP)
        assert sorted(dumped.get("configmaps", []), key=lambda o: o["metadata"]["name"]) == stand
        again = Objects((kinds.CONFIG_MAP,), _CLOCK)
        again.load({"version": 1, "objects": list(dumped.items())})
        assert again.list(kinds.CONFIG_MAP) == stand


def _play(objects: Objects, what: str, name: str, number: int) -> None:
    stands: Any = objects.find(kinds.CONFIG_MAP, "default", name)
    if what == "make" and stands is None:
        objects.create(kinds.CONFIG_MAP, {"metadata": {"name": name, "namespace": "default"}})
    elif what == "change" and stands is not None:
        changed = objects.update(kinds.CONFIG_MAP, {**stands, "data": {"n": str(number)}})
        assert msgspec.json.decode(bytes(objects.encoded(kinds.CONFIG_MAP, stands))) == stands, (
            "an old version too"
        )
        assert msgspec.json.decode(bytes(objects.encoded(kinds.CONFIG_MAP, changed))) == changed
    elif what == "remove" and stands is not None:
        objects.remove(kinds.CONFIG_MAP, stands)
    elif what == "one" and stands is not None:
        assert msgspec.json.decode(bytes(objects.encoded(kinds.CONFIG_MAP, stands))) == stands
    elif what == "freshen":
        assert len(list(objects.encode_pending())) <= len(objects.list(kinds.CONFIG_MAP))


class _Knot:
    """Two ends of a connection: only the collector can free it."""

    def __init__(self) -> None:
        self.other = self


def _frozen_and_dropped() -> weakref.ref[_Knot]:
    knot = _Knot()
    gc.collect()  # it outlives a full collection, which therefore leaves it out from now on
    return weakref.ref(knot)


def test_what_a_collection_left_out_is_freed_once_nobody_asks() -> None:
    sweeps = GcTuning()
    sweeps.start()
    try:
        seen = _frozen_and_dropped()
        gc.collect()
        sweeps.collect_if_idle(idle=0.0)
        assert seen() is not None and sweeps.partial_collections == 2
        sweeps.collect_if_idle(idle=5.0)
        assert seen() is None and sweeps.partial_collections == 0
    finally:
        sweeps.stop()
    assert gc.get_freeze_count() == 0


def test_a_server_that_is_never_idle_is_swept_too() -> None:
    now = [0.0]
    sweeps = GcTuning(lambda: now[0])
    sweeps.start()
    try:
        seen = _frozen_and_dropped()
        now[0] = 599.0
        sweeps.collect_if_idle(idle=0.0)
        assert seen() is not None
        now[0] = 601.0
        sweeps.collect_if_idle(idle=0.0)
        assert seen() is None
    finally:
        sweeps.stop()
