"""The progress of an engine run, built from its events: those of this process, or of another's journal.

A run begins with `plan` and ends with `summary`; a journal may hold several runs, and the newest counts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_wizard.steps.core.model import Resource
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import parse_time
from grpo_wizard.tui.viewmodels.labels import resource_label
from grpo_wizard.tui.viewmodels.lanes import LaneGroup, lane_groups, lane_key
from grpo_wizard.tui.widgets.lane import LaneState

_MAX_LOG_LINES = 500
_COUNTER = re.compile(
    r"\d+ of \d+"
)  # counters of GKE, nodes and workers: a line for each would flood the log
# A rehearsal runs a real Ray: its head and its job start in real time at any speed (measured on two cores).
_REAL_TIME_KINDS = ("raycluster", "job")
_REAL_TIME_SECONDS = (20.0, 60.0)


@dataclass
class ResourceProgress:
    """One resource of this run. Times are seconds since the epoch; `status` is a key of status icons."""

    id: str
    action: str
    depends_on: tuple[str, ...] = ()
    status: str = "wait"
    started: float | None = None
    ended: float | None = None
    detail: str = ""
    counter_line: tuple[str, str, str] = ("", "", "")
    """The newest log line with a counter; the next counter replaces it."""


@dataclass(frozen=True)
class ResourceFailure:
    """What failed, why, and the fix."""

    id: str
    title: str
    detail: str = ""
    fix: str = ""
    command: str = ""


@dataclass
class RunProgress:
    """The state of a run. `estimates`: usual duration (low, high) by resource id, in seconds at the run's speed."""

    estimates: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    resources: dict[str, ResourceProgress] = field(default_factory=dict)
    started_at: float | None = None
    last_event_at: float = 0.0
    summary: Mapping[str, Any] | None = None
    failures: list[ResourceFailure] = field(default_factory=list)
    log: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=_MAX_LOG_LINES))
    """(time of day, status icon key, text), the newest last."""
    job: Mapping[str, Any] | None = None
    is_destroy_plan: bool = False
    """Whether the plan is one of `destroy`: every row is delete or keep, with the observed state."""

    def apply_event(self, document: Mapping[str, object]) -> None:
        """Apply one event, as a JSON document of the journal."""
        now = parse_time(str(document["time"]))
        self.last_event_at = max(self.last_event_at, now)
        handler = getattr(self, f"_{document['event']}", None)
        if handler is not None:
            handler(document, now)

    @property
    def is_destroy(self) -> bool:
        """Whether this run deletes resources."""
        actions = [resource.action for resource in self.resources.values()]
        return bool(actions) and (self.is_destroy_plan or all(action == "delete" for action in actions))

    @property
    def ok(self) -> bool:
        """Whether the run succeeded."""
        return bool(self.summary and self.summary.get("ok"))

    @property
    def is_empty(self) -> bool:
        """Whether a destroy left nothing behind."""
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
        for resource in self.resources.values():
            if resource.action in ("keep", "adopt"):
                resource.status = "kept"
            elif resource.action == "delete" and self._is_absent(document, resource.id):
                resource.status = "gone"
        self.started_at, self.summary, self.job = now, None, None
        self.failures.clear()
        self.log.clear()

    def _is_absent(self, document: Mapping[str, Any], id: str) -> bool:
        return any(row["id"] == id and row.get("state") == "absent" for row in document["resources"])

    def _resource_started(self, document: Mapping[str, Any], now: float) -> None:
        resource = self._resource(document)
        resource.status, resource.started, resource.ended = "work", now, None
        resource.action = document.get("action", resource.action)
        self._append_log(document, "work", _("started"))

    def _resource_waiting(self, document: Mapping[str, object], now: float) -> None:
        resource, detail = self._resource(document), str(document.get("detail", ""))
        if _COUNTER.search(resource.detail) and _COUNTER.search(detail) and resource.counter_line in self.log:
            self.log.remove(resource.counter_line)
        resource.detail = detail
        resource.counter_line = self._append_log(document, "look", detail)

    def _resource_done(self, document: Mapping[str, object], now: float) -> None:
        resource = self._resource(document)
        deleted = resource.action == "delete"
        resource.status, resource.ended, resource.detail = "gone" if deleted else "done", now, ""
        self._append_log(document, resource.status, _("deleted") if deleted else _("done"))

    def _resource_failed(self, document: Mapping[str, object], now: float) -> None:
        resource = self._resource(document)
        resource.status, resource.ended, resource.detail = "failed", now, str(document.get("title", ""))
        self.failures.append(_failure(document))
        self._append_log(document, "failed", str(document.get("title", "")))

    def _retry(self, document: Mapping[str, object], now: float) -> None:
        self._append_log(document, "warn", _("{reason}; retrying").format(reason=document.get("detail", "")))

    def _notice(self, document: Mapping[str, object], now: float) -> None:
        resource = self.resources.get(str(document.get("id") or ""))
        if resource is not None and resource.action == "delete" and resource.status == "wait":
            resource.status = "kept"  # destroy sends a notice for what it keeps
        self._append_log(document, "info", str(document.get("detail", "")))

    def _job(self, document: Mapping[str, object], now: float) -> None:
        self.job = document
        step = (
            f" {document['step']}/{document.get('total_steps')}" if document.get("step") is not None else ""
        )
        self._append_log(
            document, "training", f"{document.get('status', '')}{step} {document.get('detail', '')}".strip()
        )

    def _summary(self, document: Mapping[str, Any], now: float) -> None:
        self.summary = document
        for resource in self.resources.values() if document.get("ok") else ():
            if resource.status == "wait":  # it did not exist when its turn came, or needed no change
                resource.status = "gone" if resource.action == "delete" else "kept"
        reported = {failure.id for failure in self.failures}
        self.failures += [
            _failure(entry) for entry in document.get("failed", ()) if entry.get("id") not in reported
        ]
        self.log.append(
            (
                clock_time(document),
                "done" if document.get("ok") else "failed",
                _("run succeeded") if document.get("ok") else _("run did not succeed"),
            )
        )

    def _resource(self, document: Mapping[str, object]) -> ResourceProgress:
        id = str(document.get("id", ""))
        return self.resources.setdefault(id, ResourceProgress(id, str(document.get("action", "create"))))

    def _append_log(self, document: Mapping[str, object], status: str, text: str) -> tuple[str, str, str]:
        name = resource_label(str(document.get("id") or ""))
        line = text if text.startswith(name) else f"{name}  {text}"
        self.log.append((clock_time(document), status, line))
        return self.log[-1]

    # --- as lanes

    def lanes(self, now: float) -> list[LaneState]:
        """One lane for each group of resources, in the usual order of creation."""
        started_at = self.started_at or now
        by_lane: dict[str, list[ResourceProgress]] = {}
        for resource in self.resources.values():
            by_lane.setdefault(lane_key(resource.id), []).append(resource)
        critical = self._critical_path(by_lane)
        return [
            self._lane(group, by_lane[group.key], started_at, group.key == critical)
            for group in lane_groups()
            if group.key in by_lane
        ]

    def _lane(
        self, group: LaneGroup, resources: Sequence[ResourceProgress], started_at: float, critical: bool
    ) -> LaneState:
        started = [r.started for r in resources if r.started is not None]
        ended = [r.ended for r in resources if r.ended is not None]
        unfinished = [r for r in resources if r.status in ("work", "wait")]
        status = _combined_status([r.status for r in resources], bool(started))
        return LaneState(
            title=group.title(resources),
            status=status,
            started=min(started) - started_at if started else None,
            ended=max(ended) - started_at if ended and status != "work" else None,
            counter=_counter(resources),
            note=self._note(resources, status),
            estimate=self._estimate_of(unfinished) if unfinished else None,
            on_critical_path=critical and status == "work",
        )

    def _note(self, resources: Sequence[ResourceProgress], status: str) -> str:
        if status == "failed":
            return next(r.detail for r in resources if r.status == "failed")
        if status == "kept":
            return _("kept") if self.is_destroy else _("already exists")
        if status == "gone":
            return "" if any(r.started for r in resources) else _("did not exist")
        waiting_for = {
            lane_key(id)
            for r in resources
            for id in r.depends_on
            if self.resources.get(id) and self.resources[id].status in ("wait", "work", "failed")
        } - {lane_key(resources[0].id)}
        names = [group.short_title for group in lane_groups() if group.key in waiting_for]
        return _("needs {names}").format(names=", ".join(names)) if names else ""

    def _estimate_of(self, resources: Sequence[ResourceProgress]) -> tuple[float, float] | None:
        ranges = [self.estimates[r.id] for r in resources if r.id in self.estimates]
        if not ranges or self.is_destroy:
            return None
        return max(ranges, key=lambda pair: pair[1])

    def _critical_path(self, by_lane: Mapping[str, Sequence[ResourceProgress]]) -> str:
        """The lane in progress with the longest estimate, without the job; an empty string if there is none."""
        ends = {
            key: estimate[1]
            for key, resources in by_lane.items()
            if key != "job" and (estimate := self._estimate_of([r for r in resources if r.status == "work"]))
        }
        return max(ends, key=lambda key: ends[key]) if ends else ""

    def expected_duration(self) -> tuple[float, float]:
        """(low, high) seconds that the longest chain of dependencies of this run usually takes, without the job."""
        return self._chain(0), self._chain(1)

    def _chain(self, bound: int) -> float:
        finish: dict[str, float] = {}

        def finish_of(id: str) -> float:
            if id not in finish:
                resource = self.resources.get(id)
                if resource is None or lane_key(id) == "job":
                    return 0.0
                finish[id] = 0.0
                unchanged = resource.action in ("keep", "adopt")
                duration = 0.0 if unchanged else self.estimates.get(id, (0.0, 0.0))[bound]
                finish[id] = max((finish_of(need) for need in resource.depends_on), default=0.0) + duration
            return finish[id]

        return max((finish_of(id) for id in self.resources), default=0.0)


