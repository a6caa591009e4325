"""Reading the observed state of resources, many at a time. The cloud is the truth, never the state file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.driver import EmitNotice, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError, set_project_id
from grpo_wizard.steps.clients.google.resource_manager import fetch_project
from grpo_wizard.steps.clients.registry import driver_for
from grpo_wizard.steps.core.model import ABSENT, ObservedState, OutputRef, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.crash_report import unexpected_error
from grpo_wizard.steps.engine.executor import run_concurrently
from grpo_wizard.steps.gcp.projects import project_not_found

_MAX_CONCURRENCY = 12
_NO_RESPONSE_DELAY = 2.0  # seconds, at least, before a retry of what had no response at all
_READ_RETRIES = 3  # before the last try: 7 s at real speed


def resolve(value: object, outputs: Mapping[str, Mapping[str, str]]) -> Any:
    """Fill in a spec's OutputRefs. A value that is not known yet is left out, so that it is not compared either."""
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
    """Ids of the resources whose outputs a spec refers to."""
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
    """Read every resource; returns their states by id. Behind a disabled API nothing exists; other errors are raised.

    `strict`, for destroy: a recorded resource behind a disabled API may exist and be billed; raises CloudError.
    """
    return await _Refresh(session, strict).run(list(resources))


class _Refresh:
    """One refresh; resources whose specs take outputs of others are read after them."""

    def __init__(self, session: Session, strict: bool) -> None:
        self.session, self.strict = session, strict
        self.observed: dict[str, ObservedState] = {}
        self._slots = asyncio.Semaphore(_MAX_CONCURRENCY)

    async def run(self, resources: Sequence[Resource]) -> dict[str, ObservedState]:
        await run_concurrently(self._read(r) for r in resources if r.kind == "project")
        self.observed |= _absent_in_missing_projects(resources, self.observed)
        rest = [r for r in resources if r.id not in self.observed]
        await run_concurrently(self._read(r) for r in rest if not output_refs(r.spec))
        await run_concurrently(self._read(r) for r in rest if output_refs(r.spec))
        return self.observed

    async def _read(self, resource: Resource) -> None:
        async with self._slots:
            try:
                self.observed[resource.id] = await self._read_or_explain(resource)
            except WizardError:
                raise
            except Exception as error:
                doing = f"reading {resource.kind} {resource.name}"
                raise unexpected_error(self.session, error, doing) from error

    async def _read_or_explain(self, resource: Resource) -> ObservedState:
        outputs = {id: state.outputs for id, state in self.observed.items()}
        try:
            return await _read_with_retry(self.session, resource, outputs)
        except CloudError as error:
            if error.kind == "api_disabled":
                return _on_api_disabled(self.session, resource, error, self.strict)
            if resource.kind == "job" and error.transient:
                # A head that does not answer must not block reading, or deleting, everything else.
                return ObservedState(detail=f"cannot be read: {error.title}")
            await _raise_if_project_missing(self.session, resource, error)
            raise


def _on_api_disabled(session: Session, resource: Resource, error: CloudError, strict: bool) -> ObservedState:
    """Absent, unless the resource is on record. Raises CloudError when `strict`."""
    if resource.id not in session.deployment.resources:
        return ABSENT
    if "project" in resource.parent:
        set_project_id(error, resource.parent["project"])
    title = error.title.replace(" yet", "")
    if strict:
        raise CloudError(
            "api_disabled",
            f"{title}, so this deployment's resources that depend on it cannot be read",
            f"The {resource.kind.replace('_', ' ')} {resource.name} may still exist and be billed.",
            "Enable the API, then re-run the command.",
            error.command,
        )
    return ObservedState(detail=f"{title}; it may still exist and be billed")


async def _raise_if_project_missing(session: Session, resource: Resource, error: CloudError) -> None:
    """Raise "project not found" if that is the reason: each service words a missing project in its own way."""
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
    """Read a resource; a temporary failure is retried a few times."""
    for delay in backoff.retry_delays(session.cloud.time_scale)[:_READ_RETRIES]:
        try:
            return await read(session, resource, outputs)
        except CloudError as error:
            if not error.transient or error.kind == "api_disabled":
                raise
            # A killed emulator takes seconds to restart, whatever its speed. A Ray head may simply not exist.
            no_response = not error.status and resource.kind != "job"
            await asyncio.sleep(max(delay, _NO_RESPONSE_DELAY) if no_response else delay)
    try:
        return await read(session, resource, outputs)
    except CloudError as error:
        if error.transient and not error.status and session.cloud.mode == "rehearsal":
            error.fix = "The emulator is not responding. Re-run the command, which will start it if it is not running."
        raise


def _absent_in_missing_projects(
    resources: Iterable[Resource], observed: Mapping[str, ObservedState]
) -> dict[str, ObservedState]:
    """Google answers questions about a missing project as if a permission were missing."""
    listed = list(resources)
    missing = {r.name for r in listed if r.kind == "project" and observed[r.id].state == "absent"}
    return {r.id: ABSENT for r in listed if r.kind != "project" and r.parent.get("project") in missing}
