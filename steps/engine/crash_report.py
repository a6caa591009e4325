"""An exception that nobody foresaw, as an error for the user: the traceback goes to a private file in the home."""

from __future__ import annotations

import os
import platform
import traceback
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.deployment.session import Session


def unexpected_error(session: Session, error: Exception, doing: str) -> WizardError:
    """Write a report file (mode 0600) about `error` and return the error to show. `doing`: "creating lustre x"."""
    folder = session.store.home.folder(session.deployment.name)
    cause = f"{type(error).__name__}: {error}"[:200]
    try:
        file = _write_report(folder, error, doing)
    except OSError as refused:
        return WizardError(
            "Unexpected error",
            f"{cause} (no report could be written: {refused.strerror})",
            "Report this as a bug.",
        )
    return WizardError(
        "Unexpected error",
        f"{cause} while {doing}",
        f"Report this as a bug and attach {file}. Then run the command again.",
    )


def _write_report(folder: Path, error: Exception, doing: str) -> Path:
    now = datetime.now(UTC)
    text = "".join(
        (
            f"grpo-wizard {_version()}, Python {platform.python_version()}, {platform.platform()}\n",
            f"{now.isoformat(timespec='seconds')} while {doing}\n\n",
            *traceback.format_exception(error),
        )
    )
    file = folder / f"error-{now.strftime('%Y%m%dT%H%M%S%f')}.txt"
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
    return file


def _version() -> str:
    try:
        return metadata.version("grpo-wizard")
    except metadata.PackageNotFoundError:
        return "(not installed)"
