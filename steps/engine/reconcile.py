"""Bringing one resource to its desired state: read, act, wait, read again. After a kill the next apply resumes by reading."""

from __future__ import annotations

import asyncio
import uuid
from typing import Literal

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.model import ResourceRecord, now
from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.registry import driver_for
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.model import Diagnosis, ObservedState, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.delete import delete_and_wait
from grpo_wizard.steps.engine.executor import EmitEvent
from grpo_wizard.steps.engine.loop import ResourceLoop, clock, describe
from grpo_wizard.steps.engine.plan import Decision, foreign_drift, ownership_of
from grpo_wizard.steps.engine.refresh import read, resource_context
from grpo_wizard.steps.jobs.history import record_job

_MAX_RECREATIONS = 2
Outcome = Literal["created", "adopted", "kept"]  # what the summary counts a resource as


class Reconciler:
    """One apply. `outputs` grow as resources become ready; specs of later resources take values from them."""

    def __init__(self, session: Session, adopt: bool) -> None:
        self.session, self.adopt = session, adopt
        self.outputs: dict[str, dict[str, str]] = {}

    async def reconcile(self, decision: Decision, emit: EmitEvent) -> Outcome:
        """Return when the resource is ready, adopted or kept. Raises WizardError with the cause and one fix."""
        resource, action = decision.resource, decision.action
        started = clock()
        if action == "adopt":
            self._record_adopted(resource, decision.observed)
        if action in ("adopt", "keep") and decision.observed.state == "ready":
            if resource.kind == "job":
                record_job(self.session, resource, decision.observed)
            self.outputs[resource.id] = dict(decision.observed.outputs)
            self._record_ownership(resource, decision)
            return "adopted" if action == "adopt" else "kept"
        if action == "keep" and decision.observed.state == "absent":
            return "kept"  # an API that nothing in the plan needs
        emit(events.started(resource.id, action, f"{action} {resource.kind} {resource.name}"))
        if action == "replace":
            await delete_and_wait(self.session, resource, decision.observed, emit)
        await _ResourceReconciler(self, resource, emit, started, change=action == "change").run()
        emit(events.done(resource.id, action, clock() - started))
        self.session.deployment.timings[resource.id] = round(clock() - started, 3)
        return "kept" if action in ("keep", "change") else "created"

    def _record_adopted(self, resource: Resource, observed: ObservedState) -> None:
        record = self.session.record(resource)
        record.origin, record.identity, record.done_at = "adopted", observed.identity, now()
        self.session.save()

    def _record_ownership(self, resource: Resource, decision: Decision) -> None:
        """Record a labelled resource of ours that is missing in the file: the file was lost, or apply was killed."""
        record = self.session.record(resource) if decision.ownership == "created" else None
        if record is not None and record.origin != "created":
            _record_created(record, decision.observed)
            self.session.save()


