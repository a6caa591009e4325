"""The deployments of a home folder, one line each: progress, price, zone. Reads files only."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.state.jsonl import read_records
from grpo_wizard.state.lock import LockOwner, lock_owner
from grpo_wizard.state.model import Deployment, JobRecord
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.clients.registry import FREE_KINDS
from grpo_wizard.steps.core.durations import format_duration
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.pricing.book import BUILT_IN_PRICES, PriceBook, hourly_cost
from grpo_wizard.steps.pricing.budget import cost_to_date as so_far
from grpo_wizard.steps.pricing.budget import parse_time as parse_time
from grpo_wizard.steps.pricing.refresh import load_price_book
from grpo_wizard.steps.registry import STEP_NAMES, ValidationErrors, all_resources, validate
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.style.icons import status_icon

_TAIL = 65536
_FRESH_SECONDS = 30.0
WIZARD_LOCK_COMMAND = "grpo-wizard"  # the lock's owner while a wizard is open; a command adds its arguments
_JOB_ICON_KEYS = {
    "RUNNING": "training",
    "PENDING": "work",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "STOPPED": "paused",
    "LOST": "broken",
}


@dataclass(frozen=True, slots=True)
class DeploymentSummary:
    """One deployment. `status` is a key of the status icons; texts are ready to be shown."""

    name: str
    status: str
    label: str
    detail: str = ""
    price: str = ""
    age: str = ""
    location: str = ""
    rehearsal: bool = False


def deployment_summaries(home: Home, now: float) -> list[DeploymentSummary]:
    """Summarize every deployment; one that cannot be read is listed with its error."""
    return [deployment_summary(home, name, now) for name in home.deployments()]


def deployment_summary(home: Home, name: str, now: float) -> DeploymentSummary:
    """Summarize one deployment from its files."""
    try:
        deployment = StateStore(home).load(name)
    except WizardError as error:
        return DeploymentSummary(name, "broken", status_icon("broken").label, error.title)
    last = _last_events(home, name)
    key, word, detail = _status_of(home, deployment, last, now)
    known, unpriced = hourly_price(deployment, load_price_book(Path(home.root), deployment.mode))
    cost = (
        ""
        if key in ("todo", "gone")
        else "0 USD/h"
        if deployment.mode == "rehearsal"
        else ("≥ " if unpriced else "") + f"{known:.2f} USD/h"
    )
    zone = str(deployment.answers.get("project", {}).get("zone", ""))
    location = _("rehearsal") if deployment.mode == "rehearsal" else zone
    return DeploymentSummary(
        name,
        key,
        word,
        detail,
        cost,
        format_duration(max(0.0, now - parse_time(deployment.created_at))),
        location,
        deployment.mode == "rehearsal",
    )


def _last_events(home: Home, name: str) -> dict[str, Mapping[str, object]]:
    """Return the newest event of each kind in the tail of the journal."""
    file = home.journal_file(name)
    size = file.stat().st_size if file.exists() else 0
    documents, _end = read_records(file, max(0, size - _TAIL))
    return {str(document.get("event")): document for document in documents}


def _status_of(
    home: Home, deployment: Deployment, last: Mapping[str, Mapping[str, object]], now: float
) -> tuple[str, str, str]:
    ended = last.get("summary", {})
    if is_busy(home, deployment.name, last):
        made, _all = resource_counts(deployment)
        return (
            "work",
            status_icon("work").label,
            ngettext("{n} resource", "{n} resources", made).format(n=made),
        )
    planned = str(last.get("plan", {}).get("time", ""))
    if ended.get("ok") and ended.get("next") == "nothing left" and str(ended.get("time", "")) >= planned:
        return "gone", _("destroyed"), _("no resources left")
    if has_job(deployment):
        return _job(deployment, last.get("job", {}), now)
    if has_billable_resources(deployment):
        made, wanted = resource_counts(deployment)
        return (
            "half",
            status_icon("half").label,
            _("{n} of {all} resources").format(n=made, all=wanted),
        )
    passed = sum(name in deployment.answers for name in STEP_NAMES)
    return (
        "todo",
        status_icon("todo").label,
        _("{n} of {all} steps completed").format(n=passed, all=len(STEP_NAMES)),
    )


def is_busy(home: Home, name: str, last: Mapping[str, Mapping[str, object]] | None = None) -> bool:
    """Whether a process works on the deployment now. `last`: the journal's newest events, where already read."""
    last = _last_events(home, name) if last is None else last
    planned, ended = (str(last.get(event, {}).get("time", "")) for event in ("plan", "summary"))
    if not planned and not ended:  # in a long run the plan precedes the tail that is read
        planned = max((str(e["time"]) for key, e in last.items() if key.startswith("resource_")), default="")
    return is_owner_working(
        lock_owner(home, name), parse_time(planned) if planned else None, bool(ended) and ended >= planned
    )


