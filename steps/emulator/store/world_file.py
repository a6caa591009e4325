"""The world's file: read whole or refused by name, replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

from grpo_wizard.steps.emulator.process import EmulatorError
from grpo_wizard.steps.emulator.server.context import Record

JSON = dict[str, Any]
VERSION = 1  # of the file; a newer program's file is not guessed at


class StoreUnreadable(EmulatorError):
    """The file is not this program's. It stays where it is, byte for byte."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"The rehearsal's world {path} cannot be read: {why}. It is left as it is: move it away to begin with an "
            "empty world, or put a good copy in its place."
        )


def read(path: Path) -> tuple[int, list[Record], list[JSON]]:
    """(serial, records, events) of the file. Raises Unreadable."""
    try:
        data = msgspec.json.decode(path.read_bytes())
        version = data["version"]
        if version != VERSION:
            raise StoreUnreadable(path, f"it is of version {version}, this program reads version {VERSION}")
        return int(data["serial"]), [Record(**raw) for raw in data["records"]], list(data["events"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, UnicodeDecodeError, OSError) as problem:
        raise StoreUnreadable(path, f"{problem}" or type(problem).__name__) from None


def replace(path: Path, data: bytes) -> None:
    """Temp file in the same folder, then replace: neither a kill nor a full disk cuts the file short. Raises OSError."""
    temporary = path.with_suffix(".tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
