"""The journal: every event of a deployment, one JSON object per line, for front ends in other processes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from grpo_wizard.state.jsonl import JsonlFile, read_records


class Journal:
    """The journal of a deployment. One process appends (it holds the lock); any number read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = JsonlFile(path)

    def append(self, event: dict[str, Any]) -> None:
        """Append one event. Raises StateInvalid, StateNotSaved."""
        self._lines.append(event)

    def read(self, since_offset: int = 0) -> tuple[list[dict[str, Any]], int]:
        """Return the events from this byte offset on, and the offset to continue from."""
        return read_records(self.path, since_offset)

    def end_offset(self) -> int:
        """Return the offset after the last event: reading from there returns only new ones."""
        return self.path.stat().st_size if self.path.exists() else 0

    def follow(
        self, since_offset: int = 0, *, interval: float = 0.2, ended: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, object]]:
        """Yield events as they are appended. Polls every `interval` seconds, once more after `ended()`."""
        last = False
        while True:
            events, since_offset = self.read(since_offset)
            yield from events
            if last:
                return
            last = ended()
            if not last:
                time.sleep(interval)

    async def follow_async(
        self, since_offset: int = 0, *, interval: float = 0.2, ended: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[dict[str, object]]:
        """Yield events as `follow` does, in an event loop."""
        last = False
        while True:
            events, since_offset = self.read(since_offset)
            for event in events:
                yield event
            if last:
                return
            last = ended()
            if not last:
                await asyncio.sleep(interval)
