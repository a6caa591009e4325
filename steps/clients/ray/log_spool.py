"""The local copy of a job's log: bytes have the same offsets as on the head."""

from __future__ import annotations

import os
from pathlib import Path

from grpo_wizard.state.errors import WizardError


class LogSpoolError(WizardError):
    """The local copy cannot be written."""


class LogSpool:
    """An append-only file, 0600. Up to `exact_size` the bytes come from the head's file itself.

    After that they came as text through Ray, which turns carriage returns into newlines: readable, but not the same
    bytes. They are replaced as soon as the file can be read again; until then a file beside it keeps the number.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._exact_size_path = path, path.with_name(path.name + ".exact")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self.size = self.exact_size = os.fstat(self._fd).st_size
            if self._exact_size_path.exists():
                self.exact_size = min(self.size, int(self._exact_size_path.read_text() or 0))
        except (OSError, ValueError) as error:
            raise self._write_error(error) from error

    def append(self, data: bytes, exact: bool) -> int:
        """Append data; return the offset of its first byte."""
        start, rest = self.size, memoryview(data)
        try:
            if not exact and self.exact_size == self.size:
                self._exact_size_path.write_text(str(self.exact_size))
            while rest:
                written = os.write(self._fd, rest)
                self.size, rest = self.size + written, rest[written:]
        except OSError as error:
            raise self._write_error(error) from error
        if exact:
            self.exact_size = self.size
        return start

    def truncate(self, size: int) -> None:
        """Drop everything after `size`."""
        try:
            os.ftruncate(self._fd, size)
            self.size, self.exact_size = size, min(self.exact_size, size)
            if self.exact_size == self.size:
                self._exact_size_path.unlink(missing_ok=True)
        except OSError as error:
            raise self._write_error(error) from error

    def text_length(self) -> int:
        """Length in bytes of Ray's text of the same content: there CR LF becomes one newline."""
        pairs, before, left = 0, b"", self.exact_size
        with self.path.open("rb") as file:
            while piece := file.read(min(1 << 20, left)):
                pairs += piece.count(b"\r\n") + (before == b"\r" and piece[:1] == b"\n")
                before, left = piece[-1:], left - len(piece)
        return self.size - pairs

    def close(self) -> None:
        """Close the file; its content stays."""
        os.close(self._fd)

    def _write_error(self, error: Exception) -> LogSpoolError:
        return LogSpoolError(
            "The copy of the job's log cannot be written",
            f"{self.path}: {error}",
            "Free disk space there, or choose another home folder with --home.",
        )
