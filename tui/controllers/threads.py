"""Background work: blocking calls in daemon threads, and event loops in threads of their own.

Textual's thread workers use asyncio's default executor, which the app waits for on exit: a request that hangs for a
minute would block the terminal for a minute.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Run `function(*arguments)` in a daemon thread; if cancelled, its result is dropped."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result, error = None, None
        try:
            result = function(*arguments)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            pass  # the app has exited meanwhile

    threading.Thread(target=work, name=getattr(function, "__name__", "work"), daemon=True).start()
    return await future


class LoopThread:
    """A coroutine in its own event loop, in a thread. `cancel` stops it at its next `await`.

    It counts as ended only after the calls it has running in threads have returned: the safe point.
    """

    def __init__(self, name: str, main: Callable[[], Coroutine[None, None, None]]) -> None:
        self._main = main
        self._owner_loop = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._should_run = True
        self.ended: asyncio.Future[BaseException | None] = self._owner_loop.create_future()
        """Set in the creator's loop: None, or the exception raised; a cancellation counts as None."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def post(self, function: Callable[..., None], *arguments: object) -> None:
        """Call `function` in the creator's loop; do nothing if that loop is closed."""
        try:
            self._owner_loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass

    def cancel(self) -> None:
        """Cancel the coroutine."""
        self._should_run = False
        if self._loop is not None and self._task is not None:
            try:
                self._loop.call_soon_threadsafe(self._task.cancel)
            except RuntimeError:
                pass

    def join(self, seconds: float) -> bool:
        """Wait for the thread. Returns whether it ended within that time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def is_running(self) -> bool:
        """Whether the coroutine has not ended yet."""
        return not self.ended.done()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._run_main())
        except (asyncio.CancelledError, KeyboardInterrupt):
            pass
        except BaseException as raised:
            error = raised
        self.post(self._end, error)

    async def _run_main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._should_run:
            await self._main()

    def _end(self, error: BaseException | None) -> None:
        if not self.ended.done():
            self.ended.set_result(error)
