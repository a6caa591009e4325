"""Taking down one resource: only what this deployment created, and only when it is really gone is it said to be."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Literal

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.registry import driver_for
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import ObservedState, Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.plan import ownership_of
from grpo_wizard.steps.engine.refresh import read, resource_context

EmitEvent = Callable[[Event], None]


async def delete_resource(
    session: Session, resource: Resource, observed: ObservedState, emit: EmitEvent
) -> Literal["deleted", "kept", "gone"]:
    """Deletes it if it is ours; keeps and names it if it is not, or if it stays by design."""
    fate = planned_deletion(session, resource, observed)
    if fate == "gone":
        session.remove_record(resource.id)
        session.save()
        return "gone"
    if fate == "keep":
        emit(events.notice(_retain_reason(resource), resource.id))
        return "kept"
    started = asyncio.get_running_loop().time()
    emit(events.started(resource.id, "delete", f"delete {resource.kind} {resource.name}"))
    await delete_and_wait(session, resource, observed, emit)
    session.remove_record(resource.id)
    session.save()
    emit(events.done(resource.id, "delete", asyncio.get_running_loop().time() - started))
    return "deleted"


def planned_deletion(
    session: Session, resource: Resource, observed: ObservedState
) -> Literal["delete", "keep", "gone"]:
    """What `take_down` will do with it: known before anything is touched."""
    pending = _create_pending(session, resource)
    if observed.state == "absent" and not pending:
        return "gone"
    if resource.retain_on_destroy or resource.data_source:
        return "keep"
    record, lineage = session.deployment.resources.get(resource.id), session.deployment.lineage
    ours = ownership_of(observed, record, lineage) == "created" or observed.state == "absent"
    return "delete" if ours else "keep"


def _retain_reason(resource: Resource) -> str:
    name = f"{resource.kind.replace('_', ' ')} {resource.name}"
    if resource.retain_on_destroy or resource.data_source:
        return f"{name} {resource.note or 'stays'}"
    return f"{name} was not made by this deployment: it stays"


def _create_pending(session: Session, resource: Resource) -> bool:
    """A create that was sent and not seen to end: the thing may appear a moment later."""
    record = session.deployment.resources.get(resource.id)
    return record is not None and record.origin == "intended" and bool(record.operation or record.request_id)


async def delete_and_wait(
    session: Session, resource: Resource, observed: ObservedState, emit: EmitEvent
) -> None:
    """Sends the delete until it is accepted, then waits until nothing is seen any more. Raises WizardError."""
    removal = _ResourceDeleter(session, resource, emit)
    for wait in backoff.poll_intervals(session.cloud.time_scale):
        try:
            if await removal.step():
                return
        except WizardError as error:
            await removal.retry_or_raise(error)
            continue
        removal.check_deadline()
        await asyncio.sleep(wait)


RETRY_NOTICE_SECONDS = 30.0
_FOREIGN_BLOCKERS = re.compile(r"/(firewalls/(?!gke-|k8s-)|subnetworks/)[a-z0-9-]+")


def _blocked_by_foreign(error: CloudError) -> bool:
    """A firewall rule or subnet of somebody else's holds the network: no waiting takes it away, and neither do we.

    Ours stand above the network and are gone by then.
    """
    return error.kind == "in_use" and bool(_FOREIGN_BLOCKERS.search(error.detail))


class _ResourceDeleter:
    def __init__(self, session: Session, resource: Resource, emit: EmitEvent) -> None:
        self.session, self.resource, self.emit = session, resource, emit
        self.driver = driver_for(resource.kind)
        self.operation, self.last_message, self.pending_create_done, self.force_deleted = "", "", False, False
        self.retry_delays = backoff.retry_delays(session.cloud.time_scale)
        self.last_retry_message, self.last_retry_at = "", 0.0
        self.started = asyncio.get_running_loop().time()

    async def step(self) -> bool:
        cloud, task = self.session.cloud, resource_context(self.session, self.resource, {}, self._notice)
        if not self.operation:
            await self._await_pending_create()
        if self.operation:
            progress = await asyncio.to_thread(self.driver.progress, cloud, task, self.operation)
            if not progress.done:
                return False
            self.operation = ""
        sight = await read(self.session, self.resource, {})
        if sight.state == "absent":
            return True
        if sight.state == "deleting":
            self._report_waiting(sight.detail or "being deleted")
            return False
        if (
            ownership_of(
                sight,
                self.session.deployment.resources.get(self.resource.id),
                self.session.deployment.lineage,
            )
            != "created"
        ):
            raise CloudError(
                "conflict",
                f"{self.resource.kind} {self.resource.name} was not made by this deployment",
                "",
                "it stays",
            )
        self.operation = await asyncio.to_thread(self.driver.delete, cloud, task, sight)
        return False

    async def _await_pending_create(self) -> None:
        """Waits for a create that an earlier run left behind: what is still being made cannot be deleted."""
        record = self.session.deployment.resources.get(self.resource.id)
        if self.pending_create_done or record is None or not record.operation:
            return
        task = resource_context(self.session, self.resource, {}, self._notice)
        self._report_waiting("waiting for its creation to end before deleting it")
        for wait in backoff.poll_intervals(self.session.cloud.time_scale):
            try:
                progress = await asyncio.to_thread(
                    self.driver.progress, self.session.cloud, task, record.operation
                )
            except CloudError as error:
                if error.transient and not error.operation_ended:
                    raise
                break  # it failed or is forgotten: the look decides
            if progress.done:
                record.origin = "created"
                break
            await asyncio.sleep(wait)
        self.pending_create_done, record.operation = True, ""
        self.session.save()

    def check_deadline(self) -> None:
        """Raises when what was asked to go is still going after much longer than is usual."""
        if not self._is_overdue():
            return
        resource = self.resource
        where = f" --namespace={resource.parent['namespace']}" if "namespace" in resource.parent else ""
        look = f"kubectl describe {resource.kind.replace('_', '')} {resource.name}{where}"
        raise CloudError(
            "slow",
            f"{resource.kind} {resource.name} takes longer to go than it should",
            f"{self.last_message or 'being deleted'}: something else may still use it",
            "see who uses it, then run destroy again: it goes on by looking",
            look if "cluster" in resource.parent else "",
        )

    def _is_overdue(self) -> bool:
        waited = asyncio.get_running_loop().time() - self.started
        return waited > backoff.timeout(self.resource, self.session.cloud.time_scale)

    async def retry_or_raise(self, error: WizardError) -> None:
        """In use and busy pass with time (a peering is held for minutes after its last user); others only a few times."""
        if isinstance(error, CloudError) and error.kind == "not_found":
            self.operation = ""
            return
        patient = (
            isinstance(error, CloudError)
            and error.kind in ("in_use", "busy")
            and not _blocked_by_foreign(error)
        )
        if isinstance(error, CloudError) and error.kind == "in_use" and await self._try_force_delete():
            return
        if not (isinstance(error, CloudError) and error.transient) or (
            self._is_overdue() if patient else not self.retry_delays
        ):
            raise error
        self.operation = "" if patient or error.operation_ended else self.operation
        wait = max(0.1, 10.0 / self.session.cloud.time_scale) if patient else self.retry_delays.pop(0)
        self._report_retry(f"{error.title}: {error.detail}"[:300], wait)
        await asyncio.sleep(wait)

    def _report_retry(self, text: str, wait: float) -> None:
        """The same trouble is told once, and then twice a minute."""
        now = asyncio.get_running_loop().time()
        if text != self.last_retry_message or now - self.last_retry_at > RETRY_NOTICE_SECONDS:
            self.last_retry_message, self.last_retry_at = text, now
            self.emit(events.retry(self.resource.id, text, wait))

    async def _try_force_delete(self) -> bool:
        """The harder way, once, when the gentle one has failed for long."""
        waited = asyncio.get_running_loop().time() - self.started
        if self.force_deleted or waited < backoff.force_delete_after(self.session.cloud.time_scale):
            return False
        self.force_deleted = True
        task = resource_context(self.session, self.resource, {}, self._notice)
        started: str | None = await asyncio.to_thread(self.driver.force_delete, self.session.cloud, task)
        self.operation = started or ""
        return bool(self.operation)

    def _notice(self, text: str) -> None:
        self.emit(events.notice(text, self.resource.id))

    def _report_waiting(self, detail: str) -> None:
        if detail != self.last_message:
            self.last_message = detail
            self.emit(
                events.waiting(self.resource.id, detail, asyncio.get_running_loop().time() - self.started)
            )
