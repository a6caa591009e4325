"""Start and end drills (catalog.py describes each). They are kept in the state file and survive a restart.

`--drill NAME` starts one with the server. In a running server, `GET /_rehearsal/drills` lists them, `POST
/_rehearsal/drills/NAME` starts one, `DELETE /_rehearsal/drills/NAME` ends one and `DELETE /_rehearsal/drills`
ends all. Entries of a fault file are not affected.
"""

from __future__ import annotations

from collections.abc import Iterable

from grpo_wizard.steps.emulator.context import CLUSTERS, JSON, Record, ResourceStore
from grpo_wizard.steps.emulator.drills.active import ACTIVE
from grpo_wizard.steps.emulator.drills.catalog import DRILL_CATALOG, unknown_drill_error
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER

_SERVICE, _KIND = "rehearsal", "drill"
_RECOVERY_S = (
    600.0  # a pool in ERROR whose machines came after all: some minutes (NVIDIA/aicr issue 2065); inferred
)


def restore(store: ResourceStore) -> None:
    """Resume the drills that the loaded state holds."""
    ACTIVE.clear()
    ACTIVE.update(record.name for record in store.all(_SERVICE, _KIND))


def begin(store: ResourceStore, names: Iterable[str]) -> None:
    """Start drills; those already active continue.

    Raises ValueError, listing the available drills, for an unknown name.
    """
    wanted = list(names)
    if text := unknown_drill_error(wanted):
        raise ValueError(text)
    for name in wanted:
        if name not in ACTIVE:
            body = {"since": round(store.clock.now(), 3)}
            store.put(Record(_SERVICE, _KIND, name, "", "", name, body, hidden=True))
            ACTIVE.add(name)
    _notify_clusters()


def end(store: ResourceStore, names: Iterable[str] | None = None) -> list[str]:
    """End the named drills, or all of them.

    Returns those that were active. Raises ValueError for an unknown name.
    """
    wanted = sorted(ACTIVE) if names is None else list(names)
    if text := unknown_drill_error(wanted):
        raise ValueError(text)
    ended = [name for name in wanted if name in ACTIVE]
    for name in ended:
        record = store.get(_SERVICE, name)
        if record is not None:
            store.remove(record)
        ACTIVE.discard(name)
    if "stock-out" in ended:
        _schedule_recovery(store)
    _notify_clusters()
    return ended


def list_drills(store: ResourceStore) -> list[JSON]:
    """Return every drill with its texts, `running`, and `since` (seconds since the epoch; null where inactive)."""
    since = {record.name: record.body["since"] for record in store.all(_SERVICE, _KIND)}
    return [
        {**drill.to_json(), "running": drill.name in since, "since": since.get(drill.name)}
        for drill in DRILL_CATALOG
    ]


def _schedule_recovery(store: ResourceStore) -> None:
    for pool in store.all(CONTAINER, "node_pool"):
        if pool.state == "failed" and "STOCKOUT" in str(pool.body.get("statusMessage")):
            store.schedule(_RECOVERY_S, "container.heal", pool=pool.key)


def _notify_clusters() -> None:
    for kube in CLUSTERS.values():
        kube.on_pools_changed()
