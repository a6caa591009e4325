"""plan, apply, undo: written once for every kind of resource. Async generators of events; front ends only render them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import FREE, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.delete import fate_of, take_down
from grpo_wizard.steps.engine.plan import STARTS, Decision, kept_back, make_plan, order, price
from grpo_wizard.steps.engine.reconcile import Outcome, Work, proved
from grpo_wizard.steps.engine.recovery import advice
from grpo_wizard.steps.engine.refresh import survey
from grpo_wizard.steps.jobs.history import remembered
from grpo_wizard.steps.jobs.resume_guard import steps_left
from grpo_wizard.steps.pricing.budget import Meter, limit_of, note_release
from grpo_wizard.steps.pricing.reservation import reservation_bill, sentence
from grpo_wizard.steps.registry import NAMES, step

Gate = Callable[[], Awaitable[Sequence[Mapping[str, str]]]]


@dataclass(frozen=True)
class Options:
    """What the user allowed. `gate` is asked once the free things stand; what it returns stops the rest."""

    adopt: bool = False
    replace: Collection[str] = ()
    until: str = NAMES[-1]
    gate: Gate | None = None
    max_usd_per_hour: float | None = None
    max_usd: float | None = None  # in all; None: project.max_usd


@dataclass
class _Tally:
    created: int = 0
    adopted: int = 0
    kept: int = 0
    deleted: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)
    standing: dict[str, Resource] = field(default_factory=dict)  # what is there now, and costs
    others: list[Resource] = field(default_factory=list)  # met at destroy, and not made by this deployment

    def add(self, resource: Resource, outcome: Outcome) -> None:
        setattr(self, outcome.counted, getattr(self, outcome.counted) + 1)
        self.standing[resource.id] = resource


async def plan(session: Session, options: Options, strict: bool = False) -> list[Decision]:
    """What apply would do, by looking. Writes nothing. `strict`: what cannot be seen is not told as absent (survey)."""
    wanted = session.resources()
    orphans = session.orphans()
    seen = await survey(session, [*wanted, *orphans], strict)
    seen |= {r.id: remembered(session, r, seen[r.id]) for r in wanted if r.kind == "job"}
    note_release(session.deployment, seen)
    last = NAMES.index(options.until)
    within = [r for r in wanted if NAMES.index(r.step) <= last]
    decisions = make_plan(within, orphans, seen, session.deployment, options.replace)
    return [await steps_left(session, decision, seen) for decision in decisions]


def refusals(decisions: Sequence[Decision], options: Options) -> list[dict[str, str]]:
    """Why a plan cannot be carried out, one entry a resource; empty when it can."""
    found = []
    other_way = f"; {sentence}" if (sentence := advice(decisions)) else ""
    for d in decisions:
        if d.action == "conflict":
            found.append(
                _failure(
                    d.resource.id,
                    "conflict",
                    d.note,
                    f"run apply with --replace {d.resource.id}: it is deleted and made again"
                    if "--replace" in d.note
                    else "delete it, name it otherwise, or see the note",
                )
            )
        elif d.action == "adopt" and not options.adopt:
            found.append(
                _failure(
                    d.resource.id,
                    "not made by this deployment",
                    d.note,
                    f"run apply with --adopt to take it over, or choose another name{other_way}",
                )
            )
    limit, (known, _) = (
        options.max_usd_per_hour,
        price([d.resource for d in decisions if d.action != "delete"]),
    )
    if limit is not None and known > limit:
        found.append(
            _failure(
                "price",
                f"{known:.2f} USD an hour are more than the limit of {limit:.2f}",
                "",
                "raise --max-usd-per-hour",
            )
        )
    return found


def _failure(id: str, title: str, detail: str = "", fix: str = "") -> dict[str, str]:
    return {"id": id, "title": title, "detail": detail, "fix": fix}


async def apply(session: Session, options: Options) -> AsyncIterator[Event]:
    """Brings about what is missing. Ends with a summary; whether all went well is in it."""
    start = asyncio.get_running_loop().time()
    decisions = [await _known_again(session, decision) for decision in await plan(session, options)]
    yield Event("plan", None, plan_data(decisions))
    standing = {d.resource.id: d.resource for d in decisions if d.sight.state not in ("absent", "deleting")}
    tally = _Tally(failed=refusals(decisions, options), standing=standing)
    meter = Meter(session.deployment, session.resources(), limit_of(session.answers, options.max_usd))
    if text := meter.warning():
        yield events.notice(text)
    _, unpriced = price([d.resource for d in decisions if d.action != "delete"])
    if unpriced and (options.max_usd_per_hour is not None or meter.limit is not None):
        yield events.notice(f"limits count known prices only; without one: {', '.join(unpriced)}")
    if any(d.action in STARTS for d in decisions) and (refusal := meter.refusal()):
        tally.failed.append(refusal)
    if not tally.failed:
        async for event in _carry_out(session, decisions, options, tally, meter):
            yield event
    yield _summary(
        tally, asyncio.get_running_loop().time() - start, "status" if not tally.failed else "apply"
    )


async def _known_again(session: Session, decision: Decision) -> Decision:
    """A thing that a killed apply made without a mark, and that its request id proves to be ours, is no stranger's."""
    if decision.action != "adopt" or not await proved(session, decision.resource):
        return decision
    return replace(decision, action="keep", origin="created", note="made by an apply that was cut short")


