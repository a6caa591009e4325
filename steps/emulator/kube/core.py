"""What all parts of one cluster's Kubernetes share: its settings, its objects, its notes and its clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.copies import copied
from grpo_wizard.steps.emulator.kube.api.defaults import suffix
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.api.store import Store, stamp
from grpo_wizard.steps.emulator.server.context import JSON, Clock, Ground, Heads, lustre_folder


@dataclass
class Kube:
    """One cluster. `notes` is what controllers remember; it is dumped with the objects and must stay plain
    JSON."""

    project: str
    location: str
    name: str
    cluster_key: str
    version: str
    addons: set[str]
    workload_pool: str
    ground: Ground
    heads: Heads | None
    clock: Clock
    ca_path: Path
    token: str
    root: Path
    store: Store
    url: str = ""
    notes: JSON = field(default_factory=dict)
    kick: Callable[[], None] = lambda: None  # asks the controllers to look again soon

    def note(self, name: str) -> JSON:
        """A named drawer of the notes."""
        drawer: JSON = self.notes.setdefault(name, {})
        return drawer

    def due(self, key: str, seconds: float, least: float = 0.0) -> bool:
        """Starts a timer of `seconds` of the real thing's time (`least` seconds of ours) at the first
        call; True once
        it has run out."""
        timers = self.note("timers")
        if key not in timers:
            timers[key] = self.clock.now() + max(self.clock.shrink(seconds), least)
        return bool(timers[key] <= self.clock.now())

    def forget(self, prefix: str) -> None:
        """Drops a timer; with a slash at the end, all timers below it."""
        timers = self.note("timers")
        if not prefix.endswith("/"):
            timers.pop(prefix, None)
            return
        for key in [k for k in timers if k.startswith(prefix)]:
            del timers[key]

    def next_timer(self, looked: float) -> float:
        """Seconds until the next timer that had not run out when the controllers last `looked`; else inf."""
        now = self.clock.now()
        return min(
            (max(at - now, 0.0) for at in self.note("timers").values() if at > looked), default=math.inf
        )

    def change(self, kind: Kind, obj: JSON, edit: Callable[[JSON], None]) -> JSON:
        """Edits a copy of the newest state of an object and stores it. Gone objects are passed over."""
        current = self._newest(kind, obj)
        if current is None:
            return obj
        new = copied(current)
        edit(new)
        return self.store.update(kind, new, own=True)

    def _newest(self, kind: Kind, obj: JSON) -> JSON | None:
        """The same object as it stands now; None when it is gone or another has its name."""
        meta = obj["metadata"]
        found = self.store.find(kind, meta.get("namespace", ""), meta["name"])
        return found if found is not None and found["metadata"]["uid"] == meta["uid"] else None

    def _amend(self, kind: Kind, obj: JSON, fields: JSON) -> JSON:
        """Sets top fields of a stored object; what is below the others is shared with the old one, not copied."""
        return self.store.update(kind, {**obj, "metadata": {**obj["metadata"]}, **fields}, own=True)

    def set_status(self, kind: Kind, obj: JSON, **fields: Any) -> JSON:
        """Changes status fields when they differ."""
        if all(obj.get("status", {}).get(k) == v for k, v in fields.items()):
            return obj
        current = self._newest(kind, obj)
        if current is None:
            return obj
        return self._amend(kind, current, {"status": {**current.get("status", {}), **copied(fields)}})

    def event(
        self, kind: Kind, obj: JSON, reason: str, message: str, source: str, *, warning: bool = False
    ) -> None:
        """Books an Event; the same one again only counts up, as the recorder of Kubernetes does."""
        meta = obj["metadata"]
        namespace = meta.get("namespace") or "default"
        index = self.note("events")
        key = f"{meta['uid']}/{reason}/{source}/{message}"
        known = self.store.find(kinds.EVENT, namespace, index.get(key, ""))
        now = self.store.now()
        if known is not None:
            self._amend(kinds.EVENT, known, {"count": known["count"] + 1, "lastTimestamp": now})
            return
        name = f"{meta['name']}.{suffix(16)}"
        index[key] = name
        about = {
            "kind": kind.kind,
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": kind.api_version,
            "resourceVersion": meta["resourceVersion"],
        }
        self.store.create(
            kinds.EVENT,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {k: v for k, v in about.items() if v},
                "reason": reason,
                "message": message,
                "source": {"component": source},
                "reportingComponent": source,
                "reportingInstance": "",
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
                "type": "Warning" if warning else "Normal",
            },
        )

    def events_of(self, obj: JSON) -> list[JSON]:
        """The events about an object."""
        uid = obj["metadata"]["uid"]
        return [e for e in self.store.list(kinds.EVENT) if e["involvedObject"].get("uid") == uid]

    def stamp(self) -> str:
        return stamp(self.clock.now())

    def lustre_folder(self, handle: str) -> Path:
        """A Lustre instance's data: beside the clusters' folders, so that it outlives pods and clusters."""
        return lustre_folder(self.root.parent, handle)
