"""What a run of the engine has come to, told by its events alone: those of this process, or another one's journal.

A run begins with `plan` and ends with `summary`; a journal may hold several, and the newest counts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_wizard.steps.core.model import Resource
from grpo_wizard.tui.commands._output import thing as thing_name
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import moment
from grpo_wizard.tui.viewmodels.lanes import Group, group_of, groups
from grpo_wizard.tui.widgets.lane import LaneState

_KEPT_LINES = 500
_COUNTED = re.compile(r"\d+ of \d+")  # GKE's counters, nodes and workers: one line a tick would flood the log
# A rehearsal's Ray is a real one: its head and its job start in real time, whatever the speed (measured on two cores).
_REAL_KINDS = ("raycluster", "job")
_REAL_SECONDS = (20.0, 60.0)


@dataclass
class Thing:
    """One resource in this run. Times are seconds since the epoch."""

    id: str
    action: str
    needs: tuple[str, ...] = ()
    sign: str = "wait"
    started: float | None = None
    ended: float | None = None
    detail: str = ""
    counted: tuple[str, str, str] = ("", "", "")
    """The newest line of the log with what it waits for: the next counter takes its place."""


@dataclass(frozen=True)
class Failure:
    """What did not work, why, and the one fix."""

    id: str
    title: str
    detail: str = ""
    fix: str = ""
    command: str = ""


@dataclass
class Story:
    """`usual` are seconds from, to, by resource id, already divided by the pace of the place where it happens."""

    usual: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    things: dict[str, Thing] = field(default_factory=dict)
    begun: float | None = None
    newest: float = 0.0
    summary: Mapping[str, Any] | None = None
    failures: list[Failure] = field(default_factory=list)
    log: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """(time of day, sign key, text), the newest last."""
    job: Mapping[str, Any] | None = None
    lists_fates: bool = False
    """Whether the plan says of each thing as it stands that it goes or stays, as a teardown's does."""

    def take(self, document: Mapping[str, Any]) -> None:
        """One event as it stands in the journal."""
        now = moment(str(document["time"]))
        self.newest = max(self.newest, now)
        handler = getattr(self, f"_{document['event']}", None)
        if handler is not None:
            handler(document, now)

    @property
    def is_undo(self) -> bool:
        """Whether this run takes things down."""
        actions = [thing.action for thing in self.things.values()]
        return bool(actions) and (self.lists_fates or all(action == "delete" for action in actions))

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return bool(self.summary and self.summary.get("ok"))

    @property
    def leaves_nothing(self) -> bool:
        """Whether it took everything down that was to go."""
        return (
            self.ok
            and self.is_undo
            and self.summary is not None
            and self.summary.get("next") == "nothing left"
        )

    def _plan(self, document: Mapping[str, Any], now: float) -> None:
        self.things = {
            row["id"]: Thing(row["id"], row["action"], tuple(row.get("needs", ())))
            for row in document["resources"]
        }
        self.lists_fates = all(
            row["action"] in ("delete", "keep") and "state" in row for row in document["resources"]
        )
        for thing in self.things.values():
            if thing.action in ("keep", "adopt") or (
                thing.action == "delete" and self._is_absent(document, thing.id)
            ):
                thing.sign = "kept" if thing.action != "delete" else "gone"
        self.begun, self.summary, self.job = now, None, None
        self.failures.clear()
        self.log.clear()

    def _is_absent(self, document: Mapping[str, Any], id: str) -> bool:
        return any(row["id"] == id and row.get("state") == "absent" for row in document["resources"])

    def _resource_started(self, document: Mapping[str, Any], now: float) -> None:
        thing = self._thing(document)
        thing.sign, thing.started, thing.ended, thing.action = (
            "work",
            now,
            None,
            document.get("action", thing.action),
        )
        self._say(document, "work", _("started"))

    def _resource_waiting(self, document: Mapping[str, Any], now: float) -> None:
        thing, detail = self._thing(document), str(document.get("detail", ""))
        if _COUNTED.search(thing.detail) and _COUNTED.search(detail) and thing.counted in self.log:
            self.log.remove(thing.counted)
        thing.detail = detail
        thing.counted = self._say(document, "look", detail)

    def _resource_done(self, document: Mapping[str, Any], now: float) -> None:
        thing = self._thing(document)
        thing.sign, thing.ended, thing.detail = "gone" if thing.action == "delete" else "done", now, ""
        self._say(document, thing.sign, (thing.sign == "gone" and _("deleted")) or _("done"))

    def _resource_failed(self, document: Mapping[str, Any], now: float) -> None:
        thing = self._thing(document)
        thing.sign, thing.ended, thing.detail = "failed", now, str(document.get("title", ""))
        self.failures.append(_failure(document))
        self._say(document, "failed", str(document.get("title", "")))

    def _retry(self, document: Mapping[str, Any], now: float) -> None:
        self._say(document, "warn", _("{why}: trying again").format(why=document.get("detail", "")))

    def _notice(self, document: Mapping[str, Any], now: float) -> None:
        thing = self.things.get(str(document.get("id") or ""))
        if thing is not None and thing.action == "delete" and thing.sign == "wait":
            thing.sign = "kept"  # what is not begun and is told of stays
        self._say(document, "info", str(document.get("detail", "")))

    def _job(self, document: Mapping[str, Any], now: float) -> None:
        self.job = document
        step = (
            f" {document['step']}/{document.get('total_steps')}" if document.get("step") is not None else ""
        )
        self._say(
            document, "training", f"{document.get('status', '')}{step} {document.get('detail', '')}".strip()
        )

    def _summary(self, document: Mapping[str, Any], now: float) -> None:
        self.summary = document
        for thing in self.things.values() if document.get("ok") else ():
            if thing.sign == "wait":  # it was not there when its turn came, or needed nothing
                thing.sign = "gone" if thing.action == "delete" else "kept"
        told = {failure.id for failure in self.failures}
        self.failures += [
            _failure(entry) for entry in document.get("failed", ()) if entry.get("id") not in told
        ]
        self.log.append(
            (
                clock_time(document),
                "done" if document.get("ok") else "failed",
                _("all done") if document.get("ok") else _("not done"),
            )
        )

    def _thing(self, document: Mapping[str, Any]) -> Thing:
        id = str(document.get("id", ""))
        return self.things.setdefault(id, Thing(id, str(document.get("action", "create"))))

    def _say(self, document: Mapping[str, Any], sign: str, text: str) -> tuple[str, str, str]:
        name = thing_name(str(document.get("id") or ""))
        told = text if text.startswith(name) else f"{name}  {text}"
        self.log.append((clock_time(document), sign, told))
        return self.log[-1]

    # --- as lanes

    def lanes(self, now: float) -> list[LaneState]:
        """One lane for each group of things, in the order in which they are usually made."""
        begun = self.begun or now
        placed: dict[str, list[Thing]] = {}
        for thing in self.things.values():
            placed.setdefault(group_of(thing.id), []).append(thing)
        pole = self._long_pole(placed)
        return [
            self._lane(group, placed[group.key], begun, group.key == pole)
            for group in groups()
            if group.key in placed
        ]

    def _lane(self, group: Group, things: Sequence[Thing], begun: float, pole: bool) -> LaneState:
        signs = [thing.sign for thing in things]
        started = [t.started for t in things if t.started is not None]
        open_things = [t for t in things if t.sign in ("work", "wait")]
        ended = [t.ended for t in things if t.ended is not None]
        state = _sign_of(signs, bool(started))
        return LaneState(
            group.title(things),
            state,
            min(started) - begun if started else None,
            max(ended) - begun if ended and state != "work" else None,
            _counter(things),
            self._note(things, state),
            self._usual_of(open_things) if open_things else None,
            pole and state == "work",
        )

    def _note(self, things: Sequence[Thing], state: str) -> str:
        if state == "failed":
            return next(t.detail for t in things if t.sign == "failed")
        if state == "kept":
            return _("stays") if self.is_undo else _("there already")
        if state == "gone":
            return "" if any(t.started for t in things) else _("was not there")
        mine = {t.id for t in things}
        needs = {
            group_of(n)
            for t in things
            for n in t.needs
            if n not in mine and self.things.get(n) and self.things[n].sign in ("wait", "work", "failed")
        }
        names = [
            group.short for group in groups() if group.key in needs and group.key != group_of(things[0].id)
        ]
        return _("needs {names}").format(names=", ".join(names)) if names else ""

    def _usual_of(self, things: Sequence[Thing]) -> tuple[float, float] | None:
        ranges = [self.usual[t.id] for t in things if t.id in self.usual]
        if not ranges or self.is_undo:
            return None
        return max(ranges, key=lambda pair: pair[1])

    def _long_pole(self, placed: Mapping[str, Sequence[Thing]]) -> str:
        """The group that is being made and usually takes longest of those; the job is no part of making."""
        ends = {
            key: usual[1]
            for key, things in placed.items()
            if key != "job"
            and any(t.sign == "work" for t in things)
            and (usual := self._usual_of([t for t in things if t.sign == "work"]))
        }
        return max(ends, key=lambda key: ends[key]) if ends else ""

    def expected(self) -> tuple[float, float]:
        """Seconds from, to, that the longest chain of what is (or was) to be made usually takes, without the job."""
        return self._chain(0), self._chain(1)

    def _chain(self, end: int) -> float:
        finish: dict[str, float] = {}

        def at(id: str) -> float:
            if id not in finish:
                thing = self.things.get(id)
                if thing is None or group_of(id) == "job":
                    return 0.0
                finish[id] = 0.0
                took = self.usual.get(id, (0.0, 0.0))[end] if thing.action not in ("keep", "adopt") else 0.0
                finish[id] = max((at(need) for need in thing.needs), default=0.0) + took
            return finish[id]

        return max((at(id) for id in self.things), default=0.0)


