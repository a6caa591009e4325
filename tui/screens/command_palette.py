"""The command palette and the help: both drawn from the bindings that hold at this moment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen

_HIDDEN_ACTIONS = ("focus_next", "focus_previous", "copy_text", "command_palette", "help_quit")


def active_keys(screen: Screen[Any]) -> list[tuple[str, str, str, str]]:
    """(key, label, tooltip, action) of what can be done here, each action once."""
    return list(_visible_bindings(screen))


def _visible_bindings(screen: Screen[Any]) -> Iterator[tuple[str, str, str, str]]:
    seen: set[str] = set()
    for _node, binding, enabled, tooltip in screen.active_bindings.values():
        name = binding.action.rpartition(".")[2]
        if (
            not enabled
            or not binding.id
            or not binding.description
            or binding.action in seen
            or name in _HIDDEN_ACTIONS
        ):
            continue
        seen.add(binding.action)
        yield (
            screen.app.get_key_display(binding),
            binding.description,
            tooltip or binding.tooltip,
            binding.action,
        )


class ActionProvider(Provider):
    """What the keys of this screen do, to be found by its name."""

    def _commands(self) -> Iterator[tuple[str, str, Any]]:
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
        """All of them."""
        for name, meaning, run in self._commands():
            yield DiscoveryHit(name, run, help=meaning)

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for name, meaning, run in self._commands():
            if (score := matcher.match(name)) > 0:
                yield Hit(score, matcher.highlight(name), run, help=meaning)
