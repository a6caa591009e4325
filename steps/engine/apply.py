"""`plan` and `apply`, written once for every kind of resource. Front ends only render the events."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.registry import FREE_KINDS
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import ABSENT, ObservedState, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.crash_report import unexpected_error
from grpo_wizard.steps.engine.destroy import delete_resources, skipped_notices
from grpo_wizard.steps.engine.executor import EmitEvent, GraphRun
from grpo_wizard.steps.engine.graph import topological_order
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.engine.plan import MUTATING, Decision, make_plan
from grpo_wizard.steps.engine.preflight import preflight_gate
from grpo_wizard.steps.engine.reconcile import Reconciler, owned_by_request_id
from grpo_wizard.steps.engine.recovery import recovery_hint
from grpo_wizard.steps.engine.refresh import refresh
from grpo_wizard.steps.engine.result import RunResult, failure, failure_of
from grpo_wizard.steps.engine.spending import creates_free_resources, spending_errors, spending_notices
from grpo_wizard.steps.jobs.history import restore_job_state
from grpo_wizard.steps.jobs.resume_guard import no_steps_left
from grpo_wizard.steps.pricing.budget import BudgetGuard, SpendingLimits, record_release, spending_limit
from grpo_wizard.steps.pricing.refresh import refresh_prices


async def plan(session: Session, options: ApplyOptions, strict: bool = False) -> list[Decision]:
    """Read the cloud and decide what apply would do. Creates nothing.

    `strict`: a resource behind a disabled API raises CloudError instead of counting as absent (see refresh).
    """
    wanted, orphans = session.resources(), session.orphans()
    observed = await refresh(session, [*wanted, *orphans], strict)
    observed |= {r.id: restore_job_state(session, r, observed[r.id]) for r in wanted if r.kind == "job"}
    record_release(session.deployment, observed)
    steps = session.workflow.step_names
    last = steps.index(options.until) if options.until else len(steps)
    selected = [r for r in wanted if steps.index(r.step) <= last]
    decisions = make_plan(selected, orphans, observed, session.deployment, options.replace)
    return [await _guard_finished_run(session, d, observed) for d in decisions]


async def _guard_finished_run(
    session: Session, decision: Decision, observed: dict[str, ObservedState]
) -> Decision:
    """Turn a job that would have no step left to train into a conflict. Asks only a Ray head that is ready."""
    job = decision.resource
    if job.kind != "job" or decision.action != "create":
        return decision
    if any(observed.get(need, ABSENT).state != "ready" for need in job.depends_on):
        return decision
    reason = await no_steps_left(session, job)
    return dataclasses.replace(decision, action="conflict", note=reason) if reason else decision


def plan_errors(decisions: Sequence[Decision], options: ApplyOptions) -> list[dict[str, str]]:
    """Why a plan cannot be carried out, one entry a resource; empty when it can."""
    hint = f" {text}" if (text := recovery_hint(decisions)) else ""
    return [entry for d in decisions if (entry := _decision_error(d, options, hint))]


def _decision_error(decision: Decision, options: ApplyOptions, hint: str) -> dict[str, str] | None:
    id = decision.resource.id
    if decision.action == "conflict":
        fix = (
            f"Run apply with --replace {id} to delete and re-create it."
            if "--replace" in decision.note
            else "Delete the resource or choose a different name, unless the message above suggests another fix."
        )
        return failure(id, "Conflict", decision.note, fix)
    if decision.action == "adopt" and not options.adopt:
        fix = f"Run apply with --adopt to use the existing resource, or choose a different name.{hint}"
        return failure(id, "Not created by this deployment", decision.note, fix)
    return None


async def apply(session: Session, options: ApplyOptions) -> AsyncIterator[Event]:
    """Create or update what differs from the answers. Ends with a summary event, which says whether all went well."""
    started = asyncio.get_running_loop().time()
    await refresh_prices(session)
    decisions = [await _reclaim_interrupted(session, decision) for decision in await plan(session, options)]
    yield Event("plan", None, plan_data(decisions))
    existing = {
        d.resource.id: d.resource for d in decisions if d.observed.state not in ("absent", "deleting")
    }
    result = RunResult(failed=plan_errors(decisions, options), existing=existing)
    budget, limits = _budget(session, options)
    # A catalog that cannot be read before its API is enabled is read again before anything is billed.
    undecided = options.skip_checks or creates_free_resources(decisions)
    result.failed += spending_errors(decisions, budget, limits, allow_unpriced=undecided)
    if not result.failed:
        for text in spending_notices(decisions, budget, limits, allow_unpriced=options.skip_checks):
            yield events.notice(text)
    if not result.failed:
        async for event in _execute(session, decisions, options, result, budget):
            yield event
    yield result.summary(asyncio.get_running_loop().time() - started, "apply" if result.failed else "status")


def _budget(session: Session, options: ApplyOptions) -> tuple[BudgetGuard, SpendingLimits]:
    """The limits in force, and what is spent so far at the session's prices."""
    limits = SpendingLimits(spending_limit(session.answers, options.max_usd), options.max_usd_per_hour)
    return BudgetGuard(session.deployment, session.resources(), limits.total_usd), limits