def duration_estimates(resources: Sequence[Resource], time_scale: float) -> dict[str, tuple[float, float]]:
    """Usual duration (low, high) in seconds by resource id, at `time_scale` times real speed; empty if infinite."""
    if time_scale == float("inf"):
        return {}
    return {r.id: _scaled_estimate(r, time_scale) for r in resources}


def _scaled_estimate(resource: Resource, time_scale: float) -> tuple[float, float]:
    low, high = resource.expected_duration.low / time_scale, resource.expected_duration.high / time_scale
    if time_scale > 1 and resource.kind in _REAL_TIME_KINDS:
        return max(low, _REAL_TIME_SECONDS[0]), max(high, _REAL_TIME_SECONDS[1])
    return low, high


def clock_time(document: Mapping[str, object]) -> str:
    """hh:mm:ss (UTC) of a journal event."""
    return str(document["time"])[11:19]


def _failure(entry: Mapping[str, object]) -> ResourceFailure:
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
    """What the cloud reports of a single resource; of several, how many are done."""
    if len(resources) == 1:
        return resources[0].detail if resources[0].status == "work" else ""
    ended = sum(r.status in ("done", "kept", "gone") for r in resources)
    return _("{n} of {all}").format(n=ended, all=len(resources)) if ended < len(resources) else ""
