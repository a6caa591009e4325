"""A file of JSON lines that several processes read while one appends: the base of journal and audit file."""

import json
import math
import os
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import StateError, StateInvalid, StateNotSaved
from grpo_wizard.state.home import make_folder


def replace_non_finite(value: object) -> object:
    """Return the value with non-finite numbers as strings ("nan", "inf"), which JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(item) for item in value]
    return value


def encode_line(record: dict[str, object]) -> bytes:
    """Encode one line as UTF-8. Raises StateInvalid for a value that JSON cannot represent, and for secrets."""
    try:
        return json.dumps(replace_non_finite(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise StateInvalid(_reason(error)) from None


def _reason(error: Exception) -> str:
    # A UnicodeEncodeError's own text repeats what it could not encode.
    return "The text is not valid Unicode." if isinstance(error, UnicodeError) else f"{error}."


class JsonlFile:
    """Append whole lines to a file, mode 0600, with one write each, so that a kill leaves only whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Append one record. Raises StateInvalid, StateNotSaved."""
        line = encode_line(record)
        make_folder(self.path.parent)
        try:
            self._append(line)
        except OSError as error:
            raise StateNotSaved(self.path, error.strerror or str(error)) from error

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            whole = _newline_if_torn(descriptor) + line
            while whole:
                whole = whole[os.write(descriptor, whole) :]
        finally:
            os.close(descriptor)


def _newline_if_torn(descriptor: int) -> bytes:
    """Return a line break if the last line is incomplete (disk full, power cut), so that the next one is parsed alone."""
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def read_records(path: Path, offset: int = 0) -> tuple[list[dict[str, object]], int]:
    """Return whole records from `offset` (bytes) on, and the offset to continue from.

    A last line without its end is left for the next time; a torn line in between is passed over. A file
    shorter than `offset` was begun anew: it is read from its start. Raises StateError.
    """
    data, offset = _bytes(path, offset)
    whole, end, _ = data.rpartition(b"\n")
    if not end:
        return [], offset
    records = [record for line in whole.split(b"\n") if (record := _decode(line)) is not None]
    return records, offset + len(whole) + 1


def _bytes(path: Path, offset: int) -> tuple[bytes, int]:
    try:
        with path.open("rb") as file:
            if offset > os.fstat(file.fileno()).st_size:
                offset = 0
            file.seek(offset)
            return file.read(), offset
    except FileNotFoundError:
        return b"", 0
    except OSError as error:
        reason = f"{path}: {error.strerror or error}."
        raise StateError(f"{path.name} cannot be read", reason, "Grant read access to it.") from error


def _decode(line: bytes) -> dict[str, object] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
