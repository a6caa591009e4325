"""The objects of one kind as JSON bytes, made once for each version: the world's file and lists share them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from grpo_wizard.steps.emulator.server.context import JSON

Key = tuple[str, str]  # namespace ("" for none) and name


class Encoded:
    """What has changed is encoded when somebody asks, so that a burst of changes costs one encoding."""

    def __init__(self) -> None:
        self._known: dict[Key, msgspec.Raw] = {}
        self._stale: dict[Key, JSON] = {}

    def changed(self, key: Key, obj: JSON) -> None:
        """An object is new or stands in place of another."""
        self._stale[key] = obj

    def gone(self, key: Key) -> None:
        self._known.pop(key, None)
        self._stale.pop(key, None)

    def one(self, key: Key) -> msgspec.Raw:
        """An object's newest version."""
        obj = self._stale.pop(key, None)
        if obj is not None:
            self._known[key] = msgspec.Raw(msgspec.json.encode(obj))
        return self._known[key]

    def freshen(self) -> Iterator[None]:
        """Encodes what has changed, one object at a time."""
        for key in list(self._stale):
            if key in self._stale:
                self.one(key)
                yield

    def all(self) -> list[msgspec.Raw]:
        """Every object's newest version."""
        for _ in self.freshen():
            pass
        return list(self._known.values())
