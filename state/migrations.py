"""From older documents to today's: one pure function a version, applied one after another.

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
"""By the version that a function starts from."""


class NewerVersion(ValueError):
    """The document is newer than this release; `tool` is what wrote it, as it says."""

    def __init__(self, version: int, tool: str = "") -> None:
        super().__init__(f"its version {version} is newer than this release supports")
        self.version = version
        self.tool = tool


def version_of(document: Document) -> int:
    """The document's version. Raises ValueError if it names none."""
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise ValueError("it has no version")  # noqa: TRY004 - the one error of a bad document
    return version


def upgrade(
    document: Document, migrations: Mapping[int, Migration] = MIGRATIONS, current: int = VERSION
) -> Document:
    """The document in version `current`. Raises NewerVersion, or ValueError where no way leads there."""
    version = version_of(document)
    if version > current:
        raise NewerVersion(version, str(document.get("tool", ""))[:60])
    while version < current:
        if version not in migrations:
            raise ValueError(f"no release has written version {version}")
        document = {**migrations[version](document), "version": version + 1}
        version += 1
    return document
