"""The store: one JSON file per deployment, replaced atomically, never lost silently."""

import hashlib
import secrets
from pathlib import Path

from pydantic import ValidationError

import grpo_wizard
from grpo_wizard.state import atomic
from grpo_wizard.state.codec import decode, encode, explain
from grpo_wizard.state.errors import (
    StateChanged,
    StateExists,
    StateInvalid,
    StateMissing,
    StateNewer,
    StateNotSaved,
    StateUnreadable,
)
from grpo_wizard.state.home import Home, exists, make_folder, valid_name
from grpo_wizard.state.migrations import NewerVersion
from grpo_wizard.state.model import Deployment, Mode, StoredAnswers, now

TOOL = f"grpo-wizard {grpo_wizard.__version__}"


class StateStore:
    """Load and save the states in a home folder. Hold the deployment's `Lock` while changing its state."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def create(
        self, name: str, mode: Mode, answers: StoredAnswers, deployment_id: str | None = None
    ) -> Deployment:
        """Create a deployment and save it. `lineage` recovers the owner label of one whose state was lost.

        Raises StateExists (also for a damaged state), NameRefused, StateInvalid, StateNotSaved.
        """
        file = self.home.state_file(name)
        make_folder(file.parent)
        try:
            mark = deployment_id or "g" + secrets.token_hex(5)
            deployment = Deployment(lineage=mark, mode=mode, name=valid_name(name), answers=answers)
        except ValidationError as error:
            raise StateInvalid(explain(error)) from None
        with atomic.file_lock(file):
            if self.home.has_state(name):
                raise StateExists(name, file)
            self._write(deployment, file)
        return deployment

    def load(self, name: str) -> Deployment:
        """Load the state saved last. Raises StateMissing, StateUnreadable, StateNewer."""
        file = self.home.state_file(name)
        if not self.home.has_state(name):
            raise StateMissing(name, file)
        try:
            return decode(file.read_bytes(), name)
        except FileNotFoundError:
            raise self._unreadable(name, "the file is missing, but its backup exists") from None
        except OSError as error:
            raise self._unreadable(name, error.strerror or str(error)) from error
        except NewerVersion as error:
            raise StateNewer(file, error.version, error.tool) from None
        except ValueError as error:
            raise self._unreadable(name, str(error)) from None

    def save(self, deployment: Deployment) -> Deployment:
        """Save the state and increment its serial, in place. On an error, object and file are unchanged.

        Raises StateChanged, StateInvalid, StateNotSaved; and, for what is on disk, what `load` raises.
        """
        file = self.home.state_file(deployment.name)
        with atomic.file_lock(file):
            found = self.load(deployment.name)
            if (found.serial, found.lineage) != (deployment.serial, deployment.lineage):
                raise StateChanged(file, deployment.serial, found.serial)
            self._write(deployment, file, since=found.updated_at)
        return deployment

    def restore_backup(self, name: str) -> Deployment:
        """Restore the backup; the damaged state is kept in a copy.

        Raises StateMissing, StateUnreadable (no good backup either), StateNotSaved.
        """
        file, backup = self.home.state_file(name), self.home.backup_file(name)
        if not self.home.has_state(name):
            raise StateMissing(name, file)
        with atomic.file_lock(file):
            try:
                deployment = decode(backup.read_bytes(), name)
            except (OSError, ValueError) as error:
                raise self._unreadable(name, f"its backup cannot be read either: {error}") from None
            if exists(file) and _copy_unreadable(file) is None:
                raise StateNotSaved(file, "the damaged file could not be copied")
            deployment.serial += 1  # the state that was lost had this serial; the next must be higher
            self._write(deployment, file, keep_backup=True)
        return deployment

    def archive(self, name: str) -> list[Path]:
        """Rename state and backup, so that the name can be used again. Return their new paths.

        Raises StateMissing, StateNotSaved.
        """
        file, backup = self.home.state_file(name), self.home.backup_file(name)
        if not self.home.has_state(name):
            raise StateMissing(name, file)
        with atomic.file_lock(file):
            try:
                return [_archive_file(each) for each in (file, backup) if exists(each)]
            except OSError as error:
                raise StateNotSaved(file, error.strerror or str(error)) from error

    def _write(self, deployment: Deployment, file: Path, since: str = "", keep_backup: bool = False) -> None:
        stamp = {"serial": deployment.serial + 1, "updated_at": now(), "tool": TOOL}
        saved = deployment.model_copy(update=stamp)
        data = encode(saved)
        backup = None if keep_backup else self.home.backup_file(deployment.name)
        try:
            atomic.replace(file, data, backup)
        except OSError as error:
            raise StateNotSaved(file, error.strerror or str(error), since) from error
        deployment.serial, deployment.updated_at, deployment.tool = saved.serial, saved.updated_at, saved.tool

    def _unreadable(self, name: str, reason: str) -> StateUnreadable:
        file, backup = self.home.state_file(name), self.home.backup_file(name)
        try:
            decode(backup.read_bytes(), name)
            good = backup
        except (OSError, ValueError):
            good = None
        return StateUnreadable(file, reason, _copy_unreadable(file), good)


def _copy_unreadable(file: Path) -> Path | None:
    """Copy a damaged file, once per content; None if it cannot be copied."""
    try:
        data = file.read_bytes()
        copy = file.with_name(f"{file.name}.unreadable-{hashlib.sha256(data).hexdigest()[:8]}")
        if not copy.exists():
            atomic.replace(copy, data, backup=None)
    except OSError:
        return None
    return copy


def _archive_file(file: Path) -> Path:
    return file.replace(file.with_name(f"{file.name}.aside-{secrets.token_hex(4)}"))