def is_owner_working(owner: LockOwner | None, started_at: float | None, ended: bool) -> bool:
    """Whether the lock's owner is running apply or destroy, judged by the journal's newest plan and its summary.

    A wizard holds the lock while it is open; a command holds it for one run, which refreshes before it plans.
    """
    if owner is None:
        return False
    if started_at is not None and (not owner.since or started_at >= parse_time(owner.since)):
        return not ended
    return owner.command != WIZARD_LOCK_COMMAND


def _job(deployment: Deployment, event: Mapping[str, object], now: float) -> tuple[str, str, str]:
    """Describe the job from the journal; a running job that nobody watches is shown with the time of its last event."""
    record = deployment.job
    assert record is not None
    status, event = _job_status(record, event)
    key = _JOB_ICON_KEYS.get(status, "training")
    seen = parse_time(str(event.get("time") or record.submitted_at))
    old = key in ("training", "work") and now - seen > _FRESH_SECONDS
    parts = []
    if event.get("step") is not None:
        total = f"/{event['total_steps']}" if event.get("total_steps") else ""
        parts.append(_("step {n}").format(n=event["step"]) + total)
    elif old:
        parts.append(status)
    if old:
        parts.append(_("at {time}").format(time=time.strftime("%H:%M", time.localtime(seen))))
    if isinstance(event.get("avg_reward"), float):
        parts.append(_("reward {r}").format(r=f"{event['avg_reward']:.2f}"))
    detail = "  ".join(parts) or status
    return ("look", _("last seen"), detail) if old else (key, status_icon(key).label, detail)


def _job_status(record: JobRecord, event: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Return Ray's last known status and its event; an event of another job is ignored."""
    if event.get("job_id", record.submission_id) != record.submission_id:
        event = {}
    return str(event.get("status") or record.status), event


def job_icon_key(home: Home, deployment: Deployment) -> str:
    """Return the status icon of the job's last known status; `todo` without a job."""
    if deployment.job is None or not has_job(deployment):
        return "todo"
    status, _event = _job_status(deployment.job, _last_events(home, deployment.name).get("job", {}))
    return _JOB_ICON_KEYS.get(status, "training")


def has_job(deployment: Deployment) -> bool:
    """Whether the recorded job was not deleted since; it may have ended."""
    return deployment.job is not None and any(
        record.kind == "job" and record.origin != "intended" for record in list(deployment.resources.values())
    )


def has_billable_resources(deployment: Deployment) -> bool:
    """Whether anything besides the free resources (project, APIs, roles) was created, or started to be."""
    return any(record.kind not in FREE_KINDS for record in list(deployment.resources.values()))


def resource_counts(deployment: Deployment) -> tuple[int, int]:
    """Return how many resources exist, and how many are configured."""
    made = sum(record.origin != "intended" for record in list(deployment.resources.values()))
    return made, max(made, len(_configured_resources(deployment)))


def hourly_price(deployment: Deployment, price_book: PriceBook) -> tuple[float, int]:
    """Return the known USD per hour of what the deployment created, and how many resources have no known price."""
    records = dict(deployment.resources)  # the engine's thread may add some meanwhile
    resources = _configured_resources(deployment, price_book)
    known, unpriced = hourly_cost(
        [r for r in resources if r.id in records and records[r.id].origin == "created"]
    )
    return known, len(unpriced)


def cost_to_date(deployment: Deployment, now: float, price_book: PriceBook) -> float:
    """Return the USD spent so far, at known prices."""
    return so_far(deployment, _configured_resources(deployment, price_book), now).known_usd


def _configured_resources(deployment: Deployment, price_book: PriceBook = BUILT_IN_PRICES) -> list[Resource]:
    try:
        return all_resources(validate(deployment.answers), price_book)
    except ValidationErrors:
        return []
