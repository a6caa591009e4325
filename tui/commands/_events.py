"""Prints the engine's events as text or JSON lines."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.core.durations import format_duration
from grpo_wizard.steps.core.events import Event
from grpo_wizard.tui.commands._output import deployment_flags, print_json, print_wrapped, status_glyph
from grpo_wizard.tui.viewmodels.failures import group_by_cause, join_names
from grpo_wizard.tui.viewmodels.labels import format_hourly_price, format_plan_counts, resource_label

_HANGING = 10
"""Columns of glyph and verb, which continuation lines leave free."""


class EventRenderer:
    """Prints events. `home` is the value of --home, for the commands in the text."""

    def __init__(self, mode: str, deployment: str, as_json: bool, home: str = "") -> None:
        self.mode, self.deployment, self.as_json, self.home = mode, deployment, as_json, home
        self._causes: set[tuple[str, ...]] = set()

    def show(self, event: Event) -> None:
        """Print one event."""
        if self.as_json:
            print_json(self.mode, self.deployment, event.to_json())
            return
        flags = deployment_flags(self.mode == "rehearsal", self.deployment, self.home)
        data = dict(event.data) | {"flags": flags}
        if event.event == "resource_failed" and self._already_reported(data):
            data = {"title": data["title"]}
        for line in _LINES.get(event.event, _no_lines)(event, data):
            print_wrapped(line, 0 if event.event == "summary" else _HANGING)

    def _already_reported(self, data: dict[str, object]) -> bool:
        """Return whether this cause, which may affect many resources, was printed before."""
        cause = tuple(str(data.get(key, "")) for key in ("title", "detail", "fix", "command"))
        known = cause in self._causes
        self._causes.add(cause)
        return known


def _no_lines(event: Event, data: dict[str, object]) -> list[str]:
    return []


def _plan(event: Event, data: dict[str, Any]) -> list[str]:
    return [f"Plan: {format_plan_counts(data['resources'])}"]


def _started(event: Event, data: dict[str, object]) -> list[str]:
    return [f"{status_glyph('work')} start   {event.id}"]


def _waiting(event: Event, data: dict[str, object]) -> list[str]:
    return [f"{status_glyph('look')} waiting {event.id}: {data['detail']}"]


def _done(event: Event, data: dict[str, Any]) -> list[str]:
    return [
        f"{status_glyph('pass')} done    {event.id} ({data['action']}, {format_duration(data['seconds'], tenths=True)})"
    ]


def _failed(event: Event, data: dict[str, object]) -> list[str]:
    lines = [f"{status_glyph('block')} failed  {event.id}: {data['title']}"]
    return lines + [
        f"{' ' * _HANGING}{label}: {data[key]}"
        for label, key in (("Why", "detail"), ("Fix", "fix"), ("Command", "command"))
        if data.get(key)
    ]


def _retry(event: Event, data: dict[str, Any]) -> list[str]:
    return [
        f"{status_glyph('warn')} retry   {event.id}: {data['detail']}; retrying in {format_duration(data['after_seconds'], tenths=True)}"
    ]


def _notice(event: Event, data: dict[str, Any]) -> list[str]:
    already_named = not event.id or data["detail"].startswith(resource_label(event.id))
    return [f"{status_glyph('info')} note    {'' if already_named else f'{event.id}: '}{data['detail']}"]


def _job(event: Event, data: dict[str, Any]) -> list[str]:
    step = f" step {data['step']}/{data['total_steps']}" if data.get("step") is not None else ""
    return [
        f"{status_glyph('work')} job     {data.get('job_id', '')} {data.get('status', '')}{step}{' ' + data['detail'] if data.get('detail') else ''}"
    ]


def _summary(event: Event, data: dict[str, Any]) -> list[str]:
    lines = [_outcome(data)]
    for group in group_by_cause(
        data["failed"], lambda entry: (entry["title"], entry["detail"], entry["fix"])
    ):
        entry = group[0]
        lines.append(f"{status_glyph('block')} {join_names([one['id'] for one in group])}: {entry['title']}")
        lines += [f"  Why: {entry['detail']}"] if entry["detail"] else []
        lines += [f"  Fix: {entry['fix']}"] if entry["fix"] else []
    if data["next"] == "nothing left":
        return [*lines, "No resources of this deployment remain."]
    price = f"Current price: {format_hourly_price(data['usd_per_hour'])}."
    if data["ok"]:
        return [*lines, price, f"Next: grpo-wizard {data['next']}{data['flags']}"]
    lines += [price] if data["usd_per_hour"] else []
    return [
        *lines,
        f"To list the existing resources: grpo-wizard status{data['flags']}",
        "Re-run the same command to continue, or run `destroy` to delete the resources.",
    ]


def _outcome(data: dict[str, Any]) -> str:
    counts = ", ".join(f"{data[key]} {key}" for key in ("created", "adopted", "kept", "deleted") if data[key])
    took = f" in {format_duration(data['seconds'], tenths=True)}" if counts else ""
    if not data["ok"]:
        return f"Failed: {counts or 'nothing was changed'}{took}."
    job_ended = data["next"] in ("metrics", "health") and not counts
    return f"Done: {'the job has ended' if job_ended else counts or 'nothing to do'}{took}."


_LINES = {
    "plan": _plan,
    "resource_started": _started,
    "resource_waiting": _waiting,
    "resource_done": _done,
    "resource_failed": _failed,
    "retry": _retry,
    "notice": _notice,
    "job": _job,
    "summary": _summary,
}
