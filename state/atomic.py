"""Replace a file atomically: a reader, even after a power cut, sees the old or the new content, never a mix."""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from grpo_wizard.state.errors import StateNotSaved


@contextlib.contextmanager
def file_lock(file: Path) -> Iterator[None]:
    """Hold a lock for this file, so that comparing and replacing it is atomic. Raises StateNotSaved."""
    guard = file.with_name(f".{file.name}.guard")
    try:
        descriptor = os.open(guard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateNotSaved(file, error.strerror or str(error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace(file: Path, data: bytes, backup: Path | None) -> None:
    """Replace the file's content with `data`, mode 0600; the old content becomes `backup`.

    Raises OSError, with the old file untouched.

    Call it inside `guarded`: the temporary file's name is fixed, so that one left by a kill is overwritten.
    """
    fresh = file.with_name(f".{file.name}.new")
    try:
        _write_whole(fresh, data)
        if backup is not None and file.exists():
            _make_backup(file, backup)
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync_folder(file.parent)


def _write_whole(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
        if os.fstat(descriptor).st_size != len(data):
            raise OSError(errno.EIO, "the file is shorter than what was written")
    finally:
        os.close(descriptor)


def _make_backup(file: Path, backup: Path) -> None:
    """Hard-link the file as `backup`, before the new file takes its name."""
    spare = backup.with_name(f".{backup.name}.new")
    spare.unlink(missing_ok=True)
    try:
        try:
            os.link(file, spare)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            shutil.copy2(file, spare)  # a file system without hard links
        spare.replace(backup)
    finally:
        # Also after success: POSIX renames nothing where both names are one file, as after a kill here.
        spare.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    # The new file is in place by now; some network disks cannot sync a folder.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
