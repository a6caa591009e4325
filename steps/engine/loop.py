"""The loop around one resource, shared by apply and destroy: take a step, wait, read again; retry what is temporary."""

from __future__ import annotations

import asyncio

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.errors import CloudError, set_project_id
from grpo_wizard.steps.clients.registry import driver_for
from grpo_wizard.steps.core import events
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.executor import EmitEvent
from grpo_wizard.steps.engine.refresh import resource_context

_RETRY_NOTICE_SECONDS = 30.0  # a retry for the same reason is reported again after this long


class ResourceLoop:
    """Runs `step` until it returns True. Subclasses say what a step is, which errors pass with time, and the deadline."""

    def __init__(self, session: Session, resource: Resource, emit: EmitEvent) -> None:
        self.session, self.resource, self.emit = session, resource, emit
        self.driver = driver_for(resource.kind)
        self.time_scale = session.cloud.time_scale
        self.retry_delays = backoff.retry_delays(self.time_scale)
        self.started = clock()
        self.last_message = ""
        self._last_retry, self._last_retry_at = "", 0.0

    async def run(self) -> None:
        """Raises WizardError when a step fails for good or the deadline has passed."""
        for delay in backoff.poll_intervals(self.time_scale):
            try:
                if await self.step():
                    return
            except WizardError as error:
                if not await self.handle_error(error):
                    await self._wait_or_raise(error)
                    continue
            self.check_deadline()
            await asyncio.sleep(delay)

    async def step(self) -> bool:
        """Read the resource and send at most one request. True when nothing is left to do."""
        raise NotImplementedError

    async def handle_error(self, error: WizardError) -> bool:
        """Deal with an error that is part of the process; True: go on as after a step."""
        return False

    def passes_with_time(self, error: CloudError) -> bool:
        """Whether `error` is retried until the deadline, instead of a few times."""
        raise NotImplementedError

    def check_deadline(self) -> None:
        """Raise CloudError when waiting any longer makes no sense."""
        raise NotImplementedError

    @property
    def elapsed(self) -> float:
        return clock() - self.started

    @property
    def is_overdue(self) -> bool:
        return self.elapsed > backoff.timeout(self.resource, self.time_scale)

    def context(self) -> ResourceContext:
        return resource_context(self.session, self.resource, {}, self.notice)

    def notice(self, text: str) -> None:
        self.emit(events.notice(text, self.resource.id))

    def report_waiting(self, detail: str) -> None:
        """Emit `detail` when it has changed."""
        if detail != self.last_message:
            self.last_message = detail
            self.emit(events.waiting(self.resource.id, detail, self.elapsed))

    async def _wait_or_raise(self, error: WizardError) -> None:
        if not isinstance(error, CloudError):
            raise error
        _add_location(error, self.resource)
        patient = self.passes_with_time(error)
        if not error.transient or (self.is_overdue if patient else not self.retry_delays):
            raise error
        delay = backoff.patient_delay(self.time_scale) if patient else self.retry_delays.pop(0)
        self._report_retry(error, delay, always=not patient)
        await asyncio.sleep(delay)

    def _report_retry(self, error: CloudError, delay: float, *, always: bool) -> None:
        text = f"{error.title}: {error.detail}"[:300] if error.detail else error.title
        now = clock()
        if always or text != self._last_retry or now - self._last_retry_at > _RETRY_NOTICE_SECONDS:
            self._last_retry, self._last_retry_at = text, now
            self.emit(events.retry(self.resource.id, text, delay))


def _add_location(error: CloudError, resource: Resource) -> None:
    """Say where: Google's text about a shortage names neither region nor zone, and a project by its number."""
    location = resource.parent.get("location") or resource.parent.get("region", "")
    if error.kind in ("quota", "stockout") and location and location not in error.title:
        error.title += f" ({location})"
    if "project" in resource.parent:
        set_project_id(error, resource.parent["project"])


def describe(resource: Resource) -> str:
    """`Node pool gpu-pool`, to begin a sentence with."""
    return f"{resource.kind.replace('_', ' ').capitalize()} {resource.name}"


def clock() -> float:
    return asyncio.get_running_loop().time()
