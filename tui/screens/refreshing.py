"""A screen that shows the state of the cloud, refreshed in a thread until the screen is left."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TypeVar

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.controllers.threads import LoopThread
from grpo_wizard.tui.screens.base import WizardScreen

T = TypeVar("T")


class RefreshingScreen(WizardScreen):
    """Draws what is known, then refreshes; a subclass defines `draw` and `action_refresh`."""

    def __init__(self) -> None:
        super().__init__()
        self.error: WizardError | None = None
        self._refresh_thread: LoopThread | None = None

    def draw(self) -> None:
        """Draw what is known now."""
        raise NotImplementedError

    def action_refresh(self) -> object:
        """Read the cloud again."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Draw what is known, then refresh."""
        self.draw()
        self.call_after_refresh(self.action_refresh)

    def on_unmount(self) -> None:
        """Cancel a refresh in progress."""
        self.cancel_refresh()

    def cancel_refresh(self) -> None:
        """Cancel a refresh in progress: its result would belong to old answers."""
        if self._refresh_thread is not None:
            self._refresh_thread.cancel()

    async def _refresh_in_thread(
        self, name: str, fetch: Callable[[], Coroutine[None, None, T]], on_result: Callable[[T], None]
    ) -> WizardError | None:
        """Run `fetch` in a thread called `name`; call `on_result` with its result in the screen's event loop.

        Returns the WizardError that `fetch` raised, if any; raises any other exception.
        """

        results: list[T] = []

        async def main() -> None:
            results.append(await fetch())

        self._refresh_thread = LoopThread(name, main)
        error = await self._refresh_thread.ended
        for result in results:  # empty if the refresh failed or was cancelled
            on_result(result)
        if error is None or isinstance(error, WizardError):
            return error
        raise error
