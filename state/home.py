"""The home folder, which holds every saved file.

<root>/deployments/<name>/state.json     and state.json.bak, journal.jsonl, audit.jsonl, lock, job.log
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from grpo_wizard.state.errors import HomeUnusable, InvalidName

_NAME = re.compile(r"[a-z][-a-z0-9]{0,39}")


def valid_name(name: str) -> str:
    """Return the name if it is valid. Raises InvalidName."""
    if _NAME.fullmatch(name):
        return name
    raise InvalidName(
        f"{name[:60]!r} is not a valid deployment name",
        "A name must be 1 to 40 characters long, contain only lowercase letters, digits and hyphens, and start with a letter.",
        "Choose another name.",
    )


@dataclass(frozen=True)
class Home:
    """A home folder and the paths in it. It only names paths; the store creates the folders."""

    root: Path

    @classmethod
    def choose(cls, explicit: str | None = None) -> "Home":
        """Choose --home, else GRPO_WIZARD_HOME, else the platform's user state folder; create it, mode 0700, if absent."""
        chosen = explicit or os.environ.get("GRPO_WIZARD_HOME") or _default()
        root = Path(os.path.abspath(Path(chosen).expanduser()))  # noqa: PTH100 - resolve() would follow links
        make_folder(root)
        return cls(root)

    def deployments(self) -> list[str]:
        """List the deployments that have a state file, or only its backup. Raises HomeUnusable."""
        parent = self.root / "deployments"
        try:
            found = [entry.name for entry in parent.iterdir() if _NAME.fullmatch(entry.name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise HomeUnusable(parent, error.strerror or str(error)) from error
        return sorted(name for name in found if self.has_state(name))

    def has_state(self, name: str) -> bool:
        """Whether this deployment has a state file or a backup of one, readable or not."""
        return exists(self.state_file(name)) or exists(self.backup_file(name))

    def folder(self, name: str) -> Path:
        """The deployment's own folder. Raises InvalidName."""
        return self.root / "deployments" / valid_name(name)

    def state_file(self, name: str) -> Path:
        """The state: one JSON document."""
        return self.folder(name) / "state.json"

    def backup_file(self, name: str) -> Path:
        """The state as it was before the last save."""
        return self.folder(name) / "state.json.bak"

    def journal_file(self, name: str) -> Path:
        """The events, one JSON object per line."""
        return self.folder(name) / "journal.jsonl"

    def audit_file(self, name: str) -> Path:
        """The requests that write, one JSON object per line."""
        return self.folder(name) / "audit.jsonl"

    def lock_file(self, name: str) -> Path:
        """The lock file. It is never deleted: two processes could otherwise lock two files of the same name."""
        return self.folder(name) / "lock"

    def job_log_file(self, name: str) -> Path:
        """The job's log as read so far."""
        return self.folder(name) / "job.log"

    def checkpoint_steps_file(self, name: str) -> Path:
        """The steps of the job that began a checkpoint: one small JSON document."""
        return self.folder(name) / "checkpoints.json"


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, mode 0700. An existing folder keeps its mode. Raises HomeUnusable."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise HomeUnusable(folder, error.strerror or str(error)) from error


def exists(file: Path) -> bool:
    """Whether the folder has an entry of this name, even a broken link or a file without read permission."""
    # Path.exists() of Python 3.14 takes "permission denied" for absent, which would be "nothing deployed".
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _default() -> str:
    import platformdirs

    return platformdirs.user_state_dir("grpo-wizard", appauthor=False)
