"""The rehearsal's world.

Records, events to come, a clock that runs fast, and the file that keeps them over a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from grpo_wizard.steps.emulator.server.context import CLUSTERS, EVENT_HANDLERS, JSON, Clock, Record
from grpo_wizard.steps.emulator.store import world_file

_log = logging.getLogger(__name__)
_SAVE_DELAY_S = 0.05  # seconds between a change and its being saved
_FAST_SAVE_S = 0.002  # seconds of work: a save that is waited for; some hundred pods
_SAVE_TIME_DIVISOR = (
    50  # saving may take at most 1/_SHARE of the time: thousands of pods cost several milliseconds
)
_SAVE_RETRY_S = 1.0  # seconds until a save that failed is tried again


class ScaledClock:
    """World time is wall time; what takes long is divided by `speed` (`inf`: no time at all)."""

    def __init__(self, speed: float) -> None:
        self.speed = speed

    def now(self) -> float:
        return time.time()

    def scale(self, seconds: float) -> float:
        return 0.0 if math.isinf(self.speed) else seconds / self.speed


class PersistentStore:
    """All records of all services.

    Implements contract.World; saves itself to `path` (0600) soon after `changed()`.
    """

    def __init__(self, path: Path, clock: ScaledClock) -> None:
        self.path = path
        self.clock: Clock = clock
        self.serial = 0
        self._records: dict[tuple[str, str], Record] = {}
        self._by_kind: dict[tuple[str, str], dict[str, Record]] = {}
        self._events: dict[int, JSON] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._save_task: asyncio.Task[None] | None = None
        self._dirty = False
        self.save_error = ""  # why the file is behind; "" while it is not
        self._last_save_seconds = 0.0  # seconds of work of the last save: a busy machine does not count
        self._write_lock = threading.Lock()
        self._encoded_number, self._written_number = (
            0,
            0,
        )  # numbers of the newest state encoded, and of the one in the file

    # Records

    def get(self, service: str, key: str) -> Record | None:
        return self._records.get((service, key))

    def put(self, record: Record) -> Record:
        self.remove(record)
        self._records[record.service, record.key] = record
        self._by_kind.setdefault((record.service, record.kind), {})[record.key] = record
        self.mark_dirty()
        return record

    def remove(self, record: Record) -> None:
        old = self._records.pop((record.service, record.key), None)
        if old is not None:
            self._by_kind[old.service, old.kind].pop(old.key, None)
        self.mark_dirty()

    def all(
        self,
        service: str | None = None,
        kind: str | None = None,
        *,
        project: str | None = None,
        location: str | None = None,
    ) -> list[Record]:
        groups = (
            group for (s, k), group in self._by_kind.items() if service in (None, s) and kind in (None, k)
        )
        return [
            r
            for r in itertools.chain.from_iterable(g.values() for g in groups)
            if project in (None, r.project) and location in (None, r.location)
        ]

    def next_number(self) -> int:
        """A number never given before in this world."""
        self.serial += 1
        return self.serial

    def project_number(self, project: str) -> str:
        for record in self.all("cloudresourcemanager.googleapis.com", "project"):
            if project in (record.name, record.extra.get("number")):
                return str(record.extra["number"])
        return "0"

    def project_id(self, project: str) -> str:
        """The id of a project given by id or number."""
        for record in self.all("cloudresourcemanager.googleapis.com", "project"):
            if project == record.extra.get("number"):
                return record.name
        return project

    # Events

    def schedule(self, seconds: float, event: str, **args: Any) -> None:
        self.schedule_at(self.clock.now() + self.clock.scale(seconds), event, **args)

    def schedule_at(self, moment: float, event: str, **args: Any) -> None:
        """Like `later`, at a time of the clock (seconds since the epoch), which no speed divides."""
        number = self.next_number()
        self._events[number] = {"due": moment, "event": event, "args": args}
        self._start_timer(number)
        self.mark_dirty()

    def _start_timer(self, number: int) -> None:
        wait = self._events[number]["due"] - self.clock.now()
        self._timers[number] = asyncio.get_running_loop().call_later(max(0.0, wait), self._fire, number)

    def _fire(self, number: int) -> None:
        self._timers.pop(number, None)
        event = self._events.pop(number)
        handler = EVENT_HANDLERS.get(event["event"])
        try:
            if handler is None:
                raise LookupError(f"nothing is registered for the event {event['event']}")
            handler(self, **event["args"])
        except Exception:
            _log.exception("event %s %s failed", event["event"], event["args"])
        self.mark_dirty()

    # The file

    def mark_dirty(self) -> None:
        """Saves soon. Called by put, remove, later, after every request that writes and after every event."""
        self._dirty = True
        if self._save_task is None or self._save_task.done():
            with contextlib.suppress(RuntimeError):  # no loop yet: the world is being seeded
                self._save_task = asyncio.get_running_loop().create_task(self._save_soon())

    def flush(self) -> None:
        """Saves before a write is answered, so that a kill right after forgets nothing that was promised.

        Only while saving is quick; a world with thousands of pods is saved soon instead.
        """
        if self._last_save_seconds < _FAST_SAVE_S:
            self.save()

    async def _save_soon(self) -> None:
        await asyncio.sleep(_SAVE_DELAY_S)
        while self._dirty or self.save_error:
            begun = time.thread_time()
            state = self._encode()
            took = time.thread_time() - begun
            self._last_save_seconds = took + await asyncio.to_thread(self._write, *state)
            await asyncio.sleep(
                max(
                    _SAVE_RETRY_S if self.save_error else _SAVE_DELAY_S,
                    self._last_save_seconds * _SAVE_TIME_DIVISOR,
                )
            )

    def save(self) -> None:
        """Writes the file now; what a thread is still writing is older and does not come after it."""
        begun = time.thread_time()
        self._write(*self._encode())
        self._last_save_seconds = time.thread_time() - begun

    async def wait_until_saved(self) -> None:
        """Wait until the file holds every change so far."""
        while self._save_task is not None and not self._save_task.done():
            await asyncio.shield(self._save_task)

    def _encode(self) -> tuple[int, bytes]:
        """The whole world at this moment, with its number: a few milliseconds, for objects keep their encoding."""
        self._dirty = False
        for key, kube in CLUSTERS.items():
            record = self.get("container.googleapis.com", key)
            if record is not None:
                record.extra["kube"] = kube.dump()
        self._encoded_number += 1
        return self._encoded_number, msgspec.json.encode(
            {
                "version": world_file.VERSION,
                "serial": self.serial,
                "events": list(self._events.values()),
                "records": list(self._records.values()),
            }
        )

    def _write(self, number: int, data: bytes) -> float:
        """Temp file in the same folder, then replace: a kill cannot cut it short. Returns the seconds of work."""
        begun = time.thread_time()
        with self._write_lock:
            if number > self._written_number:
                self._try_write(data, number)
        return time.thread_time() - begun

    def _try_write(self, data: bytes, number: int) -> None:
        """A disk that is full is told once, and tried again: nothing is lost while the server lives."""
        try:
            world_file.replace(self.path, data)
        except OSError as error:
            if not self.save_error:
                _log.error(
                    "%s cannot be written (%s): a kill would lose what was done since", self.path, error
                )
            self.save_error = f"{self.path} cannot be written ({error.strerror or error})"
        else:
            self.save_error, self._written_number = "", number

    def load(self) -> bool:
        """Reads the file and arms its events. False where there is none yet. Needs a running loop.

        Raises world_file.Unreadable.
        """
        if not self.path.exists():
            return False
        self.serial, records, events = world_file.read(self.path)
        for record in records:
            self._records[record.service, record.key] = record
            self._by_kind.setdefault((record.service, record.kind), {})[record.key] = record
        for event in events:
            number = self.next_number()
            self._events[number] = event
            self._start_timer(number)
        return True

    # What is told

    def rows(self) -> Iterator[JSON]:
        """The rows of `/_rehearsal/world`.

        What is not the ground itself, clouds first, then each cluster's Kubernetes.
        """
        for record in self._visible_records():
            yield {
                "service": record.service,
                "kind": record.kind,
                "name": record.name,
                "project": record.project,
                "location": record.location,
                "spec": record.body,
                "state": record.state,
                "kept_by_design": record.kept_by_design,
                "derived": record.derived,
            }
        for kube in CLUSTERS.values():
            yield from kube.rows()

    def count(self) -> int:
        """How many rows there are."""
        return sum(1 for _ in self._visible_records()) + sum(kube.count() for kube in CLUSTERS.values())

    def _visible_records(self) -> Iterator[Record]:
        return (r for r in self._records.values() if not r.hidden and r.kind != "operation")
