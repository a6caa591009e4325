"""One process works on a deployment at a time. The lock ends with its process: `kill -9` leaves none behind."""

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from grpo_wizard.state.errors import LockHeld, StateError
from grpo_wizard.state.home import Home, make_folder
from grpo_wizard.state.model import now

_ACQUIRE_TIMEOUT_S = 0.5
"""How long `acquire` tries, in seconds: longer than reading the owner takes, and than an owner needs to sign."""
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)


@dataclass(frozen=True)
class LockOwner:
    """The owner of a lock. `since` is UTC, ISO 8601."""

    pid: int
    host: str
    since: str
    command: str


class Lock:
    """`with Lock(home, name, "apply"):`. Raises LockHeld if another process, or another Lock here, has it."""

    def __init__(self, home: Home, name: str, command: str) -> None:
        self.name = name
        self.path = home.lock_file(name)
        self.command = command
        self._descriptor: int | None = None

    def __enter__(self) -> "Lock":
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Acquire the lock and write its owner. Raises LockHeld, StateError."""
        make_folder(self.path.parent)
        descriptor = _open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            self._wait_for_lock(descriptor)
            _write_owner(descriptor, LockOwner(os.getpid(), socket.gethostname(), now(), self.command))
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Release the lock by closing the file: an unlock in a forked child would release the parent's too."""
        _held.discard(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _wait_for_lock(self, descriptor: int) -> None:
        until = time.monotonic() + _ACQUIRE_TIMEOUT_S
        while not _try_flock(descriptor, fcntl.LOCK_EX, self.path):
            if time.monotonic() > until:
                who = _read_owner(descriptor) or LockOwner(0, "", "", "")
                raise LockHeld(self.name, who.pid, who.host, who.since, who.command)
            time.sleep(0.02)


def lock_owner(home: Home, name: str) -> LockOwner | None:
    """Return the present owner of the lock, or None. Creates nothing and blocks nobody."""
    path = home.lock_file(name)
    if not path.exists():
        return None
    descriptor = _open(path, os.O_RDONLY)
    try:
        if _try_flock(descriptor, fcntl.LOCK_SH, path):
            return None
        return _read_owner(descriptor) or LockOwner(0, "", "", "")
    finally:
        os.close(descriptor)


_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


def _release_in_child() -> None:
    # A fork shares the lock; a child that outlives a killed parent would keep it.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _lock_error(path, error) from error


def _try_flock(descriptor: int, kind: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise _lock_error(path, error) from error
    return True


def _lock_error(path: Path, error: OSError) -> StateError:
    return StateError(
        "The deployment cannot be locked",
        f"{path}: {error.strerror or error}.",
        "Choose a home folder on another disk with --home.",
    )


def _write_owner(descriptor: int, who: LockOwner) -> None:
    text = json.dumps(asdict(who)).encode()
    os.ftruncate(descriptor, 0)
    # On a full disk the lock holds without a signature; saving will say that the disk is full.
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, text, 0)


def _read_owner(descriptor: int) -> LockOwner | None:
    try:
        return LockOwner(**json.loads(os.pread(descriptor, 65536, 0)))
    except (ValueError, TypeError):
        return None
