"""The context that all parts of one cluster share: settings, objects, controller state, clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_wizard.steps.emulator.context import JSON, Clock, CloudBackend, RayHeadManager, lustre_folder
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.copies import deep_copy
from grpo_wizard.steps.emulator.kube.api.defaults import random_suffix
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.api.store import ObjectStore, format_timestamp


@dataclass
class ClusterContext:
    """The context of one cluster.

    `controller_state` is what controllers remember; it is dumped with the objects and must stay plain JSON.
    """

    project: str
    location: str
    name: str
    cluster_key: str
    version: str
    addons: set[str]
    workload_pool: str
    cloud: CloudBackend
    heads: RayHeadManager | None
    clock: Clock
    ca_path: Path
    token: str
    root: Path
    store: ObjectStore
    url: str = ""
    controller_state: JSON = field(default_factory=dict)
    request_reconcile: Callable[[], None] = lambda: None  # schedules a run of the controllers
    match_fault: Callable[[str, str, str], JSON] = lambda service, method, path: {}  # of forwarded requests

    def controller_state_for(self, name: str) -> JSON:
        """Return a named section of the controller state."""
        section: JSON = self.controller_state.setdefault(name, {})
        return section

    def timer_expired(self, key: str, seconds: float, min_real_seconds: float = 0.0) -> bool:
        """Start a timer of `seconds` of real duration (at least `min_real_seconds` of wall time) at the first call.

        Returns True once it has expired.
        """
        timers = self.controller_state_for("timers")
        if key not in timers:
            timers[key] = self.clock.now() + max(self.clock.scale(seconds), min_real_seconds)
        return bool(timers[key] <= self.clock.now())

    def cancel_timers(self, prefix: str) -> None:
        """Cancel a timer; with a trailing slash, all timers with that prefix."""
        timers = self.controller_state_for("timers")
        if not prefix.endswith("/"):
            timers.pop(prefix, None)
            return
        for key in [k for k in timers if k.startswith(prefix)]:
            del timers[key]

    def next_timer(self, last_reconciled_at: float) -> float:
        """Return the seconds until the next timer that had not expired at the last reconciliation; otherwise inf."""
        now = self.clock.now()
        return min(
            (
                max(at - now, 0.0)
                for at in self.controller_state_for("timers").values()
                if at > last_reconciled_at
            ),
            default=math.inf,
        )

    def edit_object(self, kind: Kind, obj: JSON, edit: Callable[[JSON], None]) -> JSON:
        """Edit a copy of an object's newest version and store it. Ignores deleted objects."""
        current = self._current(kind, obj)
        if current is None:
            return obj
        new = deep_copy(current)
        edit(new)
        return self.store.update(kind, new, take_ownership=True)

    def _current(self, kind: Kind, obj: JSON) -> JSON | None:
        """Return the object's current version; None if it is gone or replaced by another of its name."""
        meta = obj["metadata"]
        found = self.store.find(kind, meta.get("namespace", ""), meta["name"])
        return found if found is not None and found["metadata"]["uid"] == meta["uid"] else None

    def _replace_fields(self, kind: Kind, obj: JSON, fields: JSON) -> JSON:
        """Replace top-level fields of a stored object; the other fields are shared with its old version."""
        return self.store.update(
            kind, {**obj, "metadata": {**obj["metadata"]}, **fields}, take_ownership=True
        )

    def set_status(self, kind: Kind, obj: JSON, **fields: Any) -> JSON:
        """Set status fields that differ."""
        if all(obj.get("status", {}).get(k) == v for k, v in fields.items()):
            return obj
        current = self._current(kind, obj)
        if current is None:
            return obj
        return self._replace_fields(
            kind, current, {"status": {**current.get("status", {}), **deep_copy(fields)}}
        )

    def record_event(
        self, kind: Kind, obj: JSON, reason: str, message: str, source: str, *, warning: bool = False
    ) -> None:
        """Record an Event; repetitions increase its count, as Kubernetes' event recorder does."""
        meta = obj["metadata"]
        namespace = meta.get("namespace") or "default"
        index = self.controller_state_for("events")
        key = f"{meta['uid']}/{reason}/{source}/{message}"
        known = self.store.find(kinds.EVENT, namespace, index.get(key, ""))
        now = self.store.now()
        if known is not None:
            self._replace_fields(kinds.EVENT, known, {"count": known["count"] + 1, "lastTimestamp": now})
            return
        name = f"{meta['name']}.{random_suffix(16)}"
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
        """Return the events about an object."""
        uid = obj["metadata"]["uid"]
        return [e for e in self.store.list(kinds.EVENT) if e["involvedObject"].get("uid") == uid]

    def timestamp(self) -> str:
        return format_timestamp(self.clock.now())

    def lustre_folder(self, handle: str) -> Path:
        """Return the folder of a Lustre instance's data, outside the cluster's folder: it outlives pods and clusters."""
        return lustre_folder(self.root.parent, handle)
