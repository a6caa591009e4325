"""Migrate older documents to the current version: one pure function per version, applied in order.

A function takes the document of version n and returns that of version n + 1. Version 1 is the first that was
released, so that there is none yet; each one that comes brings a recorded document of its old version to the
tests.
"""

from collections.abc import Callable, Mapping
from typing import Any

from grpo_wizard.state.model import VERSION

Document = dict[str, Any]
Migration = Callable[[Document], Document]

MIGRATIONS: Mapping[int, Migration] = {}
"""Keyed by the version that a function migrates from."""


class NewerVersion(ValueError):
    """The document is newer than this release; `tool` wrote it, by its own account."""

    def __init__(self, version: int, tool: str = "") -> None:
        super().__init__(f"its version {version} is newer than this release supports")
        self.version = version
        self.tool = tool


def version_of(document: Document) -> int:
    """Return the document's version. Raises ValueError without one."""
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise ValueError("it has no version")  # noqa: TRY004 - the one error of a bad document
    return version


def upgrade(
    document: Document, migrations: Mapping[int, Migration] = MIGRATIONS, current: int = VERSION
) -> Document:
    """Migrate a document to version `current`. Raises NewerVersion, or ValueError when no migration exists."""
    version = version_of(document)
    if version > current:
        raise NewerVersion(version, str(document.get("tool", ""))[:60])
    while version < current:
        if version not in migrations:
            raise ValueError(f"no release has ever written version {version}")
        document = {**migrations[version](document), "version": version + 1}
        version += 1
    return document
