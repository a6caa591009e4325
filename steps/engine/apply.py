"""plan, apply, undo: written once for every kind of resource. Async generators of events; front ends only render them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import NON_BILLABLE, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.delete import delete_resource, planned_deletion
from grpo_wizard.steps.engine.plan import (
    MUTATING,
    Decision,
    hourly_cost,
    make_plan,
    retained_ids,
    topological_order,
)
from grpo_wizard.steps.engine.reconcile import Outcome, Reconciler, owned_by_request_id
from grpo_wizard.steps.engine.recovery import recovery_hint
from grpo_wizard.steps.engine.refresh import refresh
from grpo_wizard.steps.engine.spending import creates_free_resources, spending_errors, spending_notices
from grpo_wizard.steps.jobs.history import restore_job_state
from grpo_wizard.steps.jobs.resume_guard import guard_no_steps_left
from grpo_wizard.steps.pricing.budget import BudgetGuard, SpendingLimits, record_release, spending_limit
from grpo_wizard.steps.pricing.refresh import refresh_prices
from grpo_wizard.steps.pricing.reservation import format_reservation_bill, reservation_bill
from grpo_wizard.steps.registry import STEP_NAMES, step

Gate = Callable[[], Awaitable[Sequence[Mapping[str, str]]]]


@dataclass(frozen=True)
class ApplyOptions:
    """What the user allowed. `gate` is asked once the free things stand; what it returns stops the rest."""

    adopt: bool = False
    replace: Collection[str] = ()
    until: str = STEP_NAMES[-1]
    gate: Gate | None = None
    max_usd_per_hour: float | None = None
    max_usd: float | None = None  # in all; None: project.max_usd
    allow_unpriced: bool = False  # start although a spending limit cannot be enforced


@dataclass
class _ApplyResult:
    created: int = 0
    adopted: int = 0
    kept: int = 0
    deleted: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)
    existing: dict[str, Resource] = field(default_factory=dict)  # what is there now, and costs
    foreign: list[Resource] = field(default_factory=list)  # met at destroy, and not made by this deployment

    def add(self, resource: Resource, outcome: Outcome) -> None:
        setattr(self, outcome.status, getattr(self, outcome.status) + 1)
        self.existing[resource.id] = resource


async def plan(session: Session, options: ApplyOptions, strict: bool = False) -> list[Decision]:
    """What apply would do, by looking. Writes nothing. `strict`: what cannot be seen is not told as absent (survey)."""
    wanted = session.resources()
    orphans = session.orphans()
    seen = await refresh(session, [*wanted, *orphans], strict)
    seen |= {r.id: restore_job_state(session, r, seen[r.id]) for r in wanted if r.kind == "job"}
    record_release(session.deployment, seen)
    last = STEP_NAMES.index(options.until)
    within = [r for r in wanted if STEP_NAMES.index(r.step) <= last]
    decisions = make_plan(within, orphans, seen, session.deployment, options.replace)
    return [await guard_no_steps_left(session, decision, seen) for decision in decisions]


def plan_errors(decisions: Sequence[Decision], options: ApplyOptions) -> list[dict[str, str]]:
    """Why a plan cannot be carried out, one entry a resource; empty when it can."""
    found = []
    other_way = f"; {sentence}" if (sentence := recovery_hint(decisions)) else ""
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
    return found


def _failure(id: str, title: str, detail: str = "", fix: str = "") -> dict[str, str]:
    return {"id": id, "title": title, "detail": detail, "fix": fix}


async def apply(session: Session, options: ApplyOptions) -> AsyncIterator[Event]:
    """Brings about what is missing. Ends with a summary; whether all went well is in it."""
    start = asyncio.get_running_loop().time()
    await refresh_prices(session)
    decisions = [await _reclaim_interrupted(session, decision) for decision in await plan(session, options)]
    yield Event("plan", None, plan_data(decisions))
    standing = {
        d.resource.id: d.resource for d in decisions if d.observed.state not in ("absent", "deleting")
    }
    tally = _ApplyResult(failed=plan_errors(decisions, options), existing=standing)
    limits = SpendingLimits(
        spending_limit(session.answers, options.max_usd),
        options.max_usd_per_hour,
    )
    meter = BudgetGuard(session.deployment, session.resources(), limits.total_usd)
    undecided = options.allow_unpriced or creates_free_resources(decisions)
    tally.failed += spending_errors(decisions, meter, limits, allow_unpriced=undecided)
    if not tally.failed:
        for text in spending_notices(decisions, meter, limits, allow_unpriced=options.allow_unpriced):
            yield events.notice(text)
    if not tally.failed:
        async for event in _execute(session, decisions, options, tally, meter):
            yield event
    yield _summary(
        tally, asyncio.get_running_loop().time() - start, "status" if not tally.failed else "apply"
    )


async def _reclaim_interrupted(session: Session, decision: Decision) -> Decision:
    """A thing that a killed apply made without a mark, and that its request id proves to be ours, is no stranger's."""
    if decision.action != "adopt" or not await owned_by_request_id(session, decision.resource):
        return decision
    return replace(decision, action="keep", ownership="created", note="made by an apply that was cut short")


