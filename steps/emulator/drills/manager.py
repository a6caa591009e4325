"""Begins and ends the drills (drill_texts.py says what each is). They are kept in the world's file and survive a restart.

At the start by `--drill NAME`; in a running server `GET /_rehearsal/drills` lists them, `POST /_rehearsal/drills/NAME`
begins one, `DELETE /_rehearsal/drills/NAME` ends it, `DELETE /_rehearsal/drills` all. A fault file's entries are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from grpo_wizard.steps.emulator.drills.active import RUNNING
from grpo_wizard.steps.emulator.drills.catalog import CATALOGUE, unknown
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER
from grpo_wizard.steps.emulator.server.context import JSON, KUBES, Record, World

_SERVICE, _KIND = "rehearsal", "drill"
_HEALS_S = (
    600.0  # a pool in ERROR whose machines came after all: some minutes (NVIDIA/aicr issue 2065); inferred
)


def restore(world: World) -> None:
    """After the world was read: the drills that ran in it run on."""
    RUNNING.clear()
    RUNNING.update(record.name for record in world.all(_SERVICE, _KIND))


def begin(world: World, names: Iterable[str]) -> None:
    """Starts drills; one that runs runs on. Raises ValueError with the names that there are."""
    wanted = list(names)
    if text := unknown(wanted):
        raise ValueError(text)
    for name in wanted:
        if name not in RUNNING:
            body = {"since": round(world.clock.now(), 3)}
            world.put(Record(_SERVICE, _KIND, name, "", "", name, body, hidden=True))
            RUNNING.add(name)
    _wake()


def end(world: World, names: Iterable[str] | None = None) -> list[str]:
    """Ends drills, or all of them. Returns those that ran. Raises ValueError with the names that there are."""
    wanted = sorted(RUNNING) if names is None else list(names)
    if text := unknown(wanted):
        raise ValueError(text)
    ended = [name for name in wanted if name in RUNNING]
    for name in ended:
        record = world.get(_SERVICE, name)
        if record is not None:
            world.remove(record)
        RUNNING.discard(name)
    if "stock-out" in ended:
        _heal(world)
    _wake()
    return ended


def listed(world: World) -> list[JSON]:
    """Every drill with its texts, whether it runs, and since when (seconds since the epoch; null: it does not)."""
    since = {record.name: record.body["since"] for record in world.all(_SERVICE, _KIND)}
    return [
        {**drill.document(), "running": drill.name in since, "since": since.get(drill.name)}
        for drill in CATALOGUE
    ]


def _heal(world: World) -> None:
    for pool in world.all(CONTAINER, "node_pool"):
        if pool.state == "failed" and "STOCKOUT" in str(pool.body.get("statusMessage")):
            world.later(_HEALS_S, "container.heal", pool=pool.key)


def _wake() -> None:
    for kube in KUBES.values():
        kube.pools_changed()
