"""The objects of one cluster: versions, conflicts, finalizers, history for watches. One asyncio thread, no locks.

Stored objects are never modified in place: every write stores a new dict, so readers may keep theirs.
"""

from __future__ import annotations

import bisect
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from grpo_wizard.steps.emulator.context import JSON, Clock
from grpo_wizard.steps.emulator.kube.api import status
from grpo_wizard.steps.emulator.kube.api.copies import deep_copy
from grpo_wizard.steps.emulator.kube.api.encoded import EncodedObjects
from grpo_wizard.steps.emulator.kube.api.kinds import Kind

HISTORY_LIMIT = 4096  # events kept for watches that resume; older versions get 410
_REMOVED_BY_CONTROLLER = (
    "pods",
    "namespaces",
)  # deleted by their node, or when their namespace is emptied

_VERSION_GAP_AFTER_RESTART = 100_000  # changes between two saves of the state file


@dataclass(frozen=True)
class StoreEvent:
    """One change of the store. `old` is the previous version (None for a new object)."""

    version: int
    type: str  # ADDED | MODIFIED | DELETED
    kind: Kind
    object: JSON
    previous: JSON | None


def format_timestamp(seconds: float) -> str:
    """Return the time in RFC 3339, UTC, with whole seconds, as Kubernetes does."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ObjectStore:
    """CRUD of all kinds, with resource versions and a ring buffer of changes."""

    def __init__(self, kinds: tuple[Kind, ...], clock: Clock) -> None:
        self.kinds, self.clock = kinds, clock
        self.version = 1000
        self.history: deque[StoreEvent] = deque(maxlen=HISTORY_LIMIT)
        self.listeners: set[Callable[[StoreEvent], None]] = set()
        self._objects: dict[Kind, dict[tuple[str, str], JSON]] = {kind: {} for kind in kinds}
        self._keys: dict[Kind, list[tuple[str, str]]] = {kind: [] for kind in kinds}  # sorted
        self._sorted: dict[Kind, list[JSON]] = {}
        self._encoded: dict[Kind, EncodedObjects] = {kind: EncodedObjects() for kind in kinds}
        self.deletion_count = (
            0  # counts deletions, requested and completed: the garbage collector runs when it changes
        )

    def now(self) -> str:
        return format_timestamp(self.clock.now())

    def find(self, kind: Kind, namespace: str, name: str) -> JSON | None:
        return self._objects[kind].get((namespace if kind.namespaced else "", name))

    def get(self, kind: Kind, namespace: str, name: str) -> JSON:
        found = self.find(kind, namespace, name)
        if found is None:
            raise status.not_found(kind, name)
        return found

    def list(self, kind: Kind, namespace: str = "") -> list[JSON]:
        """Return all objects of a kind, sorted by namespace and name as etcd does."""
        found = self._sorted.get(kind)
        if found is None:
            rows = self._objects.get(kind, {})
            found = self._sorted[kind] = [rows[key] for key in self._keys.get(kind, ())]
        return [o for o in found if not namespace or o["metadata"].get("namespace") == namespace]

    def count(self, kind: Kind) -> int:
        return len(self._objects[kind])

    def all_objects(self) -> Iterator[tuple[Kind, JSON]]:
        for kind, rows in self._objects.items():
            for obj in list(rows.values()):
                yield kind, obj

    def create(self, kind: Kind, obj: JSON, *, dry_run: bool = False) -> JSON:
        """Store a new object; sets uid, creationTimestamp, generation and resourceVersion."""
        new = deep_copy(obj)
        meta = new["metadata"]
        if (meta.get("namespace", ""), meta["name"]) in self._objects[kind]:
            raise status.already_exists(kind, meta["name"])
        meta.update(uid=str(uuid.uuid4()), creationTimestamp=self.now())
        if "spec" in new and (kind.has_status or kind.is_custom or kind.group):
            meta["generation"] = 1
        meta.pop("deletionTimestamp", None)
        return self._commit("ADDED", kind, new, None, dry_run)

    def update(self, kind: Kind, obj: JSON, *, dry_run: bool = False, take_ownership: bool = False) -> JSON:
        """Replace an object. Its resourceVersion, if any, must be the stored one (409).

        `take_ownership`: the caller gives up `obj` and its metadata, so no copy is needed; nested values may
        be shared with the stored version.
        """
        meta = obj["metadata"]
        old = self.get(kind, meta.get("namespace", ""), meta["name"])
        was = old["metadata"]
        if meta.get("resourceVersion") not in (None, "", was["resourceVersion"]):
            raise status.conflict(kind, meta["name"])
        if meta.get("uid") not in (None, "", was["uid"]):
            raise status.conflict(
                kind,
                meta["name"],
                f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {was['uid']}",
            )
        new = obj if take_ownership else deep_copy(obj)
        for key in (
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ):
            new["metadata"].pop(key, None)
            if key in was:
                new["metadata"][key] = was[key]
        new["metadata"]["resourceVersion"] = was["resourceVersion"]
        if new == old:
            return old
        if "generation" in was and self._generation_fields(new) != self._generation_fields(old):
            new["metadata"]["generation"] = was["generation"] + 1
        if (
            "deletionTimestamp" in was
            and not new["metadata"].get("finalizers")
            and kind.plural not in _REMOVED_BY_CONTROLLER
        ):
            return self._delete(kind, new, dry_run)
        return self._commit("MODIFIED", kind, new, old, dry_run)

    @staticmethod
    def _generation_fields(obj: JSON) -> JSON:
        return {k: v for k, v in obj.items() if k not in ("metadata", "status")}

    def mark_deleted(self, kind: Kind, obj: JSON, grace: int, finalizers: Sequence[str]) -> JSON:
        """Set the deletionTimestamp; the object stays until its finalizers or its node release it."""
        new = deep_copy(obj)
        meta = new["metadata"]
        if finalizers:
            meta["finalizers"] = [*finalizers]
        meta.setdefault(
            "deletionTimestamp", format_timestamp(self.clock.now() + (grace if kind.plural == "pods" else 0))
        )
        meta["deletionGracePeriodSeconds"] = grace
        if "generation" in meta:
            meta["generation"] += 1
        return self._commit("MODIFIED", kind, new, obj, False)

    def remove(self, kind: Kind, obj: JSON) -> JSON:
        """Remove the object."""
        return self._delete(kind, obj, False)

    def _delete(self, kind: Kind, obj: JSON, dry_run: bool) -> JSON:
        meta = obj["metadata"]
        old = self.get(kind, meta.get("namespace", ""), meta["name"])
        return old if dry_run else self._commit("DELETED", kind, deep_copy(obj), old, dry_run)

    def _commit(self, event_type: str, kind: Kind, new: JSON, old: JSON | None, dry_run: bool) -> JSON:
        if dry_run:
            if event_type == "ADDED":
                new["metadata"].pop("resourceVersion", None)
            return new
        self.version += 1
        meta = new["metadata"]
        meta["resourceVersion"] = str(self.version)
        key = (meta.get("namespace", ""), meta["name"])
        self._sorted.pop(kind, None)
        if event_type == "DELETED" or "deletionTimestamp" in meta:
            self.deletion_count += 1
        if event_type == "DELETED":
            self._discard(kind, key)
        else:
            if key not in self._objects[kind]:
                bisect.insort(self._keys[kind], key)
            self._objects[kind][key] = new
            self._encoded[kind].update(key, new)
        change = StoreEvent(self.version, event_type, kind, new, old)
        self.history.append(change)
        for listener in list(self.listeners):
            listener(change)
        return new

    def _discard(self, kind: Kind, key: tuple[str, str]) -> None:
        self._encoded[kind].discard(key)
        if self._objects[kind].pop(key, None) is not None:
            keys = self._keys[kind]
            del keys[bisect.bisect_left(keys, key)]

    def changes_since(self, version: int) -> Sequence[StoreEvent]:
        """Return the changes after `version`. Raises 410 if the ring buffer does not reach back that far."""
        oldest = self.history[0].version if self.history else self.version + 1
        if version < oldest - 1:
            raise status.resource_expired(version, oldest)
        return [change for change in self.history if change.version > version]

    def encoded(self, kind: Kind, obj: JSON) -> msgspec.Raw:
        """Return an object as JSON, encoded once per version."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        if self._objects[kind].get(key) is obj:
            return self._encoded[kind].get(key)
        return msgspec.Raw(msgspec.json.encode(obj))

    def encode_pending(self) -> Iterator[None]:
        """Encode what a dump would have to encode, one object at a time."""
        for encoded in self._encoded.values():
            yield from encoded.encode_pending()

    def dump(self) -> JSON:
        """Return everything for the state file; objects as encoded JSON, so that only changes are encoded again."""
        return {
            "version": self.version,
            "objects": [
                [kind.qualified, self._encoded[kind].all()] for kind, rows in self._objects.items() if rows
            ],
        }

    def load(self, saved: JSON) -> None:
        """Restore a dump. Watches from before the restart get 410 and list again.

        Versions issued before a kill may be unknown: new ones start well above any that can have been issued.
        """
        self.version = int(saved["version"]) + _VERSION_GAP_AFTER_RESTART
        by_name = {kind.qualified: kind for kind in self.kinds}
        for qualified, objects in saved["objects"]:
            if qualified in by_name:
                rows = {(o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in objects}
                kind = by_name[qualified]
                self._objects[kind], self._keys[kind] = rows, sorted(rows)
                for key, obj in rows.items():
                    self._encoded[kind].update(key, obj)
