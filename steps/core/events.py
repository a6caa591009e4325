"""The events that the engine emits: a closed set, rendered by every front end and kept in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

EventName = Literal[
    "plan",
    "resource_started",
    "resource_waiting",
    "resource_done",
    "resource_failed",
    "retry",
    "notice",
    "job",
    "summary",
]


def now_ms() -> str:
    """The current time as it is written in every document: UTC, RFC 3339, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Event:
    """One event. `id` is a resource's ID if it concerns one; `data` holds the event's own keys, which the README documents."""

    event: EventName
    id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    time: str = field(default_factory=now_ms)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, without the keys that all lines share."""
        head = {"event": self.event, "time": self.time} | ({"id": self.id} if self.id else {})
        return head | dict(self.data)


def started(id: str, action: str, title: str) -> Event:
    return Event("resource_started", id, {"action": action, "title": title})


def waiting(id: str, detail: str, seconds: float) -> Event:
    """`detail` is the operation's own progress counter, or what the engine waits for."""
    return Event("resource_waiting", id, {"detail": detail, "seconds": round(seconds, 3)})


def done(id: str, action: str, seconds: float) -> Event:
    return Event("resource_done", id, {"action": action, "seconds": round(seconds, 3)})


def failed(id: str, title: str, detail: str, fix: str, command: str = "") -> Event:
    return Event("resource_failed", id, {"title": title, "detail": detail, "fix": fix, "command": command})


def retry(id: str, detail: str, after: float) -> Event:
    return Event("retry", id, {"detail": detail, "after_seconds": round(after, 3)})


def notice(detail: str, id: str | None = None) -> Event:
    return Event("notice", id, {"detail": detail})


def summary(
    counts: Mapping[str, int] | None = None,
    *,
    failed: list[dict[str, str]],
    seconds: float = 0.0,
    usd_per_hour: float = 0.0,
    next_command: str,
) -> Event:
    """The last event of every run. `counts` are of created, adopted, kept and deleted resources."""
    data = {
        "ok": not failed,
        **{key: (counts or {}).get(key, 0) for key in ("created", "adopted", "kept", "deleted")},
        "failed": failed,
        "seconds": round(seconds, 3),
        "usd_per_hour": usd_per_hour,
        "next": next_command,
    }
    return Event("summary", None, data)
