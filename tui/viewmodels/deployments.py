"""The deployments of a home folder, each in one line: how far it is, what it costs, where it is. Reads files only."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.state.jsonl import read
from grpo_wizard.state.lock import Holder, holder
from grpo_wizard.state.model import Deployment, JobRecord
from grpo_wizard.state.store import Store
from grpo_wizard.steps.core.durations import duration
from grpo_wizard.steps.core.model import FREE, Resource
from grpo_wizard.steps.engine.plan import price
from grpo_wizard.steps.pricing.budget import moment as moment
from grpo_wizard.steps.pricing.budget import spent as so_far
from grpo_wizard.steps.registry import NAMES, Refusals, all_resources, complete
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import sign

_TAIL = 65536
_FRESH_SECONDS = 30.0
WIZARD = "grpo-wizard"  # what a wizard signs its lock with; a command adds its words
_JOB_SIGNS = {
    "RUNNING": "training",
    "PENDING": "work",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "STOPPED": "paused",
    "LOST": "broken",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """One deployment. `sign` is a key of glyphs.signs; texts are ready to be shown."""

    name: str
    sign: str
    word: str
    detail: str = ""
    price: str = ""
    age: str = ""
    place: str = ""
    rehearsal: bool = False


def summaries(home: Home, now: float) -> list[Summary]:
    """All of them; one that cannot be read says so and is not left out."""
    return [summary(home, name, now) for name in home.deployments()]


def summary(home: Home, name: str, now: float) -> Summary:
    """One deployment as its files tell it."""
    try:
        deployment = Store(home).load(name)
    except WizardError as error:
        return Summary(name, "broken", sign("broken").word, error.title)
    last = _last_events(home, name)
    key, word, detail = _how_far(home, deployment, last, now)
    usd = running_price(deployment)
    cost = (
        ""
        if key in ("todo", "gone")
        else "0 USD/h"
        if deployment.mode == "rehearsal"
        else ("≥ " if usd[1] else "") + f"{usd[0]:.2f} USD/h"
    )
    zone = str(deployment.answers.get("project", {}).get("zone", ""))
    place = _("rehearsal") if deployment.mode == "rehearsal" else zone
    return Summary(
        name,
        key,
        word,
        detail,
        cost,
        duration(max(0.0, now - moment(deployment.created_at))),
        place,
        deployment.mode == "rehearsal",
    )


def _last_events(home: Home, name: str) -> dict[str, Mapping[str, Any]]:
    """The newest event of each sort in the journal's tail."""
    file = home.journal_file(name)
    size = file.stat().st_size if file.exists() else 0
    documents, _end = read(file, max(0, size - _TAIL))
    return {str(document.get("event")): document for document in documents}


def _how_far(
    home: Home, deployment: Deployment, last: Mapping[str, Mapping[str, Any]], now: float
) -> tuple[str, str, str]:
    ended = last.get("summary", {})
    if works(home, deployment.name, last):
        made, _all = progress(deployment)
        return "work", sign("work").word, _("{n} things are there").format(n=made)
    planned = str(last.get("plan", {}).get("time", ""))
    if ended.get("ok") and ended.get("next") == "nothing left" and str(ended.get("time", "")) >= planned:
        return "gone", _("torn down"), _("nothing left")
    if job_stands(deployment):
        return _job(deployment, last.get("job", {}), now)
    if stands(deployment):
        made, wanted = progress(deployment)
        return "half", sign("half").word, _("{n} of {all} things are there").format(n=made, all=wanted)
    passed = sum(name in deployment.answers for name in NAMES)
    return "todo", sign("todo").word, _("{n} of {all} steps answered").format(n=passed, all=len(NAMES))


def works(home: Home, name: str, last: Mapping[str, Mapping[str, Any]] | None = None) -> bool:
    """Whether a process works on the deployment now. `last`: the journal's newest events, where they were read already."""
    last = _last_events(home, name) if last is None else last
    planned, ended = (str(last.get(event, {}).get("time", "")) for event in ("plan", "summary"))
    if not planned and not ended:  # of a long run the plan lies before the tail that is read
        planned = max((str(e["time"]) for key, e in last.items() if key.startswith("resource_")), default="")
    return at_work(holder(home, name), moment(planned) if planned else None, bool(ended) and ended >= planned)


def at_work(who: Holder | None, begun: float | None, ended: bool) -> bool:
    """Whether the lock's holder makes something just now, by the journal's newest plan: when, and whether it has its summary.

    A wizard holds the lock as long as it is open; a command holds it for one run, which begins with a look before any plan.
    """
    if who is None:
        return False
    if begun is not None and (not who.since or begun >= moment(who.since)):
        return not ended
    return who.command != WIZARD


def _job(deployment: Deployment, event: Mapping[str, Any], now: float) -> tuple[str, str, str]:
    """What files say of a job that lives is old as soon as nobody looks: then it is told when it was seen."""
    record = deployment.job
    assert record is not None
    status, event = _job_status(record, event)
    key = _JOB_SIGNS.get(status, "training")
    seen = moment(str(event.get("time") or record.submitted_at))
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
    return ("look", _("last seen"), detail) if old else (key, sign(key).word, detail)


def _job_status(record: JobRecord, event: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Ray's word as it was heard last, and the event that told it; an event of another job tells nothing."""
    if event.get("job_id", record.submission_id) != record.submission_id:
        event = {}
    return str(event.get("status") or record.status), event


def job_sign(home: Home, deployment: Deployment) -> str:
    """How the job was seen last, as a key of glyphs.signs; to do where none stands."""
    if deployment.job is None or not job_stands(deployment):
        return "todo"
    status, _event = _job_status(deployment.job, _last_events(home, deployment.name).get("job", {}))
    return _JOB_SIGNS.get(status, "training")


def job_stands(deployment: Deployment) -> bool:
    """Whether the job that is remembered is one that was not taken down since; Ray may have ended it."""
    return deployment.job is not None and any(
        record.kind == "job" and record.origin != "intended" for record in list(deployment.resources.values())
    )


def stands(deployment: Deployment) -> bool:
    """Whether anything beyond the free part (project, APIs, roles) was made, or begun."""
    return any(record.kind not in FREE for record in list(deployment.resources.values()))


def progress(deployment: Deployment) -> tuple[int, int]:
    """How many things this deployment made, of how many."""
    made = sum(record.origin != "intended" for record in list(deployment.resources.values()))
    return made, max(made, len(_wanted(deployment)))


def running_price(deployment: Deployment) -> tuple[float, int]:
    """USD an hour of what was made, as far as known, and how many things have no known price."""
    records = dict(deployment.resources)  # the engine's thread adds to them meanwhile
    there = [r for r in _wanted(deployment) if r.id in records and records[r.id].origin == "created"]
    known, unknown = price(there)
    return known, len(unknown)


def spent(deployment: Deployment, now: float) -> float:
    """USD of known prices since each thing was made."""
    return so_far(deployment, _wanted(deployment), now).known


def _wanted(deployment: Deployment) -> list[Resource]:
    try:
        return all_resources(complete(deployment.answers))
    except Refusals:
        return []