async def _reclaim_interrupted(session: Session, decision: Decision) -> Decision:
    """Keep an unlabelled resource whose request id proves that an interrupted apply of ours created it."""
    if decision.action != "adopt" or not await owned_by_request_id(session, decision.resource):
        return decision
    return dataclasses.replace(
        decision, action="keep", ownership="created", note="created by an interrupted apply"
    )


async def _execute(
    session: Session,
    decisions: Sequence[Decision],
    options: ApplyOptions,
    result: RunResult,
    budget: BudgetGuard,
) -> AsyncIterator[Event]:
    """What costs nothing first, then preflight, then everything else, then deletions."""
    reconciler = Reconciler(session, options.adopt)
    free = [d for d in decisions if d.resource.kind in FREE_KINDS and d.action != "delete"]
    async for event in _reconcile_all(reconciler, free, result, budget):
        yield event
    billable_pending = any(d.action in ("create", "replace") for d in decisions)
    if billable_pending and not result.failed and not options.skip_checks:
        yield events.notice(
            "Re-running preflight checks before creating billable resources (newly enabled APIs can take a few minutes to take effect)"
        )
        result.failed += await _preflight_failures(session)
    if not result.failed and not options.skip_checks and creates_free_resources(decisions):
        await refresh_prices(session, retry=True)
        budget, limits = _budget(session, options)
        result.failed += spending_errors(decisions, budget, limits)
    if result.failed:
        return
    rest = [d for d in decisions if d.resource.kind not in FREE_KINDS and d.action != "delete"]
    async for event in _reconcile_all(reconciler, rest, result, budget):
        yield event
    unwanted = [d.resource for d in decisions if d.action == "delete"]
    if unwanted and not result.failed:
        async for event in delete_resources(session, unwanted, result):
            yield event


async def _preflight_failures(session: Session) -> list[dict[str, str]]:
    try:
        return await preflight_gate(session)
    except WizardError:
        raise
    except Exception as error:
        return [failure_of("check", unexpected_error(session, error, "running preflight checks"))]


async def enable_apis(session: Session, apis: Sequence[Resource]) -> AsyncIterator[Event]:
    """Enable `apis` alone, so that checks work while other answers are still being given. Ends with a summary.

    APIs are free and stay enabled after destroy; a later apply finds them enabled.
    """
    started = asyncio.get_running_loop().time()
    decisions = make_plan(apis, (), await refresh(session, apis), session.deployment)
    result = RunResult()
    no_limit = BudgetGuard(session.deployment, apis, None)
    async for event in _reconcile_all(Reconciler(session, adopt=False), decisions, result, no_limit):
        yield event
    yield result.summary(asyncio.get_running_loop().time() - started, "check")


async def _reconcile_all(
    reconciler: Reconciler, decisions: Sequence[Decision], result: RunResult, budget: BudgetGuard
) -> AsyncIterator[Event]:
    """Reconcile each resource once what it depends on is ready; independent ones run at the same time."""
    by_id = {d.resource.id: d for d in decisions}

    async def reconcile(id: str, emit: EmitEvent) -> bool:
        return await _reconcile_one(reconciler, by_id[id], emit, result, budget)

    run = GraphRun(
        {id: [need for need in d.resource.depends_on if need in by_id] for id, d in by_id.items()}, reconcile
    )
    async for event in run.events():
        yield event
    failed = {entry["id"] for entry in result.failed}
    skipped = {id: root for id, root in run.skipped.items() if root in failed}
    for notice in skipped_notices(skipped, "Not created or checked because {root} failed"):
        yield notice


async def _reconcile_one(
    reconciler: Reconciler, decision: Decision, emit: EmitEvent, result: RunResult, budget: BudgetGuard
) -> bool:
    """Reconcile one resource; an error becomes one resource_failed event with its fix."""
    resource = decision.resource
    if decision.action in MUTATING and (refusal := budget.limit_error()):
        if refusal["id"] not in [entry["id"] for entry in result.failed]:
            result.add_failure(refusal)
        return False
    try:
        outcome = await reconciler.reconcile(decision, emit)
    except Exception as error:
        doing = f"applying {resource.kind} {resource.name} ({decision.action})"
        known = (
            error if isinstance(error, WizardError) else unexpected_error(reconciler.session, error, doing)
        )
        result.add_failure(failure_of(resource.id, known))
        emit(events.failed(resource.id, known.title, known.detail, known.fix, known.command))
        return False
    result.counts[outcome] += 1
    result.existing[resource.id] = resource
    return True


def plan_data(decisions: Sequence[Decision]) -> dict[str, object]:
    """The data of the plan event: what happens to which resource, and what each waits for."""
    ids = {r.id for r in topological_order([d.resource for d in decisions if d.action != "delete"])}
    rows = [
        {
            "id": d.resource.id,
            "action": d.action,
            "needs": [need for need in d.resource.depends_on if need in ids],
        }
        for d in decisions
    ]
    return {"resources": rows}
