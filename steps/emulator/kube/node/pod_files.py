"""A container's files: its mounts, and the folders that lead to them. Nothing else of this machine."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PodFiles:
    """Maps a container's paths to paths of this machine."""

    mounts: dict[str, Path]

    def absolute(self, path: str, folder: str = "/") -> str:
        """Return the absolute, normalized path in the container."""
        return "/" + posixpath.normpath(posixpath.join(folder, path)).lstrip("/")

    def resolve(self, path: str) -> Path | None:
        """Return the file at a container's path; None if it does not exist, or a link leads out of its mount."""
        best = max(
            (m for m in self.mounts if path == m or path.startswith(m.rstrip("/") + "/")),
            key=len,
            default=None,
        )
        if best is None:
            return None
        base = self.mounts[best]
        found = base / path[len(best) :].lstrip("/")
        return found if found.resolve().is_relative_to(base.resolve()) and found.exists() else None

    def is_folder(self, path: str) -> bool:
        found = self.resolve(path)
        return (
            found.is_dir()
            if found
            else any(m.startswith(path.rstrip("/") + "/") for m in self.mounts) or path == "/"
        )

    def exists(self, path: str) -> bool:
        return self.resolve(path) is not None or self.is_folder(path)

    def children(self, path: str) -> list[str]:
        """Return the names in a folder, including mount points below it; sorted as by ls in the C locale."""
        found = self.resolve(path)
        names = {p.name for p in found.iterdir()} if found and found.is_dir() else set()
        head = path.rstrip("/") + "/"
        names |= {m[len(head) :].split("/")[0] for m in self.mounts if m.startswith(head) and m != head}
        return sorted(n for n in names if self.exists(head + n))

    def size(self, path: str) -> int:
        """Return the bytes of a file, or of all files below a folder."""
        if self.is_folder(path):
            return sum(self.size(f"{path.rstrip('/')}/{name}") for name in self.children(path))
        found = self.resolve(path)
        return found.stat().st_size if found else 0

    def read(self, path: str) -> bytes:
        found = self.resolve(path)
        return found.read_bytes() if found and found.is_file() else b""
