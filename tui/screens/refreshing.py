"""A screen that shows what a look at the cloud finds; the look goes on beside the screen until that is left."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.controllers.threads import LoopThread
from grpo_wizard.tui.screens.base import WizardScreen

T = TypeVar("T")


class RefreshingScreen(WizardScreen):
    """Draws what is known, then looks: `draw` and `action_look` are each screen's own."""

    def __init__(self) -> None:
        super().__init__()
        self.error: WizardError | None = None
        self._refresh_thread: LoopThread | None = None

    def draw(self) -> None:
        """Shows what is known now."""
        raise NotImplementedError

    def action_refresh(self) -> Any:
        """Looks at the cloud anew."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Draws what is known, then looks at the cloud."""
        self.draw()
        self.call_after_refresh(self.action_refresh)

    def on_unmount(self) -> None:
        """Nobody waits for a look that nobody sees."""
        self.cancel_refresh()

    def cancel_refresh(self) -> None:
        """Ends a look under way: what it would find belongs to answers that have changed."""
        if self._refresh_thread is not None:
            self._refresh_thread.cancel()

    async def _refresh_in_thread(
        self, name: str, fetch: Callable[[], Coroutine[Any, Any, T]], on_result: Callable[[T], None]
    ) -> WizardError | None:
        """Asks in a thread named so, and hands the answer to `seen` in the screen's own loop.

        Returns what the wizard can say of its failure; raises anything else.
        """

        async def main() -> None:
            answer = await fetch()
            assert self._refresh_thread is not None
            self._refresh_thread.post(on_result, answer)

        self._refresh_thread = LoopThread(name, main)
        error = await self._refresh_thread.ended
        if error is None or isinstance(error, WizardError):
            return error
        raise error
