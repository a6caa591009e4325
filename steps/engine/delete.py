"""Taking down one resource: only what this deployment created, and only when it is really gone is it said to be."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Literal

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.registry import driver
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import Resource, Sight
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.plan import origin_of
from grpo_wizard.steps.engine.refresh import look, task_for

Tell = Callable[[Event], None]


async def take_down(
    session: Session, resource: Resource, sight: Sight, tell: Tell
) -> Literal["deleted", "kept", "gone"]:
    """Deletes it if it is ours; keeps and names it if it is not, or if it stays by design."""
    fate = fate_of(session, resource, sight)
    if fate == "gone":
        session.forget(resource.id)
        session.save()
        return "gone"
    if fate == "keep":
        tell(events.notice(_why_it_stays(resource), resource.id))
        return "kept"
    started = asyncio.get_running_loop().time()
    tell(events.started(resource.id, "delete", f"delete {resource.kind} {resource.name}"))
    await delete_and_wait(session, resource, sight, tell)
    session.forget(resource.id)
    session.save()
    tell(events.done(resource.id, "delete", asyncio.get_running_loop().time() - started))
    return "deleted"


def fate_of(session: Session, resource: Resource, sight: Sight) -> Literal["delete", "keep", "gone"]:
    """What `take_down` will do with it: known before anything is touched."""
    pending = _still_coming(session, resource)
    if sight.state == "absent" and not pending:
        return "gone"
    if resource.kept or resource.existing:
        return "keep"
    record, lineage = session.deployment.resources.get(resource.id), session.deployment.lineage
    ours = origin_of(sight, record, lineage) == "created" or sight.state == "absent"
    return "delete" if ours else "keep"


def _why_it_stays(resource: Resource) -> str:
    name = f"{resource.kind.replace('_', ' ')} {resource.name}"
    if resource.kept or resource.existing:
        return f"{name} {resource.note or 'stays'}"
    return f"{name} was not made by this deployment: it stays"


def _still_coming(session: Session, resource: Resource) -> bool:
    """A create that was sent and not seen to end: the thing may appear a moment later."""
    record = session.deployment.resources.get(resource.id)
    return record is not None and record.origin == "intended" and bool(record.operation or record.request_id)


async def delete_and_wait(session: Session, resource: Resource, sight: Sight, tell: Tell) -> None:
    """Sends the delete until it is accepted, then waits until nothing is seen any more. Raises WizardError."""
    removal = _Removal(session, resource, tell)
    for wait in backoff.looks(session.cloud.pace):
        try:
            if await removal.one_turn():
                return
        except WizardError as error:
            await removal.again_or_raise(error)
            continue
        removal.patient_enough()
        await asyncio.sleep(wait)


REPEAT_SECONDS = 30.0
_THEIRS = re.compile(r"/(firewalls/(?!gke-|k8s-)|subnetworks/)[a-z0-9-]+")


def _held_by_others(error: CloudError) -> bool:
    """A firewall rule or subnet of somebody else's holds the network: no waiting takes it away, and neither do we.

    Ours stand above the network and are gone by then.
    """
    return error.kind == "in_use" and bool(_THEIRS.search(error.detail))


class _Removal:
    def __init__(self, session: Session, resource: Resource, tell: Tell) -> None:
        self.session, self.resource, self.tell = session, resource, tell
        self.driver = driver(resource.kind)
        self.operation, self.said, self.settled, self.insisted = "", "", False, False
        self.failures = backoff.tries(session.cloud.pace)
        self.told, self.told_at = "", 0.0
        self.started = asyncio.get_running_loop().time()

    async def one_turn(self) -> bool:
        cloud, task = self.session.cloud, task_for(self.session, self.resource, {}, self._notice)
        if not self.operation:
            await self._finish_pending()
        if self.operation:
            progress = await asyncio.to_thread(self.driver.progress, cloud, task, self.operation)
            if not progress.done:
                return False
            self.operation = ""
        sight = await look(self.session, self.resource, {})
        if sight.state == "absent":
            return True
        if sight.state == "deleting":
            self._say(sight.detail or "being deleted")
            return False
        if (
            origin_of(
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

    async def _finish_pending(self) -> None:
        """Waits for a create that an earlier run left behind: what is still being made cannot be deleted."""
        record = self.session.deployment.resources.get(self.resource.id)
        if self.settled or record is None or not record.operation:
            return
        task = task_for(self.session, self.resource, {}, self._notice)
        self._say("waiting for its creation to end before deleting it")
        for wait in backoff.looks(self.session.cloud.pace):
            try:
                progress = await asyncio.to_thread(
                    self.driver.progress, self.session.cloud, task, record.operation
                )
            except CloudError as error:
                if error.transient and not error.ended:
                    raise
                break  # it failed or is forgotten: the look decides
            if progress.done:
                record.origin = "created"
                break
            await asyncio.sleep(wait)
        self.settled, record.operation = True, ""
        self.session.save()

    def patient_enough(self) -> None:
        """Raises when what was asked to go is still going after much longer than is usual."""
        if not self._late():
            return
        resource = self.resource
        where = f" --namespace={resource.where['namespace']}" if "namespace" in resource.where else ""
        look = f"kubectl describe {resource.kind.replace('_', '')} {resource.name}{where}"
        raise CloudError(
            "slow",
            f"{resource.kind} {resource.name} takes longer to go than it should",
            f"{self.said or 'being deleted'}: something else may still use it",
            "see who uses it, then run destroy again: it goes on by looking",
            look if "cluster" in resource.where else "",
        )

    def _late(self) -> bool:
        waited = asyncio.get_running_loop().time() - self.started
        return waited > backoff.patience(self.resource, self.session.cloud.pace)

    async def again_or_raise(self, error: WizardError) -> None:
        """In use and busy pass with time (a peering is held for minutes after its last user); others only a few times."""
        if isinstance(error, CloudError) and error.kind == "not_found":
            self.operation = ""
            return
        patient = (
            isinstance(error, CloudError) and error.kind in ("in_use", "busy") and not _held_by_others(error)
        )
        if isinstance(error, CloudError) and error.kind == "in_use" and await self._insisted():
            return
        if not (isinstance(error, CloudError) and error.transient) or (
            self._late() if patient else not self.failures
        ):
            raise error
        self.operation = "" if patient or error.ended else self.operation
        wait = max(0.1, 10.0 / self.session.cloud.pace) if patient else self.failures.pop(0)
        self._say_again(f"{error.title}: {error.detail}"[:300], wait)
        await asyncio.sleep(wait)

    def _say_again(self, text: str, wait: float) -> None:
        """The same trouble is told once, and then twice a minute."""
        now = asyncio.get_running_loop().time()
        if text != self.told or now - self.told_at > REPEAT_SECONDS:
            self.told, self.told_at = text, now
            self.tell(events.retry(self.resource.id, text, wait))

    async def _insisted(self) -> bool:
        """The harder way, once, when the gentle one has failed for long."""
        waited = asyncio.get_running_loop().time() - self.started
        if self.insisted or waited < backoff.until_insisting(self.session.cloud.pace):
            return False
        self.insisted = True
        task = task_for(self.session, self.resource, {}, self._notice)
        started: str | None = await asyncio.to_thread(self.driver.insist, self.session.cloud, task)
        self.operation = started or ""
        return bool(self.operation)

    def _notice(self, text: str) -> None:
        self.tell(events.notice(text, self.resource.id))

    def _say(self, detail: str) -> None:
        if detail != self.said:
            self.said = detail
            self.tell(
                events.waiting(self.resource.id, detail, asyncio.get_running_loop().time() - self.started)
            )
