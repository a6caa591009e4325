"""The state file: read whole or rejected, replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

from grpo_wizard.steps.emulator.context import Record
from grpo_wizard.steps.emulator.process import EmulatorError

JSON = dict[str, Any]
VERSION = 1  # a file of another version is rejected


class StoreUnreadable(EmulatorError):
    """The state file cannot be read. It is left unchanged."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"The emulator's state {path} cannot be read: {why}. The file was not changed. Move it away to start with "
            "an empty project, or replace it with a working copy."
        )


def read(path: Path) -> tuple[int, list[Record], list[JSON]]:
    """Return (serial, records, events) of the file. Raises StoreUnreadable."""
    try:
        data = msgspec.json.decode(path.read_bytes())
        version = data["version"]
        if version != VERSION:
            raise StoreUnreadable(
                path, f"its version is {version}, but this program can read only version {VERSION}"
            )
        return int(data["serial"]), [Record(**raw) for raw in data["records"]], list(data["events"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, UnicodeDecodeError, OSError) as problem:
        raise StoreUnreadable(path, f"{problem}" or type(problem).__name__) from None


def replace(path: Path, data: bytes) -> None:
    """Write a temporary file in the same folder, then rename it, so that neither a kill nor a full disk truncates it.

    Raises OSError.
    """
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
