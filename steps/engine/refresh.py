"""Observing: every resource is looked at, many at a time. What the cloud says counts, never the file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.driver import EmitNotice, ResourceContext
from grpo_wizard.steps.clients.registry import driver_for
from grpo_wizard.steps.core.model import ABSENT, ObservedState, OutputRef, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.crash_report import unexpected_error
from grpo_wizard.steps.engine.executor import run_concurrently
from grpo_wizard.steps.gcp.projects import project_not_found

if TYPE_CHECKING:
    from grpo_wizard.steps.clients.errors import CloudError

_MAX_CONCURRENCY = 12
_NO_RESPONSE_DELAY = 2.0  # seconds at least before a new try of what had no answer at all
_READ_RETRIES = 3  # tries of one reading before the last: 7 s in real life


def resolve(value: object, outputs: Mapping[str, Mapping[str, str]]) -> Any:
    """A spec with its Facts filled in. What is not known yet is left out, so that it is not compared either."""
    if isinstance(value, Mapping):
        filled = {key: resolve(item, outputs) for key, item in value.items()}
        return {key: item for key, item in filled.items() if item is not None or value[key] is None}
    if isinstance(value, list):
        items = [resolve(item, outputs) for item in value]
        return (
            [item for item in items if item is not None] or None
            if any(isinstance(item, OutputRef) for item in value)
            else items
        )
    if isinstance(value, OutputRef):
        return outputs.get(value.resource_id, {}).get(value.key)
    return value


def output_refs(value: object) -> set[str]:
    """Ids of the resources that a spec takes Facts from."""
    if isinstance(value, Mapping):
        return set().union(*map(output_refs, value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*map(output_refs, value)) if value else set()
    return {value.resource_id} if isinstance(value, OutputRef) else set()


def resource_context(
    session: Session,
    resource: Resource,
    outputs: Mapping[str, Mapping[str, str]],
    emit: EmitNotice = lambda text: None,
) -> ResourceContext:
    record = session.deployment.resources.get(resource.id)
    return ResourceContext(
        resource,
        resolve(resource.spec, outputs),
        session.owner_label,
        session.deployment.lineage,
        record.request_id if record else "",
        dict(record.facts) if record else {},
        emit,
    )


async def read(
    session: Session, resource: Resource, outputs: Mapping[str, Mapping[str, str]]
) -> ObservedState:
    return await asyncio.to_thread(
        driver_for(resource.kind).read, session.cloud, resource_context(session, resource, outputs)
    )


async def refresh(
    session: Session, resources: Iterable[Resource], strict: bool = False
) -> dict[str, ObservedState]:
    """What is there of each, by id. An API that is off shows nothing; any other error is raised.

    `strict`, for taking down: what was made behind an API that is off is not gone, and costs on; raises CloudError.
    """
    from grpo_wizard.steps.clients.errors import CloudError

    listed = list(resources)
    gate = asyncio.Semaphore(_MAX_CONCURRENCY)
    seen: dict[str, ObservedState] = {}

    async def one(resource: Resource) -> None:
        async with gate:
            try:
                seen[resource.id] = await _read_with_retry(
                    session, resource, {id: sight.outputs for id, sight in seen.items()}
                )
            except CloudError as error:
                if error.kind != "api_disabled" and not (resource.kind == "job" and error.transient):
                    await _raise_if_project_missing(session, resource, error)
                    raise
                # A head that does not answer must not keep anybody from looking at the rest, or from taking it down.
                seen[resource.id] = (
                    _on_api_disabled(session, resource, error, strict)
                    if error.kind == "api_disabled"
                    else ObservedState(detail=f"cannot be asked: {error.title}")
                )
            except WizardError:
                raise
            except Exception as error:
                doing = f"reading {resource.kind} {resource.name}"
                raise unexpected_error(session, error, doing) from error

    await run_concurrently(one(r) for r in listed if r.kind == "project")
    seen |= _absent_in_missing_projects(listed, seen)
    rest = [r for r in listed if r.id not in seen]
    await run_concurrently(one(r) for r in rest if not output_refs(r.spec))
    await run_concurrently(one(r) for r in rest if output_refs(r.spec))
    return seen


def _on_api_disabled(session: Session, resource: Resource, error: CloudError, strict: bool) -> ObservedState:
    """Behind an API that is off: nothing, unless something was made there. Raises CloudError where that must be known."""
    from grpo_wizard.steps.clients.errors import CloudError, set_project_id

    if resource.id not in session.deployment.resources:
        return ABSENT
    if "project" in resource.parent:
        set_project_id(error, resource.parent["project"])
    title = error.title.replace("is not enabled yet", "is off")
    if strict:
        raise CloudError(
            "api_disabled",
            f"{title}: what this deployment made there cannot be seen",
            f"{resource.kind} {resource.name} may stand, and cost, all the same",
            "enable it, then run the same command again",
            error.command,
        )
    return ObservedState(detail=f"cannot be seen: {title}; it may stand, and cost, all the same")


async def _raise_if_project_missing(session: Session, resource: Resource, error: CloudError) -> None:
    """Raises that the project is not there where that is why; services name all sorts of things then."""
    from grpo_wizard.steps.clients.errors import CloudError
    from grpo_wizard.steps.clients.google.resource_manager import fetch_project

    project = resource.parent.get("project", "")
    if error.kind not in ("denied", "not_found") or not project:
        return
    cloud = session.cloud
    if await asyncio.to_thread(fetch_project, cloud, project) is None:
        finding = project_not_found(project, cloud.account, cloud.mode)
        raise CloudError("not_found", "Project not found", finding.detail, finding.fix) from error


async def _read_with_retry(
    session: Session, resource: Resource, outputs: Mapping[str, Mapping[str, str]]
) -> ObservedState:
    """Reading does no harm: what fails for the moment is asked again, a few times."""
    from grpo_wizard.steps.clients.errors import CloudError

    for wait in backoff.retry_delays(session.cloud.time_scale)[:_READ_RETRIES]:
        try:
            return await read(session, resource, outputs)
        except CloudError as error:
            if not error.transient or error.kind == "api_disabled":
                raise
            # A rehearsal that was killed needs seconds to stand again, at any speed; a head may well be nowhere.
            gone = not error.status and resource.kind != "job"
            await asyncio.sleep(max(wait, _NO_RESPONSE_DELAY) if gone else wait)
    try:
        return await read(session, resource, outputs)
    except CloudError as error:
        if error.transient and not error.status and session.cloud.mode == "rehearsal":
            error.fix = "the rehearsal does not answer: run the same command again, which starts it where it is not running"
        raise


def _absent_in_missing_projects(
    resources: Iterable[Resource], seen: Mapping[str, ObservedState]
) -> dict[str, ObservedState]:
    """Google refuses questions about a project that is not there, as if a permission were missing."""
    listed = list(resources)
    missing = {r.name for r in listed if r.kind == "project" and seen[r.id].state == "absent"}
    return {r.id: ABSENT for r in listed if r.kind != "project" and r.parent.get("project") in missing}
