"""Deleting one resource: only what this deployment created, and reported as deleted only once it is really gone."""

from __future__ import annotations

import asyncio
import re
from typing import Literal

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.model import ObservedState, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.executor import EmitEvent
from grpo_wizard.steps.engine.loop import ResourceLoop, clock, describe
from grpo_wizard.steps.engine.plan import ownership_of
from grpo_wizard.steps.engine.refresh import read

_FOREIGN_BLOCKERS = re.compile(r"/(firewalls/(?!gke-|k8s-)|subnetworks/)[a-z0-9-]+")


async def delete_resource(
    session: Session, resource: Resource, observed: ObservedState, emit: EmitEvent
) -> Literal["deleted", "kept", "gone"]:
    """Delete the resource if it is ours; otherwise, or if it is retained, keep it and say why."""
    planned = planned_deletion(session, resource, observed)
    if planned == "gone":
        session.remove_record(resource.id)
        session.save()
        return "gone"
    if planned == "keep":
        emit(events.notice(_retain_reason(resource), resource.id))
        return "kept"
    started = clock()
    emit(events.started(resource.id, "delete", f"delete {resource.kind} {resource.name}"))
    await delete_and_wait(session, resource, observed, emit)
    session.remove_record(resource.id)
    session.save()
    emit(events.done(resource.id, "delete", clock() - started))
    return "deleted"


def planned_deletion(
    session: Session, resource: Resource, observed: ObservedState
) -> Literal["delete", "keep", "gone"]:
    """What destroy does with the resource, known before anything is deleted."""
    if observed.state == "absent" and not _create_pending(session, resource):
        return "gone"
    if resource.retain_on_destroy or resource.data_source:
        return "keep"
    record, deployment_id = session.deployment.resources.get(resource.id), session.deployment.lineage
    ours = ownership_of(observed, record, deployment_id) == "created" or observed.state == "absent"
    return "delete" if ours else "keep"


def _retain_reason(resource: Resource) -> str:
    # Front ends put this text behind the resource's name unless it begins with it.
    name = f"{resource.kind.replace('_', ' ')} {resource.name}"
    if resource.retain_on_destroy or resource.data_source:
        return f"{name}: {resource.note or 'kept by destroy'}"
    return f"{name} is kept because it was not created by this deployment"


def _create_pending(session: Session, resource: Resource) -> bool:
    """Whether a create was sent and its end never seen: the resource may appear a moment later."""
    record = session.deployment.resources.get(resource.id)
    return record is not None and record.origin == "intended" and bool(record.operation or record.request_id)


async def delete_and_wait(
    session: Session, resource: Resource, observed: ObservedState, emit: EmitEvent
) -> None:
    """Send the delete until it is accepted, then wait until the resource is gone. Raises WizardError."""
    await _ResourceDeleter(session, resource, emit).run()


def _blocked_by_foreign(error: CloudError) -> bool:
    """Whether somebody else's firewall rule or subnet holds the network: waiting does not remove it, nor do we.

    Our own depend on the network and are deleted by then.
    """
    return error.kind == "in_use" and bool(_FOREIGN_BLOCKERS.search(error.detail))


class _ResourceDeleter(ResourceLoop):
    """The loop around one deletion."""

    def __init__(self, session: Session, resource: Resource, emit: EmitEvent) -> None:
        super().__init__(session, resource, emit)
        self.operation, self.pending_create_done, self.force_deleted = "", False, False

    async def step(self) -> bool:
        cloud, context = self.session.cloud, self.context()
        if not self.operation:
            await self._await_pending_create()
        if self.operation:
            progress = await asyncio.to_thread(self.driver.progress, cloud, context, self.operation)
            if not progress.done:
                return False
            self.operation = ""
        observed = await read(self.session, self.resource, {})
        if observed.state == "absent":
            return True
        if observed.state == "deleting":
            self.report_waiting(observed.detail or "being deleted")
            return False
        self._require_ours(observed)
        self.operation = await asyncio.to_thread(self.driver.delete, cloud, context, observed)
        return False

    def _require_ours(self, observed: ObservedState) -> None:
        record = self.session.deployment.resources.get(self.resource.id)
        if ownership_of(observed, record, self.session.deployment.lineage) != "created":
            raise CloudError(
                "conflict",
                f"{describe(self.resource)} was not created by this deployment",
                "It will not be deleted.",
            )

    async def _await_pending_create(self) -> None:
        """Wait for a create that an earlier run left unfinished: Google refuses to delete before it has ended."""
        record = self.session.deployment.resources.get(self.resource.id)
        if self.pending_create_done or record is None or not record.operation:
            return
        self.report_waiting("waiting for its creation to finish before deleting it")
        for delay in backoff.poll_intervals(self.time_scale):
            try:
                progress = await asyncio.to_thread(
                    self.driver.progress, self.session.cloud, self.context(), record.operation
                )
            except CloudError as error:
                if error.transient and not error.operation_ended:
                    raise
                break  # it failed or is forgotten: the next read decides
            if progress.done:
                record.origin = "created"
                break
            await asyncio.sleep(delay)
        self.pending_create_done, record.operation = True, ""
        self.session.save()

    def check_deadline(self) -> None:
        if not self.is_overdue:
            return
        resource = self.resource
        namespace = f" --namespace={resource.parent['namespace']}" if "namespace" in resource.parent else ""
        command = f"kubectl describe {resource.kind.replace('_', '')} {resource.name}{namespace}"
        raise CloudError(
            "slow",
            f"{describe(resource)} is taking longer to delete than expected",
            f"Another resource may still be using it. Last reported status: {self.last_message or 'being deleted'}.",
            "Find out what is using it, then re-run destroy to resume.",
            command if "cluster" in resource.parent else "",
        )

    async def handle_error(self, error: WizardError) -> bool:
        if not isinstance(error, CloudError):
            return False
        if error.kind == "not_found":
            self.operation = ""
            return True
        if error.kind == "in_use" and await self._try_force_delete():
            return True
        if error.transient and (self.passes_with_time(error) or error.operation_ended):
            self.operation = ""  # the next step sends the delete again
        return False

    def passes_with_time(self, error: CloudError) -> bool:
        """In use and busy pass with time: a peering is held for minutes after its last user is gone."""
        return error.kind in ("in_use", "busy") and not _blocked_by_foreign(error)

    async def _try_force_delete(self) -> bool:
        """Delete by force, once, after the normal delete has failed for long."""
        if self.force_deleted or self.elapsed < backoff.force_delete_after(self.time_scale):
            return False
        self.force_deleted = True
        started = await asyncio.to_thread(self.driver.force_delete, self.session.cloud, self.context())
        self.operation = started or ""
        return bool(self.operation)
