"""Events as lines: for people, or as JSON. The engine knows neither."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.core.durations import format_duration
from grpo_wizard.steps.core.events import Event
from grpo_wizard.tui.commands._output import deployment_flags, print_json, status_glyph
from grpo_wizard.tui.viewmodels.failures import group_by_cause, join_names
from grpo_wizard.tui.viewmodels.labels import format_hourly_price, format_plan_counts, resource_label


class EventRenderer:
    """Shows events as they come. `home` as it was given, for the commands that are named."""

    def __init__(self, mode: str, deployment: str, as_json: bool, home: str = "") -> None:
        self.mode, self.deployment, self.as_json, self.home = mode, deployment, as_json, home
        self._causes: set[tuple[str, ...]] = set()

    def show(self, event: Event) -> None:
        if self.as_json:
            print_json(self.mode, self.deployment, event.to_json())
            return
        same = deployment_flags(self.mode == "rehearsal", self.deployment, self.home)
        data = dict(event.data) | {"flags": same}
        if event.event == "resource_failed" and self._already_reported(data):
            data = {"title": data["title"]}
        for line in _LINES.get(event.event, _no_lines)(event, data):
            print(line, flush=True)

    def _already_reported(self, data: dict[str, object]) -> bool:
        """Why, fix and command of one cause are told once, however many things it hits."""
        cause = tuple(str(data.get(key, "")) for key in ("title", "detail", "fix", "command"))
        known = cause in self._causes
        self._causes.add(cause)
        return known


def _no_lines(event: Event, data: dict[str, object]) -> list[str]:
    return []


def _plan(event: Event, data: dict[str, Any]) -> list[str]:
    return [f"plan: {format_plan_counts(data['resources'])}"]


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
        f"          {name}: {data[key]}"
        for name, key in (("why", "detail"), ("fix", "fix"), ("command", "command"))
        if data.get(key)
    ]


def _retry(event: Event, data: dict[str, Any]) -> list[str]:
    return [
        f"{status_glyph('warn')} retry   {event.id}: {data['detail']}; again in {format_duration(data['after_seconds'], tenths=True)}"
    ]


def _notice(event: Event, data: dict[str, Any]) -> list[str]:
    named_already = not event.id or data["detail"].startswith(resource_label(event.id))
    return [f"{status_glyph('info')} note    {'' if named_already else f'{event.id}: '}{data['detail']}"]


def _job(event: Event, data: dict[str, Any]) -> list[str]:
    step = f" step {data['step']}/{data['total_steps']}" if data.get("step") is not None else ""
    return [
        f"{status_glyph('work')} job     {data.get('job_id', '')} {data.get('status', '')}{step}{' ' + data['detail'] if data.get('detail') else ''}"
    ]


def _summary(event: Event, data: dict[str, Any]) -> list[str]:
    counts = ", ".join(f"{data[key]} {key}" for key in ("created", "adopted", "kept", "deleted") if data[key])
    about_job = data["next"] in ("metrics", "health") and not counts
    done = "the job has ended" if about_job and data["ok"] else counts or "nothing was done"
    lines = [
        f"{'done' if data['ok'] else 'not done'}: {done}"
        + (f" in {format_duration(data['seconds'], tenths=True)}" if counts else "")
    ]
    for group in group_by_cause(
        data["failed"], lambda entry: (entry["title"], entry["detail"], entry["fix"])
    ):
        entry = group[0]
        lines.append(
            f"{status_glyph('block')} {join_names([one['id'] for one in group])}: {entry['title']}"
            + (f" ({entry['detail']})" if entry["detail"] else "")
        )
        lines += [f"  fix: {entry['fix']}"] if entry["fix"] else []
    if data["next"] == "nothing left":
        return [*lines, "nothing left"]
    if data["ok"]:
        return [
            *lines,
            f"price now: {format_hourly_price(data['usd_per_hour'])} known; next: grpo-wizard {data['next']}{data['flags']}",
        ]
    costs = f"costs {format_hourly_price(data['usd_per_hour'])} known and " if data["usd_per_hour"] else ""
    kept = "what stands {costs}is listed by grpo-wizard status{flags}; run the same command again to go on, or destroy to take it down"
    return [*lines, kept.format(costs=costs, flags=data["flags"])]


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