def usual_times(resources: Sequence[Resource], pace: float) -> dict[str, tuple[float, float]]:
    """By id, in the seconds of a place that is `pace` times faster; nothing is usual where everything is at once."""
    if pace == float("inf"):
        return {}
    return {r.id: _usual_at(r, pace) for r in resources}


def _usual_at(resource: Resource, pace: float) -> tuple[float, float]:
    low, high = resource.usual.low / pace, resource.usual.high / pace
    if pace > 1 and resource.kind in _REAL_KINDS:
        return max(low, _REAL_SECONDS[0]), max(high, _REAL_SECONDS[1])
    return low, high


def clock_time(document: Mapping[str, Any]) -> str:
    """hh:mm:ss of an event, UTC, as it stands in the journal."""
    return str(document["time"])[11:19]


def _failure(entry: Mapping[str, Any]) -> Failure:
    return Failure(*(str(entry.get(key) or "") for key in ("id", "title", "detail", "fix", "command")))


def _sign_of(signs: Sequence[str], started: bool) -> str:
    if "failed" in signs:
        return "failed"
    if "work" in signs or (started and "wait" in signs):
        return "work"
    if "wait" in signs:
        return "wait"
    for key in ("done", "gone"):
        if key in signs:
            return key
    return "kept"


def _counter(things: Sequence[Thing]) -> str:
    """The cloud's own words where one thing works; how many of how many where there are several."""
    if len(things) == 1:
        return things[0].detail if things[0].sign == "work" else ""
    ended = sum(t.sign in ("done", "kept", "gone") for t in things)
    return _("{n} of {all}").format(n=ended, all=len(things)) if ended < len(things) else ""
