"""Temporary folders with short paths that a later test run removes where this one is killed.

Sockets and Ray need short paths, so these folders are not below pytest's own, which pytest cleans up itself.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_PARENT = Path(tempfile.gettempdir()) / f"gwt-{os.getuid()}"


def create_scratch_folder() -> Path:
    """Create a private folder, and delete those of processes that no longer run."""
    _PARENT.mkdir(mode=0o700, exist_ok=True)
    for folder in _PARENT.iterdir():
        if not psutil.pid_exists(int(folder.name.partition("-")[0])):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=_PARENT))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A scratch folder for the time of a block."""
    folder = create_scratch_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
