"""The emulator's store: records, scheduled events, a scaled clock, and the file that persists them."""

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

from grpo_wizard.steps.emulator.context import CLUSTERS, EVENT_HANDLERS, JSON, Clock, Record
from grpo_wizard.steps.emulator.store import state_file

_log = logging.getLogger(__name__)
_SAVE_DELAY_S = 0.05  # seconds between a change and its saving
_FAST_SAVE_S = 0.002  # a save of at most this duration is done before responding (some hundred pods)
_SAVE_TIME_DIVISOR = 50  # saving takes at most 1/50 of the time: thousands of pods take several milliseconds
_SAVE_RETRY_S = 1.0  # seconds until a failed save is retried


class ScaledClock:
    """Wall time; durations are divided by `speed` (`inf` skips them)."""

    def __init__(self, speed: float) -> None:
        self.speed = speed

    def now(self) -> float:
        return time.time()

    def scale(self, seconds: float) -> float:
        return 0.0 if math.isinf(self.speed) else seconds / self.speed


class PersistentStore:
    """All records of all services.

    Implements context.ResourceStore; saves itself to `path` (0600) soon after `mark_dirty()`.
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
        self.save_error = ""  # why the file is out of date; "" while it is current
        self._last_save_seconds = 0.0  # CPU seconds of the last save, so that a busy machine does not count
        self._write_lock = threading.Lock()
        self._encoded_number, self._written_number = (
            0,
            0,
        )  # numbers of the newest encoded state and of the state in the file

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
        """Return a number that was never returned before."""
        self.serial += 1
        return self.serial

    def project_number(self, project: str) -> str:
        for record in self.all("cloudresourcemanager.googleapis.com", "project"):
            if project in (record.name, record.extra.get("number")):
                return str(record.extra["number"])
        return "0"

    def project_id(self, project: str) -> str:
        """Return the id of a project given by id or number."""
        for record in self.all("cloudresourcemanager.googleapis.com", "project"):
            if project == record.extra.get("number"):
                return record.name
        return project

    # Events

    def schedule(self, seconds: float, event: str, **args: Any) -> None:
        self.schedule_at(self.clock.now() + self.clock.scale(seconds), event, **args)

    def schedule_at(self, moment: float, event: str, **args: Any) -> None:
        """Like `schedule`, at an absolute time (seconds since the epoch)."""
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
                raise LookupError(f"no handler is registered for the event {event['event']}")
            handler(self, **event["args"])
        except Exception:
            _log.exception("event %s %s failed", event["event"], event["args"])
        self.mark_dirty()

    # The file

    def mark_dirty(self) -> None:
        """Schedule a save.

        Called by put, remove, schedule, after every request that writes and after every event.
        """
        self._dirty = True
        if self._save_task is None or self._save_task.done():
            with contextlib.suppress(RuntimeError):  # no loop yet: the initial state is being created
                self._save_task = asyncio.get_running_loop().create_task(self._save_soon())

    def flush(self) -> None:
        """Save before a write is answered, so that a kill right afterwards loses nothing that was confirmed.

        Only while saving is fast; a store with thousands of pods is saved soon afterwards instead.
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
        """Write the file now; an older state that a thread is still writing does not replace it."""
        begun = time.thread_time()
        self._write(*self._encode())
        self._last_save_seconds = time.thread_time() - begun

    async def wait_until_saved(self) -> None:
        """Wait until the file holds every change so far."""
        while self._save_task is not None and not self._save_task.done():
            await asyncio.shield(self._save_task)

    def _encode(self) -> tuple[int, bytes]:
        """Encode the current state, with its number.

        Takes milliseconds, because objects keep their encoding.
        """
        self._dirty = False
        for key, kube in CLUSTERS.items():
            record = self.get("container.googleapis.com", key)
            if record is not None:
                record.extra["kube"] = kube.dump()
        self._encoded_number += 1
        return self._encoded_number, msgspec.json.encode(
            {
                "version": state_file.VERSION,
                "serial": self.serial,
                "events": list(self._events.values()),
                "records": list(self._records.values()),
            }
        )

    def _write(self, number: int, data: bytes) -> float:
        """Write a temporary file and rename it, so that a kill cannot truncate it.

        Returns the CPU seconds.
        """
        begun = time.thread_time()
        with self._write_lock:
            if number > self._written_number:
                self._try_write(data, number)
        return time.thread_time() - begun

    def _try_write(self, data: bytes, number: int) -> None:
        """Write the file; a full disk is logged once and retried: nothing is lost while the server runs."""
        try:
            state_file.replace(self.path, data)
        except OSError as error:
            if not self.save_error:
                _log.error(
                    "%s cannot be written (%s); if the server is killed, unsaved changes will be lost",
                    self.path,
                    error,
                )
            self.save_error = f"{self.path} cannot be written ({error.strerror or error})"
        else:
            self.save_error, self._written_number = "", number

    def load(self) -> bool:
        """Read the file and schedule its events. Returns False if there is no file yet. Needs a running loop.

        Raises state_file.StoreUnreadable.
        """
        if not self.path.exists():
            return False
        self.serial, records, events = state_file.read(self.path)
        for record in records:
            self._records[record.service, record.key] = record
            self._by_kind.setdefault((record.service, record.kind), {})[record.key] = record
        for event in events:
            number = self.next_number()
            self._events[number] = event
            self._start_timer(number)
        return True

    # The rows of /_rehearsal/world

    def rows(self) -> Iterator[JSON]:
        """Return the rows of `/_rehearsal/world`: the cloud's first, then each cluster's; initial state is left out."""
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
        """Return the number of rows."""
        return sum(1 for _ in self._visible_records()) + sum(kube.count() for kube in CLUSTERS.values())

    def _visible_records(self) -> Iterator[Record]:
        return (r for r in self._records.values() if not r.hidden and r.kind != "operation")