async def _carry_out(
    session: Session, decisions: Sequence[Decision], options: Options, tally: _Tally, meter: Meter
) -> AsyncIterator[Event]:
    work = Work(session, options.adopt)
    free = [d for d in decisions if d.resource.kind in FREE and d.action != "delete"]
    async for event in _run(work, free, tally, meter):
        yield event
    if not tally.failed and options.gate and any(d.action in ("create", "replace") for d in decisions):
        yield events.notice(
            "all checks once more before anything billable; a new API may take minutes to be felt"
        )
        tally.failed.extend(dict(entry) for entry in await options.gate())
    if tally.failed:
        return
    rest = [d for d in decisions if d.resource.kind not in FREE and d.action != "delete"]
    async for event in _run(work, rest, tally, meter):
        yield event
    gone = [d.resource for d in decisions if d.action == "delete"]
    if gone and not tally.failed:
        async for event in _undo(session, gone, tally):
            yield event


async def switch_on_apis(session: Session) -> AsyncIterator[Event]:
    """The project's APIs alone, so that checks can look while other answers are still being given.

    They are free and stay at destroy, and a later apply finds them there. Needs the answers of the project step only.
    """
    start = asyncio.get_running_loop().time()
    apis = [r for r in step("project").resources(session.answers) if r.kind == "api"]
    seen = await survey(session, apis)
    decisions = make_plan(apis, (), seen, session.deployment)
    tally = _Tally()
    async for event in _run(Work(session, False), decisions, tally, Meter(session.deployment, apis, None)):
        yield event
    yield _summary(tally, asyncio.get_running_loop().time() - start, "check")


async def _run(
    work: Work, decisions: Sequence[Decision], tally: _Tally, meter: Meter
) -> AsyncIterator[Event]:
    """Everything whose needs are met runs at the same time; events come as they happen."""
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    results: dict[str, asyncio.Future[bool]] = {
        d.resource.id: asyncio.get_running_loop().create_future() for d in decisions
    }

    async def one(decision: Decision) -> None:
        resource = decision.resource
        met = [await results[need] for need in resource.needs if need in results]
        ok = all(met) and await _attempt(work, decision, queue.put_nowait, tally, meter)
        results[resource.id].set_result(ok)

    async for event in _drain(queue, [one(d) for d in decisions]):
        yield event


async def _drain(queue: asyncio.Queue[Event | None], jobs: Sequence[Any]) -> AsyncIterator[Event]:
    async def all_of_them() -> None:
        try:
            await asyncio.gather(*jobs)
        finally:
            queue.put_nowait(None)

    running = asyncio.create_task(all_of_them())
    try:
        while (event := await queue.get()) is not None:
            yield event
        await running
    finally:
        running.cancel()


async def _attempt(
    work: Work, decision: Decision, tell: Callable[[Event], None], tally: _Tally, meter: Meter
) -> bool:
    """One resource to its end; a failure is told once, with its fix."""
    id = decision.resource.id
    if decision.action in STARTS and (refusal := meter.refusal()):
        if refusal["id"] not in [entry["id"] for entry in tally.failed]:
            tally.failed.append(refusal)
        return False
    try:
        outcome = await work.bring_up(decision, tell)
    except WizardError as error:
        tally.failed.append(_failure(id, error.title, error.detail, error.fix))
        tell(events.failed(id, error.title, error.detail, error.fix, error.command))
        return False
    tally.add(decision.resource, outcome)
    return True


