"""apply or destroy, run by this process beside the screens; or another process's, watched through its journal."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.lock import holder
from grpo_wizard.tui.controllers.deployment import Desk
from grpo_wizard.tui.controllers.threads import Background
from grpo_wizard.tui.viewmodels.deployments import at_work
from grpo_wizard.tui.viewmodels.run_progress import Story, usual_times

if TYPE_CHECKING:
    from grpo_wizard.steps.core.events import Event
    from grpo_wizard.steps.deployment.session import Session

Make = Callable[["Session"], AsyncIterator["Event"]]


class EngineRun:
    """`story` is as far as the events go. `words` are what a process of its own would be called with to go on."""

    def __init__(self, desk: Desk, words: list[str], story: Story | None = None) -> None:
        self.desk, self.words = desk, words
        self.story = story or Story()
        self._background: Background | None = None
        self._session: Session | None = None

    async def start(self, make: Make) -> None:
        """Opens the clients and begins. Raises WizardError."""
        session = self._session = await self.desk.session()
        self.story.usual = usual_times(session.resources(), session.cloud.pace)
        journal = Journal(self.desk.home.journal_file(self.desk.name))

        def tell(event: Event) -> None:
            document = json.loads(json.dumps(event.document()))
            journal.append(document)
            assert self._background is not None
            self._background.say(self.story.take, document)

        known = threading.Event()

        async def main() -> None:
            from grpo_wizard.steps.core.events import Event

            known.wait()  # the first event may come before the line below has said who tells it
            try:
                async for event in make(session):
                    tell(event)
            except WizardError as error:
                tell(Event("summary", None, {"ok": False, "failed": [error.as_dict()]}))

        self._background = Background("engine", main)
        known.set()
        self._background.ended.add_done_callback(_unexpected)

    @property
    def is_running(self) -> bool:
        """Whether it still works."""
        return self._background is not None and self._background.is_running

    async def pause(self) -> None:
        """Ends it at the next safe point: no call is under way any more, and everything is written down."""
        if self._background is not None:
            self._background.cancel()
            await asyncio.wait([self._background.ended])


def _unexpected(future: asyncio.Future[BaseException | None]) -> None:
    """What was not foreseen ends the app with its traceback, as it would in the foreground."""
    error = future.result()
    if error is not None:
        raise error


class Attached:
    """Another process's run, or the last one there was, through the journal."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.story = Story()
        self._journal = Journal(desk.home.journal_file(desk.name))
        self._offset = 0
        try:
            # Another process's pace is not known here before its rehearsal answers; real life is the safe guess.
            pace = 1.0 if not desk.is_rehearsal else _pace(desk)
            from grpo_wizard.steps.registry import all_resources

            self.story.usual = usual_times(all_resources(desk.answers()), pace)
        except WizardError:
            pass

    @property
    def is_running(self) -> bool:
        """Whether somebody works on the deployment at this moment; a wizard that only stays open does not."""
        return not self.desk.writable and at_work(
            holder(self.desk.home, self.desk.name),
            self.story.begun,
            ended=self.story.summary is not None,
        )

    def read(self) -> bool:
        """Takes what the journal holds since the last time. True when there was something."""
        documents, self._offset = self._journal.read(self._offset)
        for document in documents:
            if "event" in document and "time" in document:
                self.story.take(document)
        return bool(documents)


def _pace(desk: Desk) -> float:
    speed: Any = desk.speed or 120
    return float("inf") if speed == "max" else float(speed)
