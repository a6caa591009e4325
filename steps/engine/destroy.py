"""`destroy`: deletes what this deployment created, dependents first, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import ObservedState, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.crash_report import unexpected_error
from grpo_wizard.steps.engine.delete import delete_resource, planned_deletion
from grpo_wizard.steps.engine.executor import EmitEvent, GraphRun
from grpo_wizard.steps.engine.graph import retained_ids
from grpo_wizard.steps.engine.options import DestroyOptions
from grpo_wizard.steps.engine.refresh import refresh
from grpo_wizard.steps.engine.result import RunResult, failure_of
from grpo_wizard.steps.pricing.book import hourly_cost
from grpo_wizard.steps.pricing.budget import record_release
from grpo_wizard.steps.pricing.refresh import refresh_prices
from grpo_wizard.steps.pricing.reservation import format_reservation_bill, reservation_bill

_NO_OPTIONS = DestroyOptions()


async def destroy(session: Session, options: DestroyOptions = _NO_OPTIONS) -> AsyncIterator[Event]:
    """Run the graph backwards. Ends with a summary event, which says whether everything was deleted."""
    started = asyncio.get_running_loop().time()
    await refresh_prices(session)  # the cost of what is deleted is recorded at these prices
    everything = [
        _allow_project_delete(r, options.delete_project) for r in (*session.resources(), *session.orphans())
    ]
    retained = retained_ids(everything, options.keep)
    result = RunResult(existing={r.id: r for r in everything if r.id in retained})
    targets = [r for r in everything if r.id not in retained]
    async for event in delete_resources(session, targets, result, everything):
        yield event
    if bill := await reservation_bill(session):
        yield events.notice(format_reservation_bill(bill))
    left = [
        r
        for r in result.existing.values()
        if r.id in session.deployment.resources and not r.retain_on_destroy
    ]
    if left and not result.failed:
        kept = ", ".join(sorted(r.id for r in left))
        yield events.notice(f"Kept, and still billed unless free of charge: {kept}")
    if text := _foreign_cost_notice(result.foreign):
        yield events.notice(text)
    following = "destroy" if result.failed else "status" if left else "nothing left"
    yield result.summary(asyncio.get_running_loop().time() - started, following)


def _foreign_cost_notice(foreign: Sequence[Resource]) -> str:
    """Name adopted resources that stay and are billed; empty when none of them costs anything."""
    billed = [r for r in foreign if r.usd_per_hour != 0]
    if not billed:
        return ""
    known, unpriced = hourly_cost(billed)
    parts = [f"{known:.2f} USD/h"] if known else []
    if unpriced:
        parts.append(f"an unknown price for {len(unpriced)} resource{'s' if len(unpriced) > 1 else ''}")
    names = ", ".join(r.id for r in billed)
    return f"Not deleted (not created by this deployment) and still billed at {' plus '.join(parts)}: {names}"


def _allow_project_delete(resource: Resource, project: str) -> Resource:
    if resource.kind == "project" and resource.name == project:
        return replace(resource, retain_on_destroy=False)
    return resource


async def delete_resources(
    session: Session, targets: Sequence[Resource], result: RunResult, everything: Sequence[Resource] = ()
) -> AsyncIterator[Event]:
    """Delete `targets`, each once its dependents among them are gone. Adds to `result`; yields the plan first."""
    observed = await refresh(session, targets, strict=True)
    record_release(session.deployment, observed)
    by_id = {r.id: r for r in targets}

    async def delete(id: str, emit: EmitEvent) -> bool:
        try:
            await _delete_one(session, by_id[id], observed[id], result, emit)
        except Exception as error:
            known = (
                error
                if isinstance(error, WizardError)
                else unexpected_error(session, error, f"deleting {by_id[id].kind} {by_id[id].name}")
            )
            result.failed.append(failure_of(id, known))
            result.existing[id] = by_id[id]
            emit(events.failed(id, known.title, known.detail, known.fix, known.command))
            return False
        return True

    yield _deletion_plan(session, targets, observed)
    run = GraphRun(_dependents(targets, everything or targets), delete)
    async for event in run.events():
        yield event
    result.existing |= {id: by_id[id] for id in run.skipped if id in session.deployment.resources}
    for notice in skipped_notices(
        run.skipped, "Not deleted because {root} still uses them or their dependents"
    ):
        yield notice


async def _delete_one(
    session: Session, resource: Resource, observed: ObservedState, result: RunResult, emit: EmitEvent
) -> None:
    outcome = await delete_resource(session, resource, observed, emit)
    if outcome != "gone":
        result.counts[outcome] += 1
    if outcome == "kept" and not resource.retain_on_destroy:
        result.foreign.append(resource)


def _dependents(targets: Sequence[Resource], everything: Sequence[Resource]) -> dict[str, list[str]]:
    ids = {r.id for r in targets}
    return {
        id: [other.id for other in everything if id in other.depends_on and other.id in ids] for id in ids
    }


def _deletion_plan(
    session: Session, targets: Sequence[Resource], observed: Mapping[str, ObservedState]
) -> Event:
    def row(resource: Resource) -> dict[str, str]:
        state = observed[resource.id]
        keep = planned_deletion(session, resource, state) == "keep"
        return {"id": resource.id, "action": "keep" if keep else "delete", "state": state.state}

    return Event("plan", None, {"resources": [row(r) for r in targets]})


def skipped_notices(skipped: Mapping[str, str], reason: str) -> list[Event]:
    """One notice for each failed resource that stopped others; `reason` holds `{root}`."""
    by_root: dict[str, list[str]] = {}
    for id, root in skipped.items():
        by_root.setdefault(root, []).append(id)
    return [
        events.notice(f"{reason.format(root=root)}: {_join(sorted(ids))}") for root, ids in by_root.items()
    ]


def _join(ids: Collection[str], most: int = 5) -> str:
    listed = list(ids)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
