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
from grpo_wizard.tui.commands._output import resource_label as thing_name
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import parse_time
from grpo_wizard.tui.viewmodels.lanes import LaneGroup, lane_groups, lane_key
from grpo_wizard.tui.widgets.lane import LaneState

_MAX_LOG_LINES = 500
_COUNTER = re.compile(r"\d+ of \d+")  # GKE's counters, nodes and workers: one line a tick would flood the log
# A rehearsal's Ray is a real one: its head and its job start in real time, whatever the speed (measured on two cores).
_REAL_TIME_KINDS = ("raycluster", "job")
_REAL_TIME_SECONDS = (20.0, 60.0)


@dataclass
class ResourceProgress:
    """One resource in this run. Times are seconds since the epoch."""

    id: str
    action: str
    depends_on: tuple[str, ...] = ()
    status: str = "wait"
    started: float | None = None
    ended: float | None = None
    detail: str = ""
    counter_line: tuple[str, str, str] = ("", "", "")
    """The newest line of the log with what it waits for: the next counter takes its place."""


@dataclass(frozen=True)
class ResourceFailure:
    """What did not work, why, and the one fix."""

    id: str
    title: str
    detail: str = ""
    fix: str = ""
    command: str = ""


@dataclass
class RunProgress:
    """`usual` are seconds from, to, by resource id, already divided by the pace of the place where it happens."""

    estimates: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    resources: dict[str, ResourceProgress] = field(default_factory=dict)
    started_at: float | None = None
    last_event_at: float = 0.0
    summary: Mapping[str, Any] | None = None
    failures: list[ResourceFailure] = field(default_factory=list)
    log: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=_MAX_LOG_LINES))
    """(time of day, sign key, text), the newest last."""
    job: Mapping[str, Any] | None = None
    is_destroy_plan: bool = False
    """Whether the plan says of each thing as it stands that it goes or stays, as a teardown's does."""

    def apply_event(self, document: Mapping[str, Any]) -> None:
        """One event as it stands in the journal."""
        now = parse_time(str(document["time"]))
        self.last_event_at = max(self.last_event_at, now)
        handler = getattr(self, f"_{document['event']}", None)
        if handler is not None:
            handler(document, now)

    @property
    def is_destroy(self) -> bool:
        """Whether this run takes things down."""
        actions = [thing.action for thing in self.resources.values()]
        return bool(actions) and (self.is_destroy_plan or all(action == "delete" for action in actions))

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return bool(self.summary and self.summary.get("ok"))

    @property
    def is_empty(self) -> bool:
        """Whether it took everything down that was to go."""
        return (
            self.ok
            and self.is_destroy
            and self.summary is not None
            and self.summary.get("next") == "nothing left"
        )

    def _plan(self, document: Mapping[str, Any], now: float) -> None:
        self.resources = {
            row["id"]: ResourceProgress(row["id"], row["action"], tuple(row.get("needs", ())))
            for row in document["resources"]
        }
        self.is_destroy_plan = all(
            row["action"] in ("delete", "keep") and "state" in row for row in document["resources"]
        )
        for thing in self.resources.values():
            if thing.action in ("keep", "adopt") or (
                thing.action == "delete" and self._is_absent(document, thing.id)
            ):
                thing.status = "kept" if thing.action != "delete" else "gone"
        self.started_at, self.summary, self.job = now, None, None
        self.failures.clear()
        self.log.clear()

    def _is_absent(self, document: Mapping[str, Any], id: str) -> bool:
        return any(row["id"] == id and row.get("state") == "absent" for row in document["resources"])

    def _resource_started(self, document: Mapping[str, Any], now: float) -> None:
        thing = self._resource(document)
        thing.status, thing.started, thing.ended, thing.action = (
            "work",
            now,
            None,
            document.get("action", thing.action),
        )
        self._append_log(document, "work", _("started"))

    def _resource_waiting(self, document: Mapping[str, Any], now: float) -> None:
        thing, detail = self._resource(document), str(document.get("detail", ""))
        if _COUNTER.search(thing.detail) and _COUNTER.search(detail) and thing.counter_line in self.log:
            self.log.remove(thing.counter_line)
        thing.detail = detail
        thing.counter_line = self._append_log(document, "look", detail)

    def _resource_done(self, document: Mapping[str, Any], now: float) -> None:
        thing = self._resource(document)
        thing.status, thing.ended, thing.detail = "gone" if thing.action == "delete" else "done", now, ""
        self._append_log(document, thing.status, (thing.status == "gone" and _("deleted")) or _("done"))

    def _resource_failed(self, document: Mapping[str, Any], now: float) -> None:
        thing = self._resource(document)
        thing.status, thing.ended, thing.detail = "failed", now, str(document.get("title", ""))
        self.failures.append(_failure(document))
        self._append_log(document, "failed", str(document.get("title", "")))

    def _retry(self, document: Mapping[str, Any], now: float) -> None:
        self._append_log(document, "warn", _("{why}: trying again").format(why=document.get("detail", "")))

    def _notice(self, document: Mapping[str, Any], now: float) -> None:
        thing = self.resources.get(str(document.get("id") or ""))
        if thing is not None and thing.action == "delete" and thing.status == "wait":
            thing.status = "kept"  # what is not begun and is told of stays
        self._append_log(document, "info", str(document.get("detail", "")))

    def _job(self, document: Mapping[str, Any], now: float) -> None:
        self.job = document
        step = (
            f" {document['step']}/{document.get('total_steps')}" if document.get("step") is not None else ""
        )
        self._append_log(
            document, "training", f"{document.get('status', '')}{step} {document.get('detail', '')}".strip()
        )

    def _summary(self, document: Mapping[str, Any], now: float) -> None:
        self.summary = document
        for thing in self.resources.values() if document.get("ok") else ():
            if thing.status == "wait":  # it was not there when its turn came, or needed nothing
                thing.status = "gone" if thing.action == "delete" else "kept"
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

    def _resource(self, document: Mapping[str, Any]) -> ResourceProgress:
        id = str(document.get("id", ""))
        return self.resources.setdefault(id, ResourceProgress(id, str(document.get("action", "create"))))

    def _append_log(self, document: Mapping[str, Any], status: str, text: str) -> tuple[str, str, str]:
        name = thing_name(str(document.get("id") or ""))
        told = text if text.startswith(name) else f"{name}  {text}"
        self.log.append((clock_time(document), status, told))
        return self.log[-1]

    # --- as lanes

    def lanes(self, now: float) -> list[LaneState]:
        """One lane for each group of things, in the order in which they are usually made."""
        begun = self.started_at or now
        placed: dict[str, list[ResourceProgress]] = {}
        for thing in self.resources.values():
            placed.setdefault(lane_key(thing.id), []).append(thing)
        pole = self._critical_path(placed)
        return [
            self._lane(group, placed[group.key], begun, group.key == pole)
            for group in lane_groups()
            if group.key in placed
        ]

    def _lane(
        self, group: LaneGroup, resources: Sequence[ResourceProgress], started_at: float, pole: bool
    ) -> LaneState:
        signs = [thing.status for thing in resources]
        started = [t.started for t in resources if t.started is not None]
        open_things = [t for t in resources if t.status in ("work", "wait")]
        ended = [t.ended for t in resources if t.ended is not None]
        state = _combined_status(signs, bool(started))
        return LaneState(
            group.title(resources),
            state,
            min(started) - started_at if started else None,
            max(ended) - started_at if ended and state != "work" else None,
            _counter(resources),
            self._note(resources, state),
            self._estimate_of(open_things) if open_things else None,
            pole and state == "work",
        )

    def _note(self, resources: Sequence[ResourceProgress], state: str) -> str:
        if state == "failed":
            return next(t.detail for t in resources if t.status == "failed")
        if state == "kept":
            return _("stays") if self.is_destroy else _("there already")
        if state == "gone":
            return "" if any(t.started for t in resources) else _("was not there")
        mine = {t.id for t in resources}
        needs = {
            lane_key(n)
            for t in resources
            for n in t.depends_on
            if n not in mine
            and self.resources.get(n)
            and self.resources[n].status in ("wait", "work", "failed")
        }
        names = [
            group.short_title
            for group in lane_groups()
            if group.key in needs and group.key != lane_key(resources[0].id)
        ]
        return _("needs {names}").format(names=", ".join(names)) if names else ""

    def _estimate_of(self, resources: Sequence[ResourceProgress]) -> tuple[float, float] | None:
        ranges = [self.estimates[t.id] for t in resources if t.id in self.estimates]
        if not ranges or self.is_destroy:
            return None
        return max(ranges, key=lambda pair: pair[1])

    def _critical_path(self, placed: Mapping[str, Sequence[ResourceProgress]]) -> str:
        """The group that is being made and usually takes longest of those; the job is no part of making."""
        ends = {
            key: usual[1]
            for key, things in placed.items()
            if key != "job"
            and any(t.status == "work" for t in things)
            and (usual := self._estimate_of([t for t in things if t.status == "work"]))
        }
        return max(ends, key=lambda key: ends[key]) if ends else ""

    def expected_duration(self) -> tuple[float, float]:
        """Seconds from, to, that the longest chain of what is (or was) to be made usually takes, without the job."""
        return self._chain(0), self._chain(1)

    def _chain(self, end: int) -> float:
        finish: dict[str, float] = {}

        def at(id: str) -> float:
            if id not in finish:
                thing = self.resources.get(id)
                if thing is None or lane_key(id) == "job":
                    return 0.0
                finish[id] = 0.0
                took = (
                    self.estimates.get(id, (0.0, 0.0))[end] if thing.action not in ("keep", "adopt") else 0.0
                )
                finish[id] = max((at(need) for need in thing.depends_on), default=0.0) + took
            return finish[id]

        return max((at(id) for id in self.resources), default=0.0)


