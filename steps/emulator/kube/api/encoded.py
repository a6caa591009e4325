"""The objects of one kind as JSON bytes, encoded once per version: shared by the state file and by lists."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from grpo_wizard.steps.emulator.context import JSON

ObjectKey = tuple[str, str]  # namespace ("" for none) and name


class EncodedObjects:
    """Encodes changed objects on demand, so that a burst of changes costs one encoding."""

    def __init__(self) -> None:
        self._encoded: dict[ObjectKey, msgspec.Raw] = {}
        self._pending: dict[ObjectKey, JSON] = {}

    def update(self, key: ObjectKey, obj: JSON) -> None:
        """Add or replace an object."""
        self._pending[key] = obj

    def discard(self, key: ObjectKey) -> None:
        self._encoded.pop(key, None)
        self._pending.pop(key, None)

    def get(self, key: ObjectKey) -> msgspec.Raw:
        """Return an object's newest version."""
        obj = self._pending.pop(key, None)
        if obj is not None:
            self._encoded[key] = msgspec.Raw(msgspec.json.encode(obj))
        return self._encoded[key]

    def encode_pending(self) -> Iterator[None]:
        """Encode what has changed, one object at a time."""
        for key in list(self._pending):
            if key in self._pending:
                self.get(key)
                yield

    def all(self) -> list[msgspec.Raw]:
        """Return every object's newest version."""
        for _ in self.encode_pending():
            pass
        return list(self._encoded.values())