class _ResourceReconciler(ResourceLoop):
    """The loop around one resource."""

    def __init__(
        self, reconciler: Reconciler, resource: Resource, emit: EmitEvent, started: float, *, change: bool
    ) -> None:
        super().__init__(reconciler.session, resource, emit)
        self.reconciler, self.started, self.update_pending = reconciler, started, change
        self.created = False  # our own create succeeded
        self.recreated = 0  # how often it was re-created after a failure of a temporary kind
        self.retried_after_exists = False  # the create answered "already exists": read before judging
        self.diagnosis: Diagnosis | None = None  # what the last read found wrong, and since when
        self.diagnosed_at = started

    @property
    def record(self) -> ResourceRecord:
        return self.session.record(self.resource)

    def context(self) -> ResourceContext:
        return resource_context(self.session, self.resource, self.reconciler.outputs, self.notice)

    def check_deadline(self) -> None:
        """Raise when it takes too long, or when waiting cannot fix what the diagnosis names."""
        diagnosis = self.diagnosis
        hopeless = diagnosis is not None and clock() - self.diagnosed_at > backoff.diagnosis_timeout(
            diagnosis, self.resource, self.time_scale
        )
        if not hopeless and not self.is_overdue:
            return
        remedy = diagnosis.remedy if diagnosis else ""
        raise CloudError(
            "slow",
            f"{describe(self.resource)} is taking longer than expected",
            diagnosis.cause if diagnosis else self.last_message,
            remedy or "Check it in the Google Cloud console, then re-run apply to resume.",
        )

    async def handle_error(self, error: WizardError) -> bool:
        if isinstance(error, CloudError) and error.kind == "exists" and not self.retried_after_exists:
            self.retried_after_exists = True
            return True
        return False

    def passes_with_time(self, error: CloudError) -> bool:
        # No step of ours enables an API in the caller's own project, which creating another project needs.
        kinds = ("busy",) if self.resource.kind == "project" else ("busy", "api_disabled")
        return error.kind in kinds

    async def step(self) -> bool:
        """True when the resource is ready and ours."""
        if self.record.operation and not await self._operation_done():
            return False
        observed = await read(self.session, self.resource, self.reconciler.outputs)
        if observed.state == "absent":
            # What existed before our create (a shared peering) decides how destroy undoes it.
            self.record.facts |= observed.outputs
            await self._create()
            return False
        if observed.state == "ready":
            return await self._finish(observed)
        if observed.state == "failed":
            await self._recreate_or_raise(observed)
            return False
        self._note_progress(observed)
        if observed.state == "creating":
            await asyncio.to_thread(self.driver.advance, self.session.cloud, self.context(), observed)
        return False

    async def _recreate_or_raise(self, observed: ObservedState) -> None:
        retry = self.created and observed.retryable and self.recreated < _MAX_RECREATIONS
        if self.driver.recreate_on_failure and (retry or not self.created):
            if retry:
                self.recreated += 1
                self.emit(events.retry(self.resource.id, observed.detail, 0.0))
            self.record.origin = "created"  # the failed one is finished: the next create is a new request
            await self._create()
            return
        raise CloudError(
            "failed",
            f"{describe(self.resource)} is in an error state",
            observed.detail,
            "Re-run apply: it will re-create the resource unless that would lose data. Run plan to see what it would do.",
        )

    def _note_progress(self, observed: ObservedState) -> None:
        self.report_waiting(observed.detail or observed.state)
        if (observed.diagnosis and observed.diagnosis.remedy) != (self.diagnosis and self.diagnosis.remedy):
            self.diagnosed_at = clock()  # the same remedy is the same problem, however often it restarted
        self.diagnosis = observed.diagnosis

    async def _operation_done(self) -> bool:
        """Poll the recorded operation, perhaps of an earlier run. True when it has ended."""
        try:
            progress = await asyncio.to_thread(
                self.driver.progress, self.session.cloud, self.context(), self.record.operation
            )
        except CloudError as error:
            if error.operation_ended or not error.transient:
                self.record.request_id = ""  # it failed for good: a retry is a new request
                self._save_operation("")
            if error.kind == "not_found":
                return True  # Google forgets operations after a while; the next read decides
            raise
        if progress.done:
            self.created = True
            self._save_operation("")
        else:
            self.report_waiting(progress.counter or "in progress")
        return progress.done

    async def _create(self) -> None:
        """Send the create. The intent is on disk before the call, the operation's name right after it."""
        if not self.record.request_id or self.record.origin != "intended":
            self.record.request_id = str(uuid.uuid4())
        self.record.origin, self.record.intended_at, self.record.identity = "intended", now(), ""
        self.session.save()
        operation = await asyncio.to_thread(self.driver.create, self.session.cloud, self.context())
        self.created = self.created or not operation
        self._save_operation(operation)

    async def _finish(self, observed: ObservedState) -> bool:
        """Record a ready resource; sends a pending update first. True when nothing is left to do."""
        if not await self._is_ours(observed):
            raise CloudError(
                "conflict",
                f"{describe(self.resource)} already exists and was not created by this deployment",
                "It does not match the configuration."
                if foreign_drift(self.resource, observed)
                else "It appeared after the plan was made.",
                "Run apply with --adopt to use the existing resource, or choose a different name.",
            )
        if observed.drift and self.update_pending:
            self.update_pending = False
            self._save_operation(
                await asyncio.to_thread(self.driver.update, self.session.cloud, self.context(), observed)
            )
            return False
        if self.record.origin != "adopted":
            _record_created(self.record, observed)
            self.session.save()
        if self.resource.kind == "job":
            record_job(self.session, self.resource, observed)
        self.reconciler.outputs[self.resource.id] = dict(observed.outputs)
        return True

    async def _is_ours(self, observed: ObservedState) -> bool:
        if self.created or self.resource.retain_on_destroy:
            return True
        if ownership_of(observed, self.record, self.session.deployment.lineage) != "none":
            return True
        return await owned_by_request_id(self.session, self.resource)

    def _save_operation(self, operation: str) -> None:
        self.record.operation = operation
        self.session.save()


async def owned_by_request_id(session: Session, resource: Resource) -> bool:
    """Ask the cloud whether our unfinished create made an unlabelled resource: its request id proves it."""
    record = session.deployment.resources.get(resource.id)
    if record is None or record.origin != "intended" or not record.request_id:
        return False
    outputs = {id: known.facts for id, known in session.deployment.resources.items()}
    context = resource_context(session, resource, outputs)
    return await asyncio.to_thread(driver_for(resource.kind).owns, session.cloud, context)


def _record_created(record: ResourceRecord, observed: ObservedState) -> None:
    record.origin, record.operation, record.done_at, record.identity = "created", "", now(), observed.identity
    record.facts |= {key: value for key, value in observed.outputs.items() if value}