def duration_estimates(resources: Sequence[Resource], time_scale: float) -> dict[str, tuple[float, float]]:
    """By id, in the seconds of a place that is `pace` times faster; nothing is usual where everything is at once."""
    if time_scale == float("inf"):
        return {}
    return {r.id: _scaled_estimate(r, time_scale) for r in resources}


def _scaled_estimate(resource: Resource, time_scale: float) -> tuple[float, float]:
    low, high = resource.expected_duration.low / time_scale, resource.expected_duration.high / time_scale
    if time_scale > 1 and resource.kind in _REAL_TIME_KINDS:
        return max(low, _REAL_TIME_SECONDS[0]), max(high, _REAL_TIME_SECONDS[1])
    return low, high


def clock_time(document: Mapping[str, Any]) -> str:
    """hh:mm:ss of an event, UTC, as it stands in the journal."""
    return str(document["time"])[11:19]


def _failure(entry: Mapping[str, Any]) -> ResourceFailure:
    return ResourceFailure(
        *(str(entry.get(key) or "") for key in ("id", "title", "detail", "fix", "command"))
    )


def _combined_status(statuses: Sequence[str], started: bool) -> str:
    if "failed" in statuses:
        return "failed"
    if "work" in statuses or (started and "wait" in statuses):
        return "work"
    if "wait" in statuses:
        return "wait"
    for key in ("done", "gone"):
        if key in statuses:
            return key
    return "kept"


def _counter(resources: Sequence[ResourceProgress]) -> str:
    """The cloud's own words where one thing works; how many of how many where there are several."""
    if len(resources) == 1:
        return resources[0].detail if resources[0].status == "work" else ""
    ended = sum(t.status in ("done", "kept", "gone") for t in resources)
    return _("{n} of {all}").format(n=ended, all=len(resources)) if ended < len(resources) else ""
