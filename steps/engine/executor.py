"""Running work on many resources at once, in the order of the graph, as one stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Mapping

from grpo_wizard.steps.core.events import Event

EmitEvent = Callable[[Event], None]
Work = Callable[[str, EmitEvent], Awaitable[bool]]


class GraphRun:
    """Run `work` once for each resource id, as soon as every id that it waits for has succeeded.

    `work` returns whether it succeeded and reports its own errors. `skipped` maps each id that never ran
    to the id whose failure stopped it; it is complete when the stream of events has ended.
    """

    def __init__(self, waits_for: Mapping[str, Collection[str]], work: Work) -> None:
        self._waits_for, self._work = waits_for, work
        self._results: dict[str, asyncio.Future[bool]] = {}
        self.skipped: dict[str, str] = {}

    async def events(self) -> AsyncIterator[Event]:
        """Yield events as they happen, until all work has ended. Closing the stream cancels the work."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._results = {id: loop.create_future() for id in self._waits_for}

        async def run_all() -> None:
            try:
                await run_concurrently(self._run_one(id, queue.put_nowait) for id in self._waits_for)
            finally:
                queue.put_nowait(None)

        running = asyncio.create_task(run_all())
        try:
            while (event := await queue.get()) is not None:
                yield event
            await running
        finally:
            running.cancel()

    async def _run_one(self, id: str, emit: EmitEvent) -> None:
        for other in self._waits_for[id]:
            if not await self._results[other]:
                self.skipped.setdefault(id, self.skipped.get(other, other))
        ok = id not in self.skipped and await self._work(id, emit)
        self._results[id].set_result(ok)


async def run_concurrently(coroutines: Iterable[Coroutine[None, None, None]]) -> None:
    """Wait for all of them; the first exception cancels the others and is raised as it is, not in a group."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None
