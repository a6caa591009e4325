"""The store: one JSON file a deployment, never half written, never silently lost."""

import hashlib
import json
import math
import secrets
import shutil
from pathlib import Path
from typing import Any

import grpo_wizard
from grpo_wizard.state import atomic
from grpo_wizard.state.errors import (
    StateChanged,
    StateExists,
    StateInvalid,
    StateMissing,
    StateNewer,
    StateNotSaved,
    StateUnreadable,
)
from grpo_wizard.state.home import Home, make_folder, valid_name
from grpo_wizard.state.migrations import NewerVersion, upgrade
from grpo_wizard.state.model import Answers, Deployment, Mode, now
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

TOOL = f"grpo-wizard {grpo_wizard.__version__}"


class Store:
    """Reads and writes the states under a home folder. Hold the deployment's `Lock` while changing it."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def create(self, name: str, mode: Mode, answers: Answers, lineage: str | None = None) -> Deployment:
        """Begin a deployment and save it. `lineage` takes over the mark of one whose state was lost.

        Raises StateExists (also for a damaged state or a backup alone), NameRefused, StateInvalid, StateNotSaved.
        """
        file = self.home.state_file(name)
        make_folder(file.parent)
        try:
            mark = lineage or "g" + secrets.token_hex(5)
            deployment = Deployment(lineage=mark, mode=mode, name=valid_name(name), answers=answers)
        except ValidationError as error:
            raise StateInvalid(_explain(error)) from None
        with atomic.guarded(file):
            if self.home.known(name):
                raise StateExists(name, file)
            self._write(deployment, file)
        return deployment

    def load(self, name: str) -> Deployment:
        """The state as saved last. Raises StateMissing, StateUnreadable, StateNewer."""
        file = self.home.state_file(name)
        if not self.home.known(name):
            raise StateMissing(name, file)
        try:
            return decode(file.read_bytes(), name)
        except FileNotFoundError:
            raise self._unreadable(name, "the file is gone, but its backup is there") from None
        except OSError as error:
            raise self._unreadable(name, error.strerror or str(error)) from error
        except NewerVersion as error:
            raise StateNewer(file, error.version, error.tool) from None
        except ValueError as error:
            raise self._unreadable(name, str(error)) from None

    def save(self, deployment: Deployment) -> Deployment:
        """Write the state and raise its serial, in place. On an error the object and the file stay as they were.

        Raises StateChanged, StateInvalid, StateNotSaved; and, for what is on disk, what `load` raises.
        """
        file = self.home.state_file(deployment.name)
        with atomic.guarded(file):
            found = self.load(deployment.name)
            if (found.serial, found.lineage) != (deployment.serial, deployment.lineage):
                raise StateChanged(file, deployment.serial, found.serial)
            self._write(deployment, file, since=found.updated_at)
        return deployment

    def restore_backup(self, name: str) -> Deployment:
        """Put the backup in the state's place, whose bytes are kept in a copy.

        Raises StateMissing, StateUnreadable (no good backup either), StateNotSaved.
        """
        file, backup = self.home.state_file(name), self.home.backup_file(name)
        if not self.home.known(name):
            raise StateMissing(name, file)
        with atomic.guarded(file):
            try:
                deployment = decode(backup.read_bytes(), name)
            except (OSError, ValueError) as error:
                raise self._unreadable(name, f"its backup cannot be read either: {error}") from None
            if file.exists() and _copy_aside(file) is None:
                raise StateNotSaved(file, "no copy of the damaged file could be made")
            deployment.serial += 1  # the state that was lost had this serial; the next must be higher
            self._write(deployment, file, keep_backup=True)
        return deployment

    def set_aside(self, name: str) -> list[Path]:
        """Move state and backup away, so that the name is free for a rebuild from the cloud. Returns where to."""
        moved = []
        with atomic.guarded(self.home.state_file(name)):
            for file in (self.home.state_file(name), self.home.backup_file(name)):
                if file.exists():
                    moved.append(file.replace(_free(file, "aside")))
        return moved

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
        return StateUnreadable(file, reason, _copy_aside(file), good)


def encode(deployment: Deployment) -> bytes:
    """The document, UTF-8. What is written can be read back: checked here. Raises StateInvalid."""
    try:
        document = deployment.model_dump(mode="python", warnings="error")
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)
        data = text.encode() + b"\n"
        Deployment.model_validate(document)
    except ValidationError as error:
        raise StateInvalid(_explain(error)) from None
    except UnicodeError:
        raise StateInvalid("Text that is not valid Unicode.") from None
    except (TypeError, ValueError, RecursionError, PydanticSerializationError) as error:
        raise StateInvalid(f"{error}") from None
    return data


def decode(data: bytes, name: str) -> Deployment:
    """The deployment in a document. Raises NewerVersion, or ValueError with the reason in words."""
    if not data.strip(b" \t\r\n\0"):
        raise ValueError("it is empty")
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_not_finite, parse_float=_finite)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is cut short or damaged at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the one error of a bad document
    try:
        deployment = Deployment.model_validate(upgrade(document))
    except ValidationError as error:
        raise ValueError(_explain(error)) from None
    if deployment.name != name:
        raise ValueError(f"it belongs to the deployment {deployment.name}")
    return deployment


def _explain(error: ValidationError) -> str:
    # Only place and rule: the value itself may be long, or not for everyone's eyes.
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'document'}: {e['msg']}" for e in error.errors()[:3])


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is not finite")
    return number


def _not_finite(text: str) -> Any:
    raise ValueError(f"the number {text} is not finite")


def _copy_aside(file: Path) -> Path | None:
    """A copy of a damaged file, one for each content however often it is met; None if none can be made."""
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
        copy = file.with_name(f"{file.name}.unreadable-{digest}")
        if not copy.exists():
            shutil.copyfile(file, copy)
            copy.chmod(0o600)
    except OSError:
        return None
    return copy


def _free(file: Path, word: str) -> Path:
    stamp = now().replace(":", "").replace("-", "")
    return file.with_name(f"{file.name}.{word}-{stamp}-{secrets.token_hex(2)}")