async def undo(
    session: Session, keep: Collection[str] = (), delete_project: str = ""
) -> AsyncIterator[Event]:
    """Runs the graph backwards and deletes what this deployment created.

    `keep` are steps whose Google resources stay, with all that those need. `delete_project` names the one project that may go too.
    """
    start = asyncio.get_running_loop().time()
    everything = [_may_go(r, delete_project) for r in (*session.resources(), *session.orphans())]
    staying = kept_back(everything, keep)
    tally = _Tally(standing={r.id: r for r in everything if r.id in staying})
    async for event in _undo(session, [r for r in everything if r.id not in staying], tally, everything):
        yield event
    if bill := await reservation_bill(session):
        yield events.notice(sentence(bill))
    left = [r for r in tally.standing.values() if r.id in session.deployment.resources and not r.kept]
    if left and not tally.failed:
        yield events.notice(f"kept, and billed on where it costs: {', '.join(sorted(r.id for r in left))}")
    if text := _goes_on_costing(tally.others):
        yield events.notice(text)
    following = "destroy" if tally.failed else "status" if left else "nothing left"
    yield _summary(tally, asyncio.get_running_loop().time() - start, following)


def _goes_on_costing(others: Sequence[Resource]) -> str:
    """What was taken over stays, and its price with it; empty where none of it costs anything."""
    costly = [r for r in others if r.usd_per_hour != 0]
    known, unknown = price(costly)
    parts = [f"{known:.2f} USD/h"] if known else []
    parts += [f"{len(unknown)} parts without a known price"] if unknown else []
    names = ", ".join(r.id for r in costly)
    return (
        f"not made by this deployment, so it stays and goes on costing {' + '.join(parts)}: {names}"
        if costly
        else ""
    )


def _may_go(resource: Resource, project: str) -> Resource:
    return (
        replace(resource, kept=False) if resource.kind == "project" and resource.name == project else resource
    )


async def _undo(
    session: Session, targets: Sequence[Resource], tally: _Tally, everything: Sequence[Resource] = ()
) -> AsyncIterator[Event]:
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    known = {r.id: r for r in (everything or targets)}
    ids = {r.id for r in targets}
    results: dict[str, asyncio.Future[bool]] = {id: asyncio.get_running_loop().create_future() for id in ids}
    dependents: dict[str, list[str]] = {
        id: [other.id for other in known.values() if id in other.needs and other.id in ids] for id in ids
    }
    seen = await survey(session, targets, strict=True)
    note_release(session.deployment, seen)

    async def one(resource: Resource) -> None:
        above = [await results[id] for id in dependents[resource.id]]
        try:
            counted = (
                await take_down(session, resource, seen[resource.id], queue.put_nowait)
                if all(above)
                else "skipped"
            )
            ok = counted != "skipped"
            tally.deleted += counted == "deleted"
            tally.kept += counted == "kept"
            tally.others += [resource] if counted == "kept" and not resource.kept else []
        except WizardError as error:
            ok = False
            tally.failed.append(_failure(resource.id, error.title, error.detail, error.fix))
            tally.standing[resource.id] = resource
            queue.put_nowait(events.failed(resource.id, error.title, error.detail, error.fix, error.command))
        results[resource.id].set_result(ok)

    yield Event(
        "plan",
        None,
        {
            "resources": [
                {
                    "id": r.id,
                    "action": "keep" if fate_of(session, r, seen[r.id]) == "keep" else "delete",
                    "state": seen[r.id].state,
                }
                for r in targets
            ]
        },
    )
    async for event in _drain(queue, [one(r) for r in targets]):
        yield event


def plan_data(decisions: Sequence[Decision]) -> dict[str, Any]:
    """The plan inside an event stream: what happens to which resource."""
    ordered = (
        {r.id for r in order([d.resource for d in decisions if d.action != "delete"])} if decisions else set()
    )
    return {
        "resources": [
            {"id": d.resource.id, "action": d.action, "needs": [n for n in d.resource.needs if n in ordered]}
            for d in decisions
        ]
    }


def _summary(tally: _Tally, seconds: float, following: str) -> Event:
    known, _ = price(list(tally.standing.values()))
    return Event(
        "summary",
        None,
        {
            "ok": not tally.failed,
            "created": tally.created,
            "adopted": tally.adopted,
            "kept": tally.kept,
            "deleted": tally.deleted,
            "failed": tally.failed,
            "seconds": round(seconds, 3),
            "usd_per_hour": known,
            "next": following,
        },
    )