async def _execute(
    session: Session,
    decisions: Sequence[Decision],
    options: ApplyOptions,
    result: _ApplyResult,
    budget: BudgetGuard,
) -> AsyncIterator[Event]:
    work = Reconciler(session, options.adopt)
    free = [d for d in decisions if d.resource.kind in NON_BILLABLE and d.action != "delete"]
    async for event in _run_concurrently(work, free, result, budget):
        yield event
    if not result.failed and options.gate and any(d.action in ("create", "replace") for d in decisions):
        yield events.notice(
            "all checks once more before anything billable; a new API may take minutes to be felt"
        )
        result.failed.extend(dict(entry) for entry in await options.gate())
    if not result.failed and not options.allow_unpriced and creates_free_resources(decisions):
        budget = await _recheck_spending(session, decisions, options, result)
    if result.failed:
        return
    rest = [d for d in decisions if d.resource.kind not in NON_BILLABLE and d.action != "delete"]
    async for event in _run_concurrently(work, rest, result, budget):
        yield event
    gone = [d.resource for d in decisions if d.action == "delete"]
    if gone and not result.failed:
        async for event in _destroy(session, gone, result):
            yield event


async def _recheck_spending(
    session: Session, decisions: Sequence[Decision], options: ApplyOptions, result: _ApplyResult
) -> BudgetGuard:
    """Apply the limits at the prices that can be read now that the APIs are enabled, before anything is billed."""
    await refresh_prices(session, retry=True)
    limits = SpendingLimits(spending_limit(session.answers, options.max_usd), options.max_usd_per_hour)
    budget = BudgetGuard(session.deployment, session.resources(), limits.total_usd)
    result.failed.extend(spending_errors(decisions, budget, limits))
    return budget


async def enable_apis(session: Session) -> AsyncIterator[Event]:
    """The project's APIs alone, so that checks can look while other answers are still being given.

    They are free and stay at destroy, and a later apply finds them there. Needs the answers of the project step only.
    """
    start = asyncio.get_running_loop().time()
    apis = [r for r in step("project").resources(session.answers) if r.kind == "api"]
    seen = await refresh(session, apis)
    decisions = make_plan(apis, (), seen, session.deployment)
    tally = _ApplyResult()
    async for event in _run_concurrently(
        Reconciler(session, False), decisions, tally, BudgetGuard(session.deployment, apis, None)
    ):
        yield event
    yield _summary(tally, asyncio.get_running_loop().time() - start, "check")


async def _run_concurrently(
    reconciler: Reconciler, decisions: Sequence[Decision], result: _ApplyResult, budget: BudgetGuard
) -> AsyncIterator[Event]:
    """Everything whose needs are met runs at the same time; events come as they happen."""
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    results: dict[str, asyncio.Future[bool]] = {
        d.resource.id: asyncio.get_running_loop().create_future() for d in decisions
    }

    async def one(decision: Decision) -> None:
        resource = decision.resource
        met = [await results[need] for need in resource.depends_on if need in results]
        ok = all(met) and await _attempt(reconciler, decision, queue.put_nowait, result, budget)
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
    reconciler: Reconciler,
    decision: Decision,
    emit: Callable[[Event], None],
    result: _ApplyResult,
    budget: BudgetGuard,
) -> bool:
    """One resource to its end; a failure is told once, with its fix."""
    id = decision.resource.id
    if decision.action in MUTATING and (refusal := budget.limit_error()):
        if refusal["id"] not in [entry["id"] for entry in result.failed]:
            result.failed.append(refusal)
        return False
    try:
        outcome = await reconciler.reconcile(decision, emit)
    except WizardError as error:
        result.failed.append(_failure(id, error.title, error.detail, error.fix))
        emit(events.failed(id, error.title, error.detail, error.fix, error.command))
        return False
    result.add(decision.resource, outcome)
    return True


