"""Bringing up one resource: look, act, wait, and look again. A kill at any instant resumes by looking."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.model import ResourceRecord, now
from grpo_wizard.steps.clients.driver import Task
from grpo_wizard.steps.clients.errors import CloudError, in_project
from grpo_wizard.steps.clients.registry import driver
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import Resource, Sight, Trouble
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.delete import REPEAT_SECONDS, delete_and_wait
from grpo_wizard.steps.engine.plan import Decision, foreign_drift, origin_of
from grpo_wizard.steps.engine.refresh import look, task_for
from grpo_wizard.steps.jobs.history import remember_job

Tell = Callable[[Event], None]


@dataclass(frozen=True)
class Outcome:
    """What became of a resource, for the count at the end."""

    counted: Literal["created", "adopted", "kept"]


class Work:
    """One apply. `facts` grow as resources become ready; specs of later ones take values from them."""

    def __init__(self, session: Session, adopt: bool) -> None:
        self.session, self.adopt = session, adopt
        self.facts: dict[str, dict[str, str]] = {}

    async def bring_up(self, decision: Decision, tell: Tell) -> Outcome:
        """Until it is ready, adopted or kept. Raises WizardError with what is wrong and the one fix."""
        resource = decision.resource
        started = _clock()
        if decision.action == "adopt":
            self._adopted(resource, decision.sight)
        if decision.action in ("adopt", "keep") and decision.sight.state == "ready":
            if resource.kind == "job":
                remember_job(self.session, resource, decision.sight)
            self.facts[resource.id] = dict(decision.sight.facts)
            self._note_ownership(resource, decision)
            return Outcome("adopted" if decision.action == "adopt" else "kept")
        if decision.action == "keep" and decision.sight.state == "absent":
            return Outcome("kept")  # an API that nothing to be made needs
        tell(
            events.started(resource.id, decision.action, f"{decision.action} {resource.kind} {resource.name}")
        )
        if decision.action == "replace":
            await delete_and_wait(self.session, resource, decision.sight, tell)
        await _Pursuit(self, resource, tell, started, change=decision.action == "change").to_the_end()
        tell(events.done(resource.id, decision.action, _clock() - started))
        self.session.deployment.timings[resource.id] = round(_clock() - started, 3)
        return Outcome("kept" if decision.action in ("keep", "change") else "created")

    def _adopted(self, resource: Resource, sight: Sight) -> None:
        record = self.session.record(resource)
        record.origin, record.identity, record.done_at = "adopted", sight.identity, now()
        self.session.save()

    def _note_ownership(self, resource: Resource, decision: Decision) -> None:
        """A resource that bears our mark but is not in the file (the file was lost, or a kill came in between) is written down."""
        record = self.session.record(resource) if decision.origin == "created" else None
        if record is not None and record.origin != "created":
            _confirm(record, decision.sight)
            self.session.save()


class _Pursuit:
    """The loop around one resource."""

    def __init__(self, work: Work, resource: Resource, tell: Tell, started: float, change: bool) -> None:
        self.work, self.session, self.resource, self.tell = work, work.session, resource, tell
        self.started, self.change_wanted = started, change
        self.pace = work.session.cloud.pace
        self.failures: list[float] = backoff.tries(self.pace)
        self.made = False  # our own create was seen to succeed
        self.again = False  # its create answered "already exists": look before judging
        self.said = ""
        self.retried, self.retried_at = "", 0.0  # what passes with time is told once, and then twice a minute
        self.trouble: Trouble | None = None  # what it was in at the last look, and since when
        self.troubled = started
        self.driver = driver(resource.kind)

    @property
    def record(self) -> ResourceRecord:
        return self.session.record(self.resource)

    def task(self) -> Task:
        return task_for(
            self.session,
            self.resource,
            self.work.facts,
            lambda text: self.tell(events.notice(text, self.resource.id)),
        )

    async def to_the_end(self) -> None:
        for wait in backoff.looks(self.pace):
            try:
                if await self._one_turn():
                    return
            except WizardError as error:
                await self._again_or_raise(error)
                continue
            self._patient_enough()
            await asyncio.sleep(wait)

    def _patient_enough(self) -> None:
        """Raises when it takes too long, or when what is wrong with it will not mend by waiting."""
        trouble, now = self.trouble, _clock()
        senseless = trouble and now - self.troubled > backoff.senseless(trouble, self.resource, self.pace)
        if not senseless and now - self.started <= backoff.patience(self.resource, self.pace):
            return
        raise CloudError(
            "slow",
            f"{self.resource.kind} {self.resource.name} takes longer than it should",
            trouble.why if trouble else self.said,
            (trouble.fix if trouble else "")
            or "look at it in the console, then run apply again: it goes on by looking",
        )

    async def _again_or_raise(self, error: WizardError) -> None:
        """Temporary trouble is told and tried again, after a look; anything else ends this resource."""
        if isinstance(error, CloudError) and error.kind == "exists" and not self.again:
            self.again = True
            return
        # Nothing here switches on an API in the caller's own project, which creating another one needs.
        waits_for = ("busy",) if self.resource.kind == "project" else ("busy", "api_disabled")
        patient = isinstance(error, CloudError) and error.kind in waits_for
        waited = _clock() - self.started
        if (
            not (isinstance(error, CloudError) and error.transient)
            or (patient and waited > backoff.patience(self.resource, self.pace))
            or (not patient and not self.failures)
        ):
            raise _placed(error, self.resource)
        wait = max(0.1, 10.0 / self.pace) if patient else self.failures.pop(0)
        if not patient or error.title != self.retried or _clock() - self.retried_at > REPEAT_SECONDS:
            self.retried, self.retried_at = error.title, _clock()
            self.tell(events.retry(self.resource.id, error.title, wait))
        await asyncio.sleep(wait)

    async def _one_turn(self) -> bool:
        """One look and at most one act. True when the resource is ready and ours."""
        if self.record.operation and not await self._operation_done():
            return False
        sight = await look(self.session, self.resource, self.work.facts)
        if sight.state == "absent":
            self.record.facts |= (
                sight.facts
            )  # what stood there before us (a shared peering) decides how it is undone
            await self._create()
            return False
        if sight.state == "ready":
            return await self._settle(sight)
        if sight.state == "failed" and self.driver.repeatable and not self.made:
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
        self._say(sight.detail or sight.state)
        if (sight.trouble and sight.trouble.fix) != (self.trouble and self.trouble.fix):
            self.troubled = _clock()  # the same fix is the same trouble, however often it restarted since
        self.trouble = sight.trouble
        if sight.state == "creating":
            await asyncio.to_thread(self.driver.nudge, self.session.cloud, self.task(), sight)
        return False

    async def _operation_done(self) -> bool:
        """Asks after the operation that was written down, perhaps by an earlier run."""
        try:
            progress = await asyncio.to_thread(
                self.driver.progress, self.session.cloud, self.task(), self.record.operation
            )
        except CloudError as error:
            if error.ended or not error.transient:
                self.record.request_id = ""  # it has failed for good: a new try is a new request
                self._remember("")
            if error.kind == "not_found":
                return True  # operations are forgotten after a while; the look decides
            raise
        if progress.done:
            self.made = True
            self._remember("")
        else:
            self._say(progress.counter or "in progress")
        return progress.done

    async def _create(self) -> None:
        """The intent is on disk before the call, the operation's name right after it."""
        if not self.record.request_id or self.record.origin != "intended":
            self.record.request_id = str(uuid.uuid4())
        self.record.origin, self.record.intended_at, self.record.identity = "intended", now(), ""
        self.session.save()
        operation = await asyncio.to_thread(self.driver.create, self.session.cloud, self.task())
        self.made = self.made or not operation
        self._remember(operation)

    async def _settle(self, sight: Sight) -> bool:
        lineage = self.session.deployment.lineage
        if (
            not self.made
            and origin_of(sight, self.record, lineage) == "none"
            and not self.resource.kept
            and not await proved(self.session, self.resource)
        ):
            raise CloudError(
                "conflict",
                f"{self.resource.kind} {self.resource.name} is there and was not made by this deployment",
                "it appeared after the plan"
                if not foreign_drift(self.resource, sight)
                else "and it does not fit",
                "run apply with --adopt to take it over, or choose another name",
            )
        if sight.drift and self.change_wanted:
            self.change_wanted = False
            self._remember(
                await asyncio.to_thread(self.driver.change, self.session.cloud, self.task(), sight)
            )
            return False
        if self.record.origin != "adopted":
            _confirm(self.record, sight)
            self.session.save()
        if self.resource.kind == "job":
            remember_job(self.session, self.resource, sight)
        self.work.facts[self.resource.id] = dict(sight.facts)
        return True

    def _remember(self, operation: str) -> None:
        self.record.operation = operation
        self.session.save()

    def _say(self, detail: str) -> None:
        if detail != self.said:
            self.said = detail
            self.tell(events.waiting(self.resource.id, detail, _clock() - self.started))


async def proved(session: Session, resource: Resource) -> bool:
    """Whether a thing without a mark is ours all the same: a create of ours was begun, and its request id says that it made it."""
    record = session.deployment.resources.get(resource.id)
    if record is None or record.origin != "intended" or not record.request_id:
        return False
    task = task_for(
        session, resource, {id: known.facts for id, known in session.deployment.resources.items()}
    )
    return await asyncio.to_thread(driver(resource.kind).proof, session.cloud, task)


def _placed(error: WizardError, resource: Resource) -> WizardError:
    """What ran short somewhere says where: Google's own text names neither region nor zone."""
    place = resource.where.get("location") or resource.where.get("region", "")
    if (
        isinstance(error, CloudError)
        and error.kind in ("quota", "stockout")
        and place
        and place not in error.title
    ):
        error.title += f" ({place})"
    if isinstance(error, CloudError) and "project" in resource.where:
        in_project(error, resource.where["project"])
    return error


def _confirm(record: ResourceRecord, sight: Sight) -> None:
    record.origin, record.operation, record.done_at, record.identity = "created", "", now(), sight.identity
    record.facts |= {key: value for key, value in sight.facts.items() if value}


def _clock() -> float:
    return asyncio.get_running_loop().time()
