"""Bringing up one resource: look, act, wait, and look again. A kill at any instant resumes by looking."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.model import ResourceRecord, now
from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.errors import CloudError, set_project_id
from grpo_wizard.steps.clients.registry import driver_for
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import Diagnosis, ObservedState, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.delete import RETRY_NOTICE_SECONDS, delete_and_wait
from grpo_wizard.steps.engine.plan import Decision, foreign_drift, ownership_of
from grpo_wizard.steps.engine.refresh import read, resource_context
from grpo_wizard.steps.jobs.history import record_job

EmitEvent = Callable[[Event], None]


@dataclass(frozen=True)
class Outcome:
    """What became of a resource, for the count at the end."""

    status: Literal["created", "adopted", "kept"]


class Reconciler:
    """One apply. `facts` grow as resources become ready; specs of later ones take values from them."""

    def __init__(self, session: Session, adopt: bool) -> None:
        self.session, self.adopt = session, adopt
        self.outputs: dict[str, dict[str, str]] = {}

    async def reconcile(self, decision: Decision, emit: EmitEvent) -> Outcome:
        """Until it is ready, adopted or kept. Raises WizardError with what is wrong and the one fix."""
        resource = decision.resource
        started = _clock()
        if decision.action == "adopt":
            self._record_adopted(resource, decision.observed)
        if decision.action in ("adopt", "keep") and decision.observed.state == "ready":
            if resource.kind == "job":
                record_job(self.session, resource, decision.observed)
            self.outputs[resource.id] = dict(decision.observed.outputs)
            self._record_ownership(resource, decision)
            return Outcome("adopted" if decision.action == "adopt" else "kept")
        if decision.action == "keep" and decision.observed.state == "absent":
            return Outcome("kept")  # an API that nothing to be made needs
        emit(
            events.started(resource.id, decision.action, f"{decision.action} {resource.kind} {resource.name}")
        )
        if decision.action == "replace":
            await delete_and_wait(self.session, resource, decision.observed, emit)
        await _ResourceReconciler(self, resource, emit, started, change=decision.action == "change").run()
        emit(events.done(resource.id, decision.action, _clock() - started))
        self.session.deployment.timings[resource.id] = round(_clock() - started, 3)
        return Outcome("kept" if decision.action in ("keep", "change") else "created")

    def _record_adopted(self, resource: Resource, observed: ObservedState) -> None:
        record = self.session.record(resource)
        record.origin, record.identity, record.done_at = "adopted", observed.identity, now()
        self.session.save()

    def _record_ownership(self, resource: Resource, decision: Decision) -> None:
        """A resource that bears our mark but is not in the file (the file was lost, or a kill came in between) is written down."""
        record = self.session.record(resource) if decision.ownership == "created" else None
        if record is not None and record.origin != "created":
            _record_created(record, decision.observed)
            self.session.save()


class _ResourceReconciler:
    """The loop around one resource."""

    def __init__(
        self, reconciler: Reconciler, resource: Resource, emit: EmitEvent, started: float, change: bool
    ) -> None:
        self.reconciler, self.session, self.resource, self.emit = (
            reconciler,
            reconciler.session,
            resource,
            emit,
        )
        self.started, self.update_pending = started, change
        self.time_scale = reconciler.session.cloud.time_scale
        self.retry_delays: list[float] = backoff.retry_delays(self.time_scale)
        self.created = False  # our own create was seen to succeed
        self.retried_after_exists = False  # its create answered "already exists": look before judging
        self.last_message = ""
        self.last_retry_title, self.last_retry_at = (
            "",
            0.0,
        )  # what passes with time is told once, and then twice a minute
        self.diagnosis: Diagnosis | None = None  # what it was in at the last look, and since when
        self.diagnosed_at = started
        self.driver = driver_for(resource.kind)

    @property
    def record(self) -> ResourceRecord:
        return self.session.record(self.resource)

    def context(self) -> ResourceContext:
        return resource_context(
            self.session,
            self.resource,
            self.reconciler.outputs,
            lambda text: self.emit(events.notice(text, self.resource.id)),
        )

    async def run(self) -> None:
        for wait in backoff.poll_intervals(self.time_scale):
            try:
                if await self._step():
                    return
            except WizardError as error:
                await self._retry_or_raise(error)
                continue
            self._check_deadline()
            await asyncio.sleep(wait)

    def _check_deadline(self) -> None:
        """Raises when it takes too long, or when what is wrong with it will not mend by waiting."""
        trouble, now = self.diagnosis, _clock()
        senseless = trouble and now - self.diagnosed_at > backoff.diagnosis_timeout(
            trouble, self.resource, self.time_scale
        )
        if not senseless and now - self.started <= backoff.timeout(self.resource, self.time_scale):
            return
        raise CloudError(
            "slow",
            f"{self.resource.kind} {self.resource.name} takes longer than it should",
            trouble.cause if trouble else self.last_message,
            (trouble.remedy if trouble else "")
            or "look at it in the console, then run apply again: it goes on by looking",
        )

    async def _retry_or_raise(self, error: WizardError) -> None:
        """Temporary trouble is told and tried again, after a look; anything else ends this resource."""
        if isinstance(error, CloudError) and error.kind == "exists" and not self.retried_after_exists:
            self.retried_after_exists = True
            return
        # Nothing here switches on an API in the caller's own project, which creating another one needs.
        waits_for = ("busy",) if self.resource.kind == "project" else ("busy", "api_disabled")
        patient = isinstance(error, CloudError) and error.kind in waits_for
        waited = _clock() - self.started
        if (
            not (isinstance(error, CloudError) and error.transient)
            or (patient and waited > backoff.timeout(self.resource, self.time_scale))
            or (not patient and not self.retry_delays)
        ):
            raise _with_location(error, self.resource)
        wait = max(0.1, 10.0 / self.time_scale) if patient else self.retry_delays.pop(0)
        if (
            not patient
            or error.title != self.last_retry_title
            or _clock() - self.last_retry_at > RETRY_NOTICE_SECONDS
        ):
            self.last_retry_title, self.last_retry_at = error.title, _clock()
            self.emit(events.retry(self.resource.id, error.title, wait))
        await asyncio.sleep(wait)

    async def _step(self) -> bool:
        """One look and at most one act. True when the resource is ready and ours."""
        if self.record.operation and not await self._operation_done():
            return False
        sight = await read(self.session, self.resource, self.reconciler.outputs)
        if sight.state == "absent":
            self.record.facts |= (
                sight.outputs
            )  # what stood there before us (a shared peering) decides how it is undone
            await self._create()
            return False
        if sight.state == "ready":
            return await self._finish(sight)
        if sight.state == "failed" and self.driver.recreate_on_failure and not self.created:
            self.record.origin = "created"  # what failed is done with: the next one is a new request
            await self._create()
            return False
        if sight.state == "failed":
            raise CloudError(
                "failed",
                f"{self.resource.kind} {self.resource.name} is in an error",
                sight.detail,
                "run apply again: it is deleted and made anew where that loses nothing, else the plan says how",
            )
        self._report_waiting(sight.detail or sight.state)
        if (sight.diagnosis and sight.diagnosis.remedy) != (self.diagnosis and self.diagnosis.remedy):
            self.diagnosed_at = _clock()  # the same fix is the same trouble, however often it restarted since
        self.diagnosis = sight.diagnosis
        if sight.state == "creating":
            await asyncio.to_thread(self.driver.advance, self.session.cloud, self.context(), sight)
        return False

    async def _operation_done(self) -> bool:
        """Asks after the operation that was written down, perhaps by an earlier run."""
        try:
            progress = await asyncio.to_thread(
                self.driver.progress, self.session.cloud, self.context(), self.record.operation
            )
        except CloudError as error:
            if error.operation_ended or not error.transient:
                self.record.request_id = ""  # it has failed for good: a new try is a new request
                self._save_operation("")
            if error.kind == "not_found":
                return True  # operations are forgotten after a while; the look decides
            raise
        if progress.done:
            self.created = True
            self._save_operation("")
        else:
            self._report_waiting(progress.counter or "in progress")
        return progress.done

    async def _create(self) -> None:
        """The intent is on disk before the call, the operation's name right after it."""
        if not self.record.request_id or self.record.origin != "intended":
            self.record.request_id = str(uuid.uuid4())
        self.record.origin, self.record.intended_at, self.record.identity = "intended", now(), ""
        self.session.save()
        operation = await asyncio.to_thread(self.driver.create, self.session.cloud, self.context())
        self.created = self.created or not operation
        self._save_operation(operation)

    async def _finish(self, observed: ObservedState) -> bool:
        lineage = self.session.deployment.lineage
        if (
            not self.created
            and ownership_of(observed, self.record, lineage) == "none"
            and not self.resource.retain_on_destroy
            and not await owned_by_request_id(self.session, self.resource)
        ):
            raise CloudError(
                "conflict",
                f"{self.resource.kind} {self.resource.name} is there and was not made by this deployment",
                "it appeared after the plan"
                if not foreign_drift(self.resource, observed)
                else "and it does not fit",
                "run apply with --adopt to take it over, or choose another name",
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

    def _save_operation(self, operation: str) -> None:
        self.record.operation = operation
        self.session.save()

    def _report_waiting(self, detail: str) -> None:
        if detail != self.last_message:
            self.last_message = detail
            self.emit(events.waiting(self.resource.id, detail, _clock() - self.started))


async def owned_by_request_id(session: Session, resource: Resource) -> bool:
    """Whether a thing without a mark is ours all the same: a create of ours was begun, and its request id says that it made it."""
    record = session.deployment.resources.get(resource.id)
    if record is None or record.origin != "intended" or not record.request_id:
        return False
    task = resource_context(
        session, resource, {id: known.facts for id, known in session.deployment.resources.items()}
    )
    return await asyncio.to_thread(driver_for(resource.kind).owns, session.cloud, task)


def _with_location(error: WizardError, resource: Resource) -> WizardError:
    """What ran short somewhere says where: Google's own text names neither region nor zone."""
    place = resource.parent.get("location") or resource.parent.get("region", "")
    if (
        isinstance(error, CloudError)
        and error.kind in ("quota", "stockout")
        and place
        and place not in error.title
    ):
        error.title += f" ({place})"
    if isinstance(error, CloudError) and "project" in resource.parent:
        set_project_id(error, resource.parent["project"])
    return error


def _record_created(record: ResourceRecord, observed: ObservedState) -> None:
    record.origin, record.operation, record.done_at, record.identity = "created", "", now(), observed.identity
    record.facts |= {key: value for key, value in observed.outputs.items() if value}


def _clock() -> float:
    return asyncio.get_running_loop().time()
