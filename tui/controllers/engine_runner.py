"""apply or destroy, run by this process beside the screens; or another process's, watched through its journal."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.lock import lock_owner
from grpo_wizard.steps.engine.options import RunOptions
from grpo_wizard.tui.controllers.deployment import DeploymentController
from grpo_wizard.tui.controllers.threads import LoopThread
from grpo_wizard.tui.viewmodels.deployments import is_owner_working
from grpo_wizard.tui.viewmodels.run_progress import RunProgress, duration_estimates

if TYPE_CHECKING:
    from grpo_wizard.steps.core.events import Event
    from grpo_wizard.steps.deployment.session import Session

EventStreamFactory = Callable[["Session"], AsyncIterator["Event"]]


class EngineRunner:
    """One run in a thread of its own. `progress` follows its events; `options` are what it was started with."""

    def __init__(
        self, controller: DeploymentController, options: RunOptions, progress: RunProgress | None = None
    ) -> None:
        self.controller, self.options = controller, options
        self.progress = progress or RunProgress()
        self._thread: LoopThread | None = None

    async def start(self, make_events: EventStreamFactory) -> None:
        """Open the clients and start the run. Raises WizardError."""
        session = await self.controller.session()
        self.progress.estimates = duration_estimates(session.resources(), session.cloud.time_scale)
        journal = Journal(self.controller.home.journal_file(self.controller.name))

        def record(event: Event) -> None:
            document = json.loads(json.dumps(event.to_json()))
            journal.append(document)
            assert self._thread is not None
            self._thread.post(self.progress.apply_event, document)

        ready = threading.Event()

        async def main() -> None:
            ready.wait()  # until self._thread is set, which `record` needs
            await _record_all(session, make_events(session), record)

        self._thread = LoopThread("engine", main)
        ready.set()
        self._thread.ended.add_done_callback(_raise_unexpected)

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_running

    async def pause(self) -> None:
        """Stop after the calls in flight, with everything written down."""
        if self._thread is not None:
            self._thread.cancel()
            await asyncio.wait([self._thread.ended])


async def _record_all(
    session: Session, stream: AsyncIterator[Event], record: Callable[[Event], None]
) -> None:
    """Record every event. A stream that raises ends with a summary too, so that a front end never waits for one."""
    from grpo_wizard.steps.core.events import Event
    from grpo_wizard.steps.engine.crash_report import unexpected_error

    try:
        async for event in stream:
            record(event)
    except Exception as error:
        known = error if isinstance(error, WizardError) else unexpected_error(session, error, "running")
        record(Event("summary", None, {"ok": False, "failed": [known.to_json()]}))


def _raise_unexpected(future: asyncio.Future[BaseException | None]) -> None:
    """End the app with the traceback of what even the run's own summary could not report (a full disk)."""
    error = future.result()
    if error is not None:
        raise error


class JournalRunner:
    """Another process's run, or the last one there was, through the journal."""

    def __init__(self, controller: DeploymentController) -> None:
        self.controller = controller
        self.progress = RunProgress()
        self._journal = Journal(controller.home.journal_file(controller.name))
        self._offset = 0
        try:
            # Another process's pace is not known here before its rehearsal answers; real life is the safe guess.
            pace = 1.0 if not controller.is_rehearsal else _time_scale(controller)
            from grpo_wizard.steps.registry import all_resources

            self.progress.estimates = duration_estimates(all_resources(controller.answers()), pace)
        except WizardError:
            pass

    @property
    def is_running(self) -> bool:
        """Whether somebody works on the deployment at this moment; a wizard that only stays open does not."""
        return not self.controller.writable and is_owner_working(
            lock_owner(self.controller.home, self.controller.name),
            self.progress.started_at,
            ended=self.progress.summary is not None,
        )

    def read(self) -> bool:
        """Takes what the journal holds since the last time. True when there was something."""
        documents, self._offset = self._journal.read(self._offset)
        for document in documents:
            if "event" in document and "time" in document:
                self.progress.apply_event(document)
        return bool(documents)


def _time_scale(controller: DeploymentController) -> float:
    speed: Any = controller.speed or 120
    return float("inf") if speed == "max" else float(speed)
