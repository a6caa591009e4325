"""`kill -9` at chosen moments of apply and destroy, the same command again, and what must then hold."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cli_harness import (
    APPLY,
    DESTROY,
    CliHarness,
    cli_harness,
    create_counts,
    normalized_resources,
    remaining_resources,
)

JSON = dict[str, Any]
Kind = Literal["seconds", "written", "event"]
SEED = 20260130
_RUN_FILES = shutil.ignore_patterns("requests.jsonl", "address.json")
_MARGIN = 0.5  # no two runs take equally long; a kill after the end proves nothing


@dataclass(frozen=True)
class KillPoint:
    """When the process is killed.

    seconds: so long after its first event; written: as soon as the cloud has carried out its `at`th writing request, mostly before the answer
    is noted; event: right after its `at`th event, between an intent on disk and the call, or in the call.
    """

    kind: Kind
    at: float

    def __str__(self) -> str:
        return f"{self.kind} {self.at:g}"


def kill_points(seed: int, count: int, writes: int, events: int, seconds: float) -> list[KillPoint]:
    """`count` moments spread over a run of so many writes, events and seconds; each third part of it has one of each kind."""
    chance = random.Random(seed)
    listed = []
    for number in range(count):
        low, high = number / count, (number + 1) / count
        share = chance.uniform(low, high)
        kind: Kind = ("written", "event", "seconds")[number % 3]  # type: ignore[assignment]
        at = {
            "written": max(1, round(share * writes)),
            "event": max(1, round(share * events)),
            "seconds": round(share * seconds * _MARGIN, 3),
        }[kind]
        listed.append(KillPoint(kind, at))
    return listed


def run_and_kill(harness: CliHarness, arguments: tuple[str, ...], kill_point: KillPoint) -> bool:
    """True when the process was killed; False when it had ended before its moment."""
    before = len(harness.mutating_requests())
    process = harness.start_forked(*arguments)
    dead, over = threading.Event(), threading.Event()

    def kill() -> None:
        dead.set()
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)

    watcher = threading.Thread(
        target=_kill_after_requests, args=(harness, before + int(kill_point.at), kill, over), daemon=True
    )
    if kill_point.kind == "written":
        watcher.start()
    timer = threading.Timer(kill_point.at, kill)
    for count, _ in enumerate(process.stdout, 1):
        if kill_point.kind == "event" and count == kill_point.at:
            kill()
        if kill_point.kind == "seconds" and count == 1:
            timer.start()
    code = process.wait(timeout=240)
    timer.cancel()
    over.set()
    return dead.is_set() and code == -signal.SIGKILL


def _kill_after_requests(
    harness: CliHarness, wanted: int, kill: Callable[[], None], over: threading.Event
) -> None:
    """The record file gets its line when the work is done and before the answer goes out."""
    with harness.server.record.open("rb") as file:
        seen = 0
        while not over.is_set():
            line = file.readline()
            if not line.endswith(b"\n"):
                file.seek(-len(line), os.SEEK_CUR)
                time.sleep(0.001)
                continue
            row = json.loads(line)
            seen += row["method"] != "GET" and not row["path"].endswith(
                (":testIamPermissions", ":getIamPolicy")
            )
            if seen >= wanted:
                kill()
                return


@dataclass(frozen=True)
class KillResult:
    """What came of one kill."""

    kill_point: KillPoint
    killed: bool
    errors: list[str]
    seconds: float

    def __str__(self) -> str:
        verdict = "; ".join(self.errors) or ("held" if self.killed else "held, had ended before")
        return f"{self.kill_point!s:18} {self.seconds:6.1f} s  {verdict}"


def undisturbed_apply(home: Path) -> tuple[dict[str, JSON], int, int, float]:
    """An undisturbed apply on `home`, which stays as it is for destroy rounds: (its world, writes, events, seconds)."""
    with cli_harness(home) as walk:
        walk.init()
        events = walk.events(*APPLY)
        assert events[-1]["ok"], events[-1]["failed"]
        return (
            normalized_resources(walk.server.cloud_resources()),
            len(walk.mutating_requests()),
            len(events),
            float(events[-1]["seconds"]),
        )


def undisturbed_destroy(deployed: Path, home: Path) -> tuple[int, int, float]:
    """On a copy: (writes, events, seconds)."""
    shutil.copytree(deployed, home, ignore=_RUN_FILES)
    with cli_harness(home) as walk:
        events = walk.events(*DESTROY)
        return len(walk.mutating_requests()), len(events), float(events[-1]["seconds"])


def kill_apply(home: Path, kill_point: KillPoint, wanted: dict[str, JSON]) -> KillResult:
    """Kill, then the same command again: the same world as without, and nothing made twice."""
    begun = time.monotonic()
    with cli_harness(home) as walk:
        walk.init()
        killed = run_and_kill(walk, APPLY, kill_point)
        again = walk.run(*APPLY)
        wrong = _exit_errors(again.returncode, again.stdout, again.stderr)
        found = _wait_for_resources(walk, wanted)
        wrong += [
            f"{key} is {found.get(key)}, wanted {wanted.get(key)}"[:600]
            for key in sorted({*found, *wanted})
            if found.get(key) != wanted.get(key)
        ]
        wrong += [
            f"made {count} times: {thing}"
            for thing, count in create_counts(walk.mutating_requests()).items()
            if count > 1
        ]
        wrong += [
            f"{id} is {row['origin']} in the state"
            for id, row in walk.state()["resources"].items()
            if row["origin"] != "created" and row["kind"] not in ("api", "project", "iam_binding")
        ]
        return KillResult(kill_point, killed, wrong, time.monotonic() - begun)


def _wait_for_resources(harness: CliHarness, wanted: dict[str, JSON]) -> dict[str, JSON]:
    """The world once it is as wanted, or after five seconds: a RayCluster's own word comes a moment after its pods'."""
    deadline = time.monotonic() + 5
    while (
        found := normalized_resources(harness.server.cloud_resources())
    ) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def kill_destroy(deployed: Path, home: Path, kill_point: KillPoint) -> KillResult:
    """The same on a copy of a finished deployment: afterwards only what is kept by design, and nothing made anew."""
    begun = time.monotonic()
    shutil.copytree(deployed, home, ignore=_RUN_FILES)
    with cli_harness(home) as walk:
        killed = run_and_kill(walk, DESTROY, kill_point)
        again = walk.run(*DESTROY)
        wrong = _exit_errors(again.returncode, again.stdout, again.stderr)
        wrong += [
            f"left: {row['kind']} {row['name']}" for row in remaining_resources(walk.server.cloud_resources())
        ]
        creates = {
            thing
            for thing in create_counts(walk.mutating_requests())
            if "/connections/" not in thing and ":" not in thing.rpartition("/")[2]
        }
        return KillResult(
            kill_point, killed, wrong + [f"made: {thing}" for thing in creates], time.monotonic() - begun
        )


def _exit_errors(code: int, out: str, err: str) -> list[str]:
    last = out.strip().splitlines()[-1:] or [""]
    return [] if code == 0 else [f"exit {code}: {err.strip()[-600:]} {last[0][-1200:]}"]