async def destroy(
    session: Session, keep: Collection[str] = (), delete_project: str = ""
) -> AsyncIterator[Event]:
    """Runs the graph backwards and deletes what this deployment created.

    `keep` are steps whose Google resources stay, with all that those need. `delete_project` names the one project that may go too.
    """
    start = asyncio.get_running_loop().time()
    await refresh_prices(session)  # the cost of what is deleted is recorded at these prices
    everything = [
        _allow_project_delete(r, delete_project) for r in (*session.resources(), *session.orphans())
    ]
    staying = retained_ids(everything, keep)
    tally = _ApplyResult(existing={r.id: r for r in everything if r.id in staying})
    async for event in _destroy(session, [r for r in everything if r.id not in staying], tally, everything):
        yield event
    if bill := await reservation_bill(session):
        yield events.notice(format_reservation_bill(bill))
    left = [
        r for r in tally.existing.values() if r.id in session.deployment.resources and not r.retain_on_destroy
    ]
    if left and not tally.failed:
        yield events.notice(f"kept, and billed on where it costs: {', '.join(sorted(r.id for r in left))}")
    if text := _still_billed(tally.foreign):
        yield events.notice(text)
    following = "destroy" if tally.failed else "status" if left else "nothing left"
    yield _summary(tally, asyncio.get_running_loop().time() - start, following)


def _still_billed(others: Sequence[Resource]) -> str:
    """What was taken over stays, and its price with it; empty where none of it costs anything."""
    costly = [r for r in others if r.usd_per_hour != 0]
    known, unknown = hourly_cost(costly)
    parts = [f"{known:.2f} USD/h"] if known else []
    parts += [f"{len(unknown)} parts without a known price"] if unknown else []
    names = ", ".join(r.id for r in costly)
    return (
        f"not made by this deployment, so it stays and goes on costing {' + '.join(parts)}: {names}"
        if costly
        else ""
    )


def _allow_project_delete(resource: Resource, project: str) -> Resource:
    return (
        replace(resource, retain_on_destroy=False)
        if resource.kind == "project" and resource.name == project
        else resource
    )


async def _destroy(
    session: Session, targets: Sequence[Resource], result: _ApplyResult, everything: Sequence[Resource] = ()
) -> AsyncIterator[Event]:
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    known = {r.id: r for r in (everything or targets)}
    ids = {r.id for r in targets}
    results: dict[str, asyncio.Future[bool]] = {id: asyncio.get_running_loop().create_future() for id in ids}
    dependents: dict[str, list[str]] = {
        id: [other.id for other in known.values() if id in other.depends_on and other.id in ids] for id in ids
    }
    seen = await refresh(session, targets, strict=True)
    record_release(session.deployment, seen)

    async def one(resource: Resource) -> None:
        above = [await results[id] for id in dependents[resource.id]]
        try:
            counted = (
                await delete_resource(session, resource, seen[resource.id], queue.put_nowait)
                if all(above)
                else "skipped"
            )
            ok = counted != "skipped"
            result.deleted += counted == "deleted"
            result.kept += counted == "kept"
            result.foreign += [resource] if counted == "kept" and not resource.retain_on_destroy else []
        except WizardError as error:
            ok = False
            result.failed.append(_failure(resource.id, error.title, error.detail, error.fix))
            result.existing[resource.id] = resource
            queue.put_nowait(events.failed(resource.id, error.title, error.detail, error.fix, error.command))
        results[resource.id].set_result(ok)

    yield Event(
        "plan",
        None,
        {
            "resources": [
                {
                    "id": r.id,
                    "action": "keep" if planned_deletion(session, r, seen[r.id]) == "keep" else "delete",
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
        {r.id for r in topological_order([d.resource for d in decisions if d.action != "delete"])}
        if decisions
        else set()
    )
    return {
        "resources": [
            {
                "id": d.resource.id,
                "action": d.action,
                "needs": [n for n in d.resource.depends_on if n in ordered],
            }
            for d in decisions
        ]
    }


def _summary(result: _ApplyResult, seconds: float, next_command: str) -> Event:
    known, _ = hourly_cost(list(result.existing.values()))
    return Event(
        "summary",
        None,
        {
            "ok": not result.failed,
            "created": result.created,
            "adopted": result.adopted,
            "kept": result.kept,
            "deleted": result.deleted,
            "failed": result.failed,
            "seconds": round(seconds, 3),
            "usd_per_hour": known,
            "next": next_command,
        },
    )
