"""The command palette and the list of keys in the help, both built from the active bindings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen

_R = TypeVar("_R")
_HIDDEN_ACTIONS = ("focus_next", "focus_previous", "copy_text", "command_palette", "help_quit")


def active_keys(screen: Screen[_R]) -> list[tuple[str, str, str, str]]:
    """List (key, label, tooltip, action) of the active bindings, each action once."""
    return list(_visible_bindings(screen))


def _visible_bindings(screen: Screen[_R]) -> Iterator[tuple[str, str, str, str]]:
    seen: set[str] = set()
    for _node, binding, enabled, tooltip in screen.active_bindings.values():
        name = binding.action.rpartition(".")[2]
        if (
            not enabled
            or not binding.id
            or not binding.description
            or name in seen
            or name in _HIDDEN_ACTIONS
        ):
            continue
        seen.add(name)
        yield (
            screen.app.get_key_display(binding),
            binding.description,
            tooltip or binding.tooltip,
            binding.action,
        )


class ActionProvider(Provider):
    """Offers the actions of the current screen by name."""

    def _commands(self) -> Iterator[tuple[str, str, Callable[[], Awaitable[bool]]]]:
        screen, seen = self.screen, set[str]()
        for node, binding, enabled, tooltip in screen.active_bindings.values():
            if (
                enabled
                and binding.id
                and binding.description
                and binding.description not in seen
                and binding.action not in _HIDDEN_ACTIONS
            ):
                seen.add(binding.description)
                run = partial(screen.app.run_action, binding.action, default_namespace=node)
                yield (
                    f"{binding.description} ({screen.app.get_key_display(binding)})",
                    tooltip or binding.tooltip,
                    run,
                )

    async def discover(self) -> Hits:
        """Yield every action."""
        for name, description, run in self._commands():
            yield DiscoveryHit(name, run, help=description)

    async def search(self, query: str) -> Hits:
        """Yield the actions that match `query`."""
        matcher = self.matcher(query)
        for name, description, run in self._commands():
            if (score := matcher.match(name)) > 0:
                yield Hit(score, matcher.highlight(name), run, help=description)
